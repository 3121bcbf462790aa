package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/store"
)

// fromDead is the dead letters that a filter selects.
const fromDead = `
FROM dead_letter d JOIN queue q ON q.id = d.queue_id
WHERE q.namespace_id = @namespace AND (@queue = '' OR q.name = @queue)
  AND (@any_job OR d.partition = @partition AND d.job_id = @job) AND ` + wantDead

const countDead = `SELECT count(*) ` + fromDead

const insertOperation = `
INSERT INTO operation (id, namespace_id, kind, filter, failed_until, rate, state, count, actor, created_at, change,
                       count_more, next_at)
VALUES ($1, $2, $3, $4, now(), $5, 'running', $6, $7, now(), $8, $9, now())
RETURNING created_at`

// Operations has the operations on many dead letters, jobs and runs of one namespace, under row-level security.
type Operations struct{ api *API }

// Operations returns an Operations.
func (d *DB) Operations() *Operations { return &Operations{d.API()} }

// BeginOperation starts to change all dead letters, jobs or runs that a filter selects now.
func (s *Operations) BeginOperation(ctx context.Context, o job.OperationParams) (op job.Operation, err error) {
	what := "begin to " + string(o.Kind)
	if err := o.Validate(); err != nil {
		return op, fmt.Errorf("%s: %w", what, err)
	}
	o.Set = o.Set.Unique(o.Kind)
	op = job.Operation{
		Kind: o.Kind, Filter: o.Filter, Set: o.Set, Change: o.Change, Rate: o.Rate, State: job.OperationRunning, Actor: o.Actor,
	}
	if op.ID, err = uuid.NewV7(); err != nil {
		return op, fmt.Errorf("%s: %w", what, err)
	}
	switch {
	case o.Kind.OfRuns() && len(o.Set.IDs) > 0:
		op.Count = int64(len(o.Set.IDs)) // those that do not exist become failed items
	case o.Kind == job.SpreadJobs:
		p, err := s.PreviewSpread(ctx, o.Namespace, o.Set, o.Change)
		if err != nil {
			return op, fmt.Errorf("%s: %w", what, err)
		}
		op.Count, op.More = p.Changed, !p.All
	case o.Set.Undo != uuid.Nil: // jobs that were changed since become failed items
		if op.Count, err = s.api.countVersions(ctx, o.Namespace, o.Set.Undo); err != nil {
			return op, fmt.Errorf("%s: %w", what, err)
		}
	case !o.Kind.OfDeadLetters():
		n, err := s.CountSet(ctx, o.Namespace, o.Kind, o.Set)
		if err != nil {
			return op, fmt.Errorf("%s: %w", what, err)
		}
		op.Count, op.More = n.Count, n.More
	}
	err = s.api.db.Tx(ctx, store.In(o.Namespace, store.Lists), what, func(tx pgx.Tx) error {
		return s.begin(ctx, tx, &o, &op)
	})
	return op, err
}

func (s *Operations) begin(ctx context.Context, tx pgx.Tx, o *job.OperationParams, op *job.Operation) error {
	if err := checkNotRevoked(ctx, tx, o.Namespace, o.Actor); err != nil {
		return err
	}
	if err := replayOrClaim(ctx, tx, o.Namespace, o.Idempotent); err != nil {
		return err
	}
	var which any = o.Set
	if o.Kind.OfDeadLetters() {
		which = o.Filter
		args := deadArgs(o.Namespace, o.Filter)
		if err := tx.QueryRow(ctx, countDead, args).Scan(&op.Count); err != nil {
			return err
		}
	}
	filter, err := toJSON(which)
	if err != nil {
		return err
	}
	change, err := toJSON(o.Change)
	if err != nil {
		return err
	}
	row := tx.QueryRow(
		ctx, insertOperation, op.ID, o.Namespace, o.Kind, filter, o.Rate, op.Count, o.Actor, change, op.More,
	)
	if err := row.Scan(&op.CreatedAt); err != nil {
		return err
	}
	op.CreatedAt = op.CreatedAt.UTC()
	if err := job.CheckUntil(o.Change.Until, op.CreatedAt); err != nil {
		return err
	}
	if err := storeResponse(ctx, tx, o.Namespace, o.Idempotent, *op); err != nil {
		return err
	}
	entry := auditParams{o.Namespace, o.Actor, "operation.begin", job.FormatOperationID(op.ID)}
	err = s.api.log.write(ctx, tx, entry, struct {
		Kind   job.OperationKind `json:"kind"`
		Filter any               `json:"filter"`
		job.OperationChange
		Count int64 `json:"count"`
		Rate  int   `json:"rate"`
	}{o.Kind, which, o.Change, op.Count, o.Rate})
	if err != nil {
		return err
	}
	return checkRunning(ctx, tx, o.Namespace)
}

// checkRunning refuses an operation if the namespace has too many. The lock of the audit makes the count exact.
func checkRunning(ctx context.Context, tx pgx.Tx, namespace uuid.UUID) error {
	const running = `
SELECT count(*) FROM (SELECT FROM operation WHERE namespace_id = $1 AND state = 'running' LIMIT $2) o`
	var n int
	if err := tx.QueryRow(ctx, running, namespace, job.MaxRunningOperations+1).Scan(&n); err != nil {
		return err
	}
	if n > job.MaxRunningOperations {
		return fmt.Errorf("%w: the namespace has %d operations that are running; wait until one ends, or abort one",
			job.ErrConflict, job.MaxRunningOperations)
	}
	return nil
}

const selectOperation = `
SELECT id, kind, filter, rate, state, count, done, failed, coalesce(problem, ''), actor, created_at, ended_at, change,
       count_more
FROM operation `

func scanOperation(row pgx.CollectableRow) (o job.Operation, err error) {
	var filter, change string
	var ended *time.Time
	err = row.Scan(
		&o.ID, &o.Kind, &filter, &o.Rate, &o.State, &o.Count, &o.Done, &o.Failed, &o.Problem, &o.Actor,
		&o.CreatedAt, &ended, &change, &o.More,
	)
	if err != nil {
		return o, err
	}
	o.CreatedAt, o.EndedAt = o.CreatedAt.UTC(), store.OrZero(ended).UTC()
	return o, readOperation(&o, filter, change)
}

// readOperation reads what is stored as JSON.
func readOperation(o *job.Operation, filter, change string) error {
	var which any = &o.Set
	if o.Kind.OfDeadLetters() {
		which = &o.Filter
	}
	if err := json.Unmarshal([]byte(filter), which); err != nil {
		return fmt.Errorf("read its filter: %w", err)
	}
	if err := json.Unmarshal([]byte(change), &o.Change); err != nil {
		return fmt.Errorf("read its change: %w", err)
	}
	return nil
}

// ListOperations lists the operations of a namespace that began before a given one, newest first.
func (s *Operations) ListOperations(ctx context.Context, namespace, before uuid.UUID, limit int) (out []job.Operation, err error) {
	err = s.api.db.Query(ctx, store.In(namespace), func(rows pgx.Rows) error {
		out, err = pgx.CollectRows(rows, scanOperation)
		return err
	}, selectOperation+`WHERE namespace_id = $1 AND id < $2 ORDER BY id DESC LIMIT $3`, namespace, before, limit)
	if err != nil {
		return nil, fmt.Errorf("list operations: %w", err)
	}
	return out, nil
}

// Operation returns an operation of a namespace, or ErrNotFound.
func (s *Operations) Operation(ctx context.Context, namespace, id uuid.UUID) (o job.Operation, err error) {
	err = s.api.db.Query(ctx, store.In(namespace), func(rows pgx.Rows) error {
		o, err = pgx.CollectExactlyOneRow(rows, scanOperation)
		return err
	}, selectOperation+`WHERE namespace_id = $1 AND id = $2`, namespace, id)
	if store.NoRows(err) {
		err = job.ErrNotFound
	}
	if err != nil {
		return o, fmt.Errorf("read operation: %w", err)
	}
	return o, nil
}

// abortOperations ends the operations of a key or a person, and returns how many there were. Actors end in their id.
func abortOperations(ctx context.Context, tx pgx.Tx, namespace uuid.UUID, id string) (int, error) {
	aborted, err := tx.Exec(ctx, `UPDATE operation SET state = 'aborted', ended_at = now()
		WHERE namespace_id = $1 AND state = 'running' AND right(actor, length($2)) = $2`, namespace, "["+id+"]")
	return int(aborted.RowsAffected()), err
}

// checkNotRevoked returns an error if the actor is a key that was revoked: a node may know it for some seconds more. The
// lock lets RevokeKey find what was begun before.
func checkNotRevoked(ctx context.Context, tx pgx.Tx, namespace uuid.UUID, actor string) error {
	// A person, or Belfry itself, has the id zero here, and no row is found.
	key, _ := access.ParseKeyID(strings.TrimSuffix(actor[strings.LastIndexByte(actor, '[')+1:], "]"))
	var revoked bool
	const lock = `SELECT revoked_at IS NOT NULL FROM api_key WHERE namespace_id = $1 AND id = $2 FOR SHARE`
	err := tx.QueryRow(ctx, lock, namespace, key).Scan(&revoked)
	switch {
	case store.NoRows(err):
		return nil
	case err == nil && revoked:
		return fmt.Errorf("%w: the key has been revoked", job.ErrConflict)
	}
	return err
}

// AbortOperation ends an operation. What it has changed stays changed.
func (s *Operations) AbortOperation(ctx context.Context, namespace, id uuid.UUID, actor string) error {
	return s.api.db.Tx(ctx, store.In(namespace), "abort operation", func(tx pgx.Tx) error {
		var state job.OperationState
		const lock = `SELECT state FROM operation WHERE namespace_id = $1 AND id = $2 FOR UPDATE`
		err := tx.QueryRow(ctx, lock, namespace, id).Scan(&state)
		switch {
		case store.NoRows(err):
			return job.ErrNotFound
		case err != nil:
			return err
		case state != job.OperationRunning:
			return fmt.Errorf("%w: the operation is %s already", job.ErrConflict, state)
		}
		_, err = tx.Exec(ctx, `UPDATE operation SET state = 'aborted', ended_at = now() WHERE id = $1`, id)
		if err != nil {
			return err
		}
		return s.api.log.write(ctx, tx, auditParams{namespace, actor, "operation.abort", job.FormatOperationID(id)}, struct{}{})
	})
}
