package belfry

import (
	"context"
	"iter"
	"time"
)

// Queues limits, pauses and reads queues.
type Queues struct{ api *ClientWithResponses }

// Get reads a queue, with the counts of its live runs and workers.
func (q Queues) Get(ctx context.Context, queue string, opts ...CallOption) (*Queue, error) {
	counts := GetQueueParamsIncludeCounts
	r, err := q.api.GetQueueWithResponse(ctx, queue, &GetQueueParams{Include: &counts}, opts...)
	if err != nil {
		return nil, err
	}
	return result(r.JSON200, r)
}

// List iterates over the queues.
func (q Queues) List(ctx context.Context, opts ...CallOption) iter.Seq2[Queue, error] {
	return Pages(func(token string) ([]Queue, string, error) {
		r, err := q.api.ListQueuesWithResponse(ctx, &ListQueuesParams{PageToken: optional(token)}, opts...)
		if err != nil {
			return nil, "", err
		}
		page, err := result(r.JSON200, r)
		if err != nil {
			return nil, "", err
		}
		return page.Items, page.NextPageToken, nil
	})
}

// Workers iterates over the workers of a queue.
func (q Queues) Workers(ctx context.Context, queue string, opts ...CallOption) iter.Seq2[WorkerSession, error] {
	return Pages(func(token string) ([]WorkerSession, string, error) {
		r, err := q.api.ListSessionsWithResponse(ctx, queue, &ListSessionsParams{PageToken: optional(token)}, opts...)
		if err != nil {
			return nil, "", err
		}
		page, err := result(r.JSON200, r)
		if err != nil {
			return nil, "", err
		}
		return page.Items, page.NextPageToken, nil
	})
}

// Limit replaces the limits of a queue. It creates the queue if there is none with this name.
func (q Queues) Limit(ctx context.Context, queue string, in QueueLimits, opts ...CallOption) (*Queue, error) {
	r, err := q.api.ReplaceQueueLimitsWithResponse(ctx, queue, in, opts...)
	if err != nil {
		return nil, err
	}
	return result(r.JSON200, r)
}

// Pause stops the runs of a queue from starting until Resume. The note says why, for people.
func (q Queues) Pause(ctx context.Context, queue, note string, opts ...CallOption) (*Queue, error) {
	r, err := q.api.PauseQueueWithResponse(ctx, queue, PauseQueueRequest{Note: note}, opts...)
	if err != nil {
		return nil, err
	}
	return result(r.JSON200, r)
}

// Resume lets the runs of a queue start again.
func (q Queues) Resume(ctx context.Context, queue string, opts ...CallOption) (*Queue, error) {
	r, err := q.api.ResumeQueueWithResponse(ctx, queue, opts...)
	if err != nil {
		return nil, err
	}
	return result(r.JSON200, r)
}

// DeadLetters lists runs that have failed permanently, redrives them and discards them.
type DeadLetters struct{ api *ClientWithResponses }

// DeadLetterFilter selects dead letters. A field with its zero value selects all.
type DeadLetterFilter struct {
	Job                  string // name or id
	Queue                string
	Reason               string
	Cause                string // as in DeadLetters.Summary
	FailedFrom, FailedTo time.Time
}

// List iterates over the dead letters that a filter selects.
func (d DeadLetters) List(ctx context.Context, f DeadLetterFilter, opts ...CallOption) iter.Seq2[DeadLetter, error] {
	in := ListDeadLettersParams{
		Job: optional(f.Job), Queue: optional(f.Queue), Reason: optional(f.Reason),
		Cause: optional(f.Cause), FailedFrom: optionalTime(f.FailedFrom), FailedTo: optionalTime(f.FailedTo),
	}
	return Pages(func(token string) ([]DeadLetter, string, error) {
		in.PageToken = optional(token)
		r, err := d.api.ListDeadLettersWithResponse(ctx, &in, opts...)
		if err != nil {
			return nil, "", err
		}
		page, err := result(r.JSON200, r)
		if err != nil {
			return nil, "", err
		}
		return page.Items, page.NextPageToken, nil
	})
}

// Summary groups the dead letters that a filter selects by cause, job, reason or queue, the largest group first.
func (d DeadLetters) Summary(
	ctx context.Context, by SummarizeDeadLettersParamsBy, f DeadLetterFilter, opts ...CallOption,
) (*DeadLetterSummary, error) {
	r, err := d.api.SummarizeDeadLettersWithResponse(ctx, &SummarizeDeadLettersParams{
		By: &by, Job: optional(f.Job), Queue: optional(f.Queue), Reason: optional(f.Reason), Cause: optional(f.Cause),
		FailedFrom: optionalTime(f.FailedFrom), FailedTo: optionalTime(f.FailedTo),
	}, opts...)
	if err != nil {
		return nil, err
	}
	return result(r.JSON200, r)
}

// Count counts what RedriveAll and DiscardAll would cover, and changes nothing.
func (d DeadLetters) Count(ctx context.Context, in OperationRequest, opts ...CallOption) (*DeadLetterCount, error) {
	in.DryRun = true
	r, err := d.api.RedriveDeadLettersWithResponse(ctx, nil, in, opts...)
	if err != nil {
		return nil, err
	}
	return result(r.JSON200, r)
}

// Redrive runs a dead letter again.
func (d DeadLetters) Redrive(ctx context.Context, run string, opts ...CallOption) (*RunDetail, error) {
	r, err := d.api.RedriveDeadLetterWithResponse(ctx, run, nil, withKey(opts)...)
	if err != nil {
		return nil, err
	}
	return result(r.JSON202, r)
}

// Discard removes a dead letter. The run stays in history.
func (d DeadLetters) Discard(ctx context.Context, run string, opts ...CallOption) error {
	_, err := d.api.DiscardDeadLetterWithResponse(ctx, run, opts...)
	return err
}

// RedriveAll starts an operation that runs all dead letters of a filter again.
func (d DeadLetters) RedriveAll(ctx context.Context, in OperationRequest, opts ...CallOption) (*Operation, error) {
	r, err := d.api.RedriveDeadLettersWithResponse(ctx, nil, in, withKey(opts)...)
	if err != nil {
		return nil, err
	}
	return result(r.JSON202, r)
}

// DiscardAll starts an operation that removes all dead letters of a filter.
func (d DeadLetters) DiscardAll(ctx context.Context, in OperationRequest, opts ...CallOption) (*Operation, error) {
	r, err := d.api.DiscardDeadLettersWithResponse(ctx, nil, in, withKey(opts)...)
	if err != nil {
		return nil, err
	}
	return result(r.JSON202, r)
}

// Operations reads, aborts and undoes operations, such as those of DeadLetters.RedriveAll.
type Operations struct{ api *ClientWithResponses }

// Get reads an operation.
func (o Operations) Get(ctx context.Context, operation string, opts ...CallOption) (*Operation, error) {
	r, err := o.api.GetOperationWithResponse(ctx, operation, opts...)
	if err != nil {
		return nil, err
	}
	return result(r.JSON200, r)
}

// Abort stops an operation. Completed work stays done.
func (o Operations) Abort(ctx context.Context, operation string, opts ...CallOption) (*Operation, error) {
	r, err := o.api.AbortOperationWithResponse(ctx, operation, opts...)
	if err != nil {
		return nil, err
	}
	return result(r.JSON200, r)
}

// Undo starts an operation that restores the versions that jobs had before a relabel, a spread or an undo.
func (o Operations) Undo(ctx context.Context, operation string, in UndoRequest, opts ...CallOption) (*Bulk, error) {
	r, err := o.api.UndoOperationWithResponse(ctx, operation, nil, in, withKey(opts)...)
	if err != nil {
		return nil, err
	}
	return bulk(r.JSON202, r.JSON200, r)
}

// Secrets stores the secrets that targets use. Their values cannot be read.
type Secrets struct{ api *ClientWithResponses }

// Put stores a secret, or replaces its value.
func (s Secrets) Put(ctx context.Context, name string, in SecretRequest, opts ...CallOption) (*Secret, error) {
	r, err := s.api.ReplaceSecretWithResponse(ctx, name, in, opts...)
	if err != nil {
		return nil, err
	}
	return result(r.JSON200, r)
}

// Bind changes where a secret may be used. This needs the role admin.
func (s Secrets) Bind(ctx context.Context, name string, in SecretBinding, opts ...CallOption) (*Secret, error) {
	r, err := s.api.UpdateSecretWithResponse(ctx, name, in, opts...)
	if err != nil {
		return nil, err
	}
	return result(r.JSON200, r)
}

// Delete deletes a secret.
func (s Secrets) Delete(ctx context.Context, name string, opts ...CallOption) error {
	_, err := s.api.DeleteSecretWithResponse(ctx, name, opts...)
	return err
}

// Keys creates and revokes API keys.
type Keys struct{ api *ClientWithResponses }

// Create creates a key. Only this response has its secret.
func (k Keys) Create(ctx context.Context, in KeyRequest, opts ...CallOption) (*NewKey, error) {
	r, err := k.api.CreateKeyWithResponse(ctx, in, opts...)
	if err != nil {
		return nil, err
	}
	return result(r.JSON201, r)
}

// List returns the keys of the namespace.
func (k Keys) List(ctx context.Context, opts ...CallOption) ([]Key, error) {
	r, err := k.api.ListKeysWithResponse(ctx, opts...)
	if err != nil {
		return nil, err
	}
	page, err := result(r.JSON200, r)
	if err != nil {
		return nil, err
	}
	return page.Items, nil
}

// Revoke revokes a key.
func (k Keys) Revoke(ctx context.Context, key string, opts ...CallOption) error {
	_, err := k.api.RevokeKeyWithResponse(ctx, key, opts...)
	return err
}

// Sessions lists and ends login sessions in the web UI: those of the client's own key, and, with the role admin, those
// of people who logged in through the identity provider.
type Sessions struct{ api *ClientWithResponses }

// List returns the sessions of the client's own key, newest first.
func (s Sessions) List(ctx context.Context, opts ...CallOption) ([]LoginSessionSummary, error) {
	return s.ListOf(ctx, "", opts...)
}

// ListOf returns the sessions of a person, newest first. The subject is the identity provider's id of the person.
func (s Sessions) ListOf(ctx context.Context, subject string, opts ...CallOption) ([]LoginSessionSummary, error) {
	r, err := s.api.ListLoginSessionsWithResponse(ctx, &ListLoginSessionsParams{Subject: optional(subject)}, opts...)
	if err != nil {
		return nil, err
	}
	page, err := result(r.JSON200, r)
	if err != nil {
		return nil, err
	}
	return page.Items, nil
}

// Revoke ends all sessions of the client's own key, and returns how many there were.
func (s Sessions) Revoke(ctx context.Context, opts ...CallOption) (int64, error) {
	return s.RevokeOf(ctx, "", opts...)
}

// RevokeOf ends all sessions of a person, and returns how many there were. The subject is the identity provider's id of
// the person.
func (s Sessions) RevokeOf(ctx context.Context, subject string, opts ...CallOption) (int64, error) {
	params := &RevokeLoginSessionsParams{Subject: optional(subject)}
	r, err := s.api.RevokeLoginSessionsWithResponse(ctx, params, opts...)
	if err != nil {
		return 0, err
	}
	ended, err := result(r.JSON200, r)
	if err != nil {
		return 0, err
	}
	return ended.Revoked, nil
}
