package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/store"
)

var (
	loadRuns  = statement("load")
	sweepRuns = statement("sweep")
)

// Pending lists the pending runs of partitions with a run time up to an instant. A new owner loads them, and the sweep
// checks overdue runs with it.
func (e *Engine) Pending(ctx context.Context, partitions []int16, until time.Time) ([]job.Run, error) {
	return e.listRuns(ctx, "load runs", loadRuns, partitions, until)
}

// Sweep lists the pending runs of partitions that someone other than their planner created or moved, with a run time in
// a range.
func (e *Engine) Sweep(ctx context.Context, in job.SweepParams) ([]job.Run, error) {
	var limit *int
	if in.Limit > 0 {
		limit = &in.Limit
	}
	return e.listRuns(ctx, "sweep runs", sweepRuns, in.Partitions, in.From, in.To, limit)
}

func (e *Engine) listRuns(ctx context.Context, what, query string, args ...any) (runs []job.Run, err error) {
	var batch pgx.Batch // one round trip, one transaction
	batch.Queue(store.Apply(store.KeyLookups))
	batch.Queue(query, args...).Query(func(rows pgx.Rows) error {
		var r job.Run
		_, err := pgx.ForEachRow(rows, []any{
			&r.Partition, store.Raw(&r.Job), &r.DueAt, &r.Seq, &r.Version, &r.RunAt, &r.State, &r.Attempt, &r.Priority,
			&r.Origin, &r.Queue, &r.ConcurrencyKey, &r.ConcurrencyMax,
		}, func() error {
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
