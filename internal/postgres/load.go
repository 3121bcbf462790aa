package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/postgres/pool"
)

const runColumns = `partition, job_id, due_at, seq, version, run_at, state, attempt, priority, origin, queue_id, coalesce(concurrency_key, 0), coalesce(concurrency_max, 0)`

// Pending lists the runs of partitions that wait for their time, those due by a
// time only: what a new owner has to know, and what a sweep checks.
func (e *Engine) Pending(ctx context.Context, partitions []int16, until time.Time) ([]job.Run, error) {
	return e.listRuns(ctx, "load runs", `SELECT `+runColumns+` FROM run WHERE partition = ANY ($1) AND state = 0 AND run_at <= $2 AND handler IS NULL`, partitions, until)
}

// Woken lists the pending runs of partitions that the planner of their owner does
// not know (needs_sweep), with run_at in a range. The range is bounded on both
// sides, so that an idle snapshot elsewhere cannot slow it down more and more.
func (e *Engine) Woken(ctx context.Context, partitions []int16, from, to time.Time) ([]job.Run, error) {
	return e.listRuns(ctx, "sweep runs", `
SELECT r.* FROM unnest($1::smallint[]) p, LATERAL (
    SELECT `+runColumns+` FROM run WHERE needs_sweep AND partition = p AND run_at BETWEEN $2 AND $3 AND state = 0
      AND handler IS NULL OFFSET 0) r`, partitions, from, to)
}

func (e *Engine) listRuns(ctx context.Context, what, query string, args ...any) (runs []job.Run, err error) {
	var batch pgx.Batch // one round trip, one transaction
	batch.Queue(pool.Apply(pool.KeyLookups))
	batch.Queue(query, args...).Query(func(rows pgx.Rows) error {
		var r job.Run
		_, err := pgx.ForEachRow(rows, []any{&r.Partition, raw(&r.Job), &r.DueAt, &r.Seq, &r.Version, &r.RunAt, &r.State, &r.Attempt, &r.Priority, &r.Origin, &r.Queue, &r.ConcurrencyKey, &r.ConcurrencyMax}, func() error {
			runs = append(runs, r)
			return nil
		})
		return err
	})
	if err := e.db.SendBatch(ctx, &batch).Close(); err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	return runs, nil
}
