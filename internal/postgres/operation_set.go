package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/store"
)

// The bounds of counting a set.
const (
	maxCountedJobs = 10_000
	maxCountedRuns = 1_000                  // whole entries are read
	countTime      = 300 * time.Millisecond // for runs, whose pages may be empty
	maxSample      = 5
	maxSpreadJobs  = 2_000 // of a preview
)

// CountSet counts the jobs or runs that an operation of a kind would change now, and returns some of them.
func (s *Operations) CountSet(
	ctx context.Context, namespace uuid.UUID, kind job.OperationKind, set job.OperationSet,
) (out job.SetCount, err error) {
	switch {
	case set.Jobs != nil:
		out, err = s.api.countJobs(ctx, namespace, set.Jobs, maxSample)
	case set.Runs != nil:
		out, err = s.api.countRuns(ctx, namespace, kind, *set.Runs)
	case set.Undo != uuid.Nil:
		out, err = s.api.countRestorable(ctx, namespace, set.Undo)
	case kind.OfRuns():
		out, err = s.api.countRunIDs(ctx, namespace, set.Unique(kind).IDs)
	default:
		out, err = s.api.countIDs(ctx, namespace, set.Unique(kind).IDs, maxSample)
	}
	if err != nil {
		return out, fmt.Errorf("count what matches: %w", err)
	}
	return out, nil
}

func (a *API) newListing(order job.ListParams) *listing {
	return &listing{API: a, order: order, args: pgx.NamedArgs{
		"namespace": order.Namespace, "after": order.After.ID, "limit": order.Limit,
		"state": nil, "queue": nil, "target": nil, "labels": nil, "name": nil,
	}}
}

// countJobs counts jobs by their ids alone, and reads some of them.
func (a *API) countJobs(
	ctx context.Context, namespace uuid.UUID, f *job.Filter, sample int,
) (out job.SetCount, err error) {
	order := f.List(namespace)
	order.Limit = maxCountedJobs
	l := a.newListing(order)
	possible, err := l.prepare(ctx)
	if err != nil || !possible {
		return out, err
	}
	ids, next, err := l.byID(ctx)
	if err != nil {
		return out, err
	}
	out.Count, out.More = int64(len(ids)), next != nil
	out.Jobs, err = l.read(ctx, ids[:min(sample, len(ids))])
	return out, err
}

const selectRestorable = `
SELECT v.job_id FROM operation_version v, LATERAL (
    SELECT FROM job WHERE namespace_id = v.namespace_id AND id = v.job_id AND version = v.version LIMIT 1) j
WHERE v.operation_id = $1 ORDER BY v.job_id LIMIT $2`

// countRestorable counts the jobs that an undo of an operation restores: those that were not changed since.
func (a *API) countRestorable(ctx context.Context, namespace, operation uuid.UUID) (out job.SetCount, err error) {
	var ids []uuid.UUID
	err = a.db.Query(ctx, store.In(namespace, store.KeyLookups), func(rows pgx.Rows) error {
		ids, err = pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
		return err
	}, selectRestorable, operation, maxCountedJobs+1)
	if err != nil {
		return out, err
	}
	out.Count, out.More = min(int64(len(ids)), maxCountedJobs), len(ids) > maxCountedJobs
	out.Jobs, err = a.newListing(job.ListParams{Namespace: namespace}).read(ctx, ids[:min(maxSample, len(ids))])
	return out, err
}

// countVersions counts the versions that an operation wrote.
func (a *API) countVersions(ctx context.Context, namespace, operation uuid.UUID) (n int64, err error) {
	err = a.db.Query(ctx, store.In(namespace), func(rows pgx.Rows) error {
		n, err = pgx.CollectExactlyOneRow(rows, pgx.RowTo[int64])
		return err
	}, `SELECT count(*) FROM operation_version WHERE operation_id = $1`, operation)
	return n, err
}

func (a *API) countIDs(
	ctx context.Context, namespace uuid.UUID, texts []string, sample int,
) (out job.SetCount, err error) {
	var ids []uuid.UUID
	for _, text := range texts {
		if id, err := job.ParseJobID(text); err == nil {
			ids = append(ids, id)
		}
	}
	l := a.newListing(job.ListParams{Namespace: namespace})
	out.Jobs, err = l.read(ctx, ids)
	out.Count = int64(len(out.Jobs))
	out.Jobs = out.Jobs[:min(sample, len(out.Jobs))]
	return out, err
}

// countRunIDs counts the runs that exist. If that takes too long, there may be more.
func (a *API) countRunIDs(ctx context.Context, namespace uuid.UUID, ids []string) (out job.SetCount, err error) {
	began := clock.Elapsed()
	for i, id := range ids {
		if out.More = i > maxSample && clock.Elapsed()-began > countTime; out.More {
			break
		}
		k, err := job.ParseRunID(id)
		if err != nil {
			continue
		}
		entries, err := a.Run(ctx, namespace, k)
		switch {
		case errors.Is(err, job.ErrNotFound):
		case err != nil:
			return out, err
		default:
			out.Count++
			if len(out.Runs) < maxSample {
				out.Runs = append(out.Runs, entries[0])
			}
		}
	}
	return out, nil
}

func (a *API) countRuns(
	ctx context.Context, namespace uuid.UUID, kind job.OperationKind, f job.RunFilter,
) (out job.SetCount, err error) {
	now, err := a.now(ctx, namespace)
	if err != nil {
		return out, err
	}
	q := runsOfSet(namespace, kind, f, now)
	began := clock.Elapsed()
	for {
		q.Limit = maxCountedRuns - int(out.Count)
		page, err := a.Runs(ctx, q)
		if err != nil {
			return out, err
		}
		out.Count, out.More = out.Count+int64(len(page.Entries)), page.Next != nil
		out.Runs = append(out.Runs, page.Entries[:min(maxSample-len(out.Runs), len(page.Entries))]...)
		if !out.More || out.Count >= maxCountedRuns || clock.Elapsed()-began > countTime {
			return out, nil
		}
		q.After = *page.Next
	}
}

// runsOfSet returns the list of an operation that was created at an instant: runs that were due, or had ended, by then.
// Runs that the operation itself makes live again are therefore not in it when they end.
func runsOfSet(namespace uuid.UUID, kind job.OperationKind, f job.RunFilter, created time.Time) job.RunQuery {
	if kind == job.CancelRuns {
		if len(f.States) == 0 {
			f.States = []job.RunStatus{
				job.StatusPending, job.StatusRetrying, job.StatusDue, job.StatusRunning, job.StatusAccepted,
			}
		}
		if f.DueBefore.IsZero() {
			f.DueBefore = created
		}
		return f.Query(namespace)
	}
	if f.EndedBefore.IsZero() || created.Before(f.EndedBefore) {
		f.EndedBefore = created
	}
	return f.Query(namespace)
}

// PreviewSpread counts the starts of the jobs of a set in the next 24 hours, before and after a spread.
func (s *Operations) PreviewSpread(
	ctx context.Context, namespace uuid.UUID, set job.OperationSet, change job.OperationChange,
) (out job.SpreadPreview, err error) {
	now, err := s.api.now(ctx, namespace)
	if err != nil {
		return out, fmt.Errorf("preview a spread: %w", err)
	}
	if set.Jobs != nil {
		out.SetCount, err = s.api.countJobs(ctx, namespace, set.Jobs, maxSpreadJobs)
	} else {
		out.SetCount, err = s.api.countIDs(ctx, namespace, set.IDs, maxSpreadJobs)
	}
	if err != nil {
		return out, fmt.Errorf("preview a spread: %w", err)
	}
	out.From = now.Truncate(time.Minute).Add(time.Minute).UTC()
	out.SpreadResult = job.PreviewSpread(job.SpreadInput{
		Jobs: out.Jobs, Change: change, From: out.From, To: out.From.Add(24 * time.Hour),
	})
	out.All = out.All && !out.More && out.Count == int64(len(out.Jobs))
	out.Jobs = out.Jobs[:min(maxSample, len(out.Jobs))]
	return out, nil
}

// OperationItems lists the items that an operation could not change, after a number.
func (s *Operations) OperationItems(
	ctx context.Context, namespace, operation uuid.UUID, after int64, limit int,
) (out []job.OperationItem, err error) {
	err = s.api.db.Query(ctx, store.In(namespace), func(rows pgx.Rows) error {
		out, err = pgx.CollectRows(rows, pgx.RowToStructByPos[job.OperationItem])
		return err
	}, `SELECT number, object, name, error, at FROM operation_item
		WHERE operation_id = $1 AND namespace_id = $2 AND number > $3 ORDER BY number LIMIT $4`,
		operation, namespace, after, limit)
	if err != nil {
		return nil, fmt.Errorf("list items of an operation: %w", err)
	}
	return out, nil
}
