package belfry

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"net/url"
	"time"
)

// Queues limits, pauses and reads queues.
type Queues struct{ c *Client }

// path returns the path of a queue, or of what is below it.
func (q Queues) path(queue, below string) string { return "/queues/" + PathEscape(queue) + below }

// Get reads a queue, with the counts of its live runs and workers.
func (q Queues) Get(ctx context.Context, queue string, opts ...CallOption) (*Queue, error) {
	return get[Queue](ctx, q.c, q.path(queue, ""), params("include", "counts"), opts)
}

// List iterates over the queues.
func (q Queues) List(ctx context.Context, opts ...CallOption) iter.Seq2[Queue, error] {
	return list[Queue](ctx, q.c, "/queues", nil, opts)
}

// Workers iterates over the workers of a queue.
func (q Queues) Workers(ctx context.Context, queue string, opts ...CallOption) iter.Seq2[WorkerSession, error] {
	return list[WorkerSession](ctx, q.c, q.path(queue, "/sessions"), nil, opts)
}

// Limit replaces the limits of a queue. It creates the queue if there is none with this name.
func (q Queues) Limit(ctx context.Context, queue string, in QueueLimits, opts ...CallOption) (*Queue, error) {
	return put[Queue](ctx, q.c, q.path(queue, ""), in, opts)
}

// Pause stops the runs of a queue from starting until Resume. The note says why, for people.
func (q Queues) Pause(ctx context.Context, queue, note string, opts ...CallOption) (*Queue, error) {
	return post[Queue](ctx, q.c, q.path(queue, ":pause"), PauseQueueRequest{Note: note}, opts)
}

// Resume lets the runs of a queue start again.
func (q Queues) Resume(ctx context.Context, queue string, opts ...CallOption) (*Queue, error) {
	return post[Queue](ctx, q.c, q.path(queue, ":resume"), nil, opts)
}

// DeadLetters lists runs that have failed permanently, redrives them and discards them.
type DeadLetters struct{ c *Client }

// DeadLetterFilter selects dead letters. A field with its zero value selects all.
type DeadLetterFilter struct {
	Job                  string // name or id
	Queue                string
	Reason               string
	Cause                string // as in DeadLetters.Summary
	FailedFrom, FailedTo time.Time
}

func (f DeadLetterFilter) params() url.Values {
	return params("job", f.Job, "queue", f.Queue, "reason", f.Reason, "cause", f.Cause,
		"failed_from", instant(f.FailedFrom), "failed_to", instant(f.FailedTo))
}

// List iterates over the dead letters that a filter selects.
func (d DeadLetters) List(ctx context.Context, f DeadLetterFilter, opts ...CallOption) iter.Seq2[DeadLetter, error] {
	return list[DeadLetter](ctx, d.c, "/dead-letters", f.params(), opts)
}

// Summary groups the dead letters that a filter selects by cause, job, reason or queue, the largest group first.
func (d DeadLetters) Summary(ctx context.Context, by string, f DeadLetterFilter, opts ...CallOption) (*DeadLetterSummary, error) {
	query := f.params()
	query.Set("by", by)
	return get[DeadLetterSummary](ctx, d.c, "/dead-letters:summary", query, opts)
}

// Count counts what RedriveAll and DiscardAll would cover, and changes nothing.
func (d DeadLetters) Count(ctx context.Context, in OperationRequest, opts ...CallOption) (*DeadLetterCount, error) {
	in.DryRun = true
	return post[DeadLetterCount](ctx, d.c, "/dead-letters:redrive", in, opts)
}

// Redrive runs a dead letter again.
func (d DeadLetters) Redrive(ctx context.Context, run string, opts ...CallOption) (*RunDetail, error) {
	return post[RunDetail](ctx, d.c, "/dead-letters/"+PathEscape(run)+":redrive", nil, withKey(opts))
}

// Discard removes a dead letter. The run stays in history.
func (d DeadLetters) Discard(ctx context.Context, run string, opts ...CallOption) error {
	return d.c.call(ctx, Request{Method: http.MethodPost, Path: "/dead-letters/" + PathEscape(run) + ":discard"}, nil, opts)
}

// RedriveAll starts an operation that runs all dead letters of a filter again.
func (d DeadLetters) RedriveAll(ctx context.Context, in OperationRequest, opts ...CallOption) (*Operation, error) {
	return d.start(ctx, "/dead-letters:redrive", in, opts)
}

// DiscardAll starts an operation that removes all dead letters of a filter.
func (d DeadLetters) DiscardAll(ctx context.Context, in OperationRequest, opts ...CallOption) (*Operation, error) {
	return d.start(ctx, "/dead-letters:discard", in, opts)
}

// start starts an operation. A dry run starts none, so it is an error here.
func (d DeadLetters) start(ctx context.Context, path string, in OperationRequest, opts []CallOption) (*Operation, error) {
	if in.DryRun {
		return nil, errors.New("belfry: a dry run starts no operation; use Count")
	}
	return post[Operation](ctx, d.c, path, in, withKey(opts))
}

// Operations reads, aborts and undoes operations, such as those of DeadLetters.RedriveAll.
type Operations struct{ c *Client }

// Get reads an operation.
func (o Operations) Get(ctx context.Context, operation string, opts ...CallOption) (*Operation, error) {
	return get[Operation](ctx, o.c, "/operations/"+PathEscape(operation), nil, opts)
}

// Abort stops an operation. Completed work stays done.
func (o Operations) Abort(ctx context.Context, operation string, opts ...CallOption) (*Operation, error) {
	return post[Operation](ctx, o.c, "/operations/"+PathEscape(operation)+":abort", nil, opts)
}

// Undo starts an operation that restores the versions that jobs had before a relabel, a spread or an undo.
func (o Operations) Undo(ctx context.Context, operation string, in UndoRequest, opts ...CallOption) (*Bulk, error) {
	return o.c.bulk(ctx, "/operations/"+PathEscape(operation)+":undo", in, in.DryRun, opts)
}

// Secrets stores the secrets that targets use. Their values cannot be read.
type Secrets struct{ c *Client }

// Put stores a secret, or replaces its value.
func (s Secrets) Put(ctx context.Context, name string, in SecretRequest, opts ...CallOption) (*Secret, error) {
	return put[Secret](ctx, s.c, "/secrets/"+PathEscape(name), in, opts)
}

// Bind changes where a secret may be used. This needs the role admin.
func (s Secrets) Bind(ctx context.Context, name string, in SecretBinding, opts ...CallOption) (*Secret, error) {
	return result[Secret](ctx, s.c, Request{Method: http.MethodPatch, Path: "/secrets/" + PathEscape(name), Body: in}, opts)
}

// Delete deletes a secret.
func (s Secrets) Delete(ctx context.Context, name string, opts ...CallOption) error {
	return s.c.call(ctx, Request{Method: http.MethodDelete, Path: "/secrets/" + PathEscape(name)}, nil, opts)
}

// Keys creates and revokes API keys.
type Keys struct{ c *Client }

// Create creates a key. Only this response has its secret.
func (k Keys) Create(ctx context.Context, in KeyRequest, opts ...CallOption) (*NewKey, error) {
	return post[NewKey](ctx, k.c, "/keys", in, opts)
}

// List returns the keys of the namespace.
func (k Keys) List(ctx context.Context, opts ...CallOption) ([]Key, error) {
	return items[Key](ctx, k.c, "/keys", nil, opts)
}

// Revoke revokes a key.
func (k Keys) Revoke(ctx context.Context, key string, opts ...CallOption) error {
	return k.c.call(ctx, Request{Method: http.MethodPost, Path: "/keys/" + PathEscape(key) + ":revoke"}, nil, opts)
}

// Sessions lists and ends login sessions in the web UI: those of the client's own key, and, with the role admin, those
// of people who logged in through the identity provider.
type Sessions struct{ c *Client }

// List returns the sessions of the client's own key, newest first.
func (s Sessions) List(ctx context.Context, opts ...CallOption) ([]LoginSessionSummary, error) {
	return s.ListOf(ctx, "", opts...)
}

// ListOf returns the sessions of a person, newest first. The subject is the identity provider's id of the person.
func (s Sessions) ListOf(ctx context.Context, subject string, opts ...CallOption) ([]LoginSessionSummary, error) {
	return items[LoginSessionSummary](ctx, s.c, "/sessions", params("subject", subject), opts)
}

// Revoke ends all sessions of the client's own key, and returns how many there were.
func (s Sessions) Revoke(ctx context.Context, opts ...CallOption) (int64, error) {
	return s.RevokeOf(ctx, "", opts...)
}

// RevokeOf ends all sessions of a person, and returns how many there were. The subject is the identity provider's id of
// the person.
func (s Sessions) RevokeOf(ctx context.Context, subject string, opts ...CallOption) (int64, error) {
	ended, err := result[RevokedSessions](ctx, s.c,
		Request{Method: http.MethodPost, Path: "/sessions:revoke", Query: params("subject", subject)}, opts)
	if err != nil {
		return 0, err
	}
	return ended.Revoked, nil
}
