package postgres

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/schedule"
	"github.com/belfry-dev/belfry/internal/store"
)

// maxCalls bounds the calls of job.Plan for one job, to a million occurrences. A cursor is ahead of the clock by about
// a minute, the look-ahead.
const maxCalls = 10

// plannedPast returns the due times from an instant on that a cursor has already passed. A job that joins the cursor
// then needs these runs written separately. The cursor has accounted for what gaps and calendars take away.
func plannedPast(d *definition, c cursor, from, now time.Time) ([]job.DueTime, error) {
	until := now.Add(schedule.Horizon)
	if c.next != nil {
		until = c.next.Add(-store.Instant)
	}
	if until.Before(from) {
		return nil, nil
	}
	r, err := planAll(job.PlanInput{
		Schedule: d.own, Missed: d.Missed, NextDue: from, Now: now, Until: until, MissedUntil: now.Add(-job.MissedGrace),
	})
	return r.Due, err
}

// planAll calls job.Plan until there is no more.
func planAll(in job.PlanInput) (out job.PlanResult, err error) {
	for range maxCalls {
		r, err := job.Plan(in)
		if err != nil {
			return out, err
		}
		out.Due, out.Skips = append(out.Due, r.Due...), joinSkips(out.Skips, r.Skips)
		out.Visited += r.Visited
		if !r.More {
			return out, nil
		}
		in.NextDue, in.PacedTo = r.NextDue, r.PacedTo
	}
	return out, fmt.Errorf(
		"more than %d occurrences between %s and %s: was the clock of the database wrong?", maxCalls*job.PlanResults,
		in.Now, in.Until,
	)
}

// joinSkips merges two ranges that were separated only by the bound on one call.
func joinSkips(to, more []job.Skip) []job.Skip {
	n := len(to)
	if n > 0 && len(more) > 0 && to[n-1].Reason == more[0].Reason && to[n-1].Count > 0 && more[0].Count > 0 {
		to[n-1].To = more[0].To
		to[n-1].Count += more[0].Count
		more = more[1:]
	}
	return append(to, more...)
}

// runsOf is what the runs of a job copy from it.
type runsOf struct {
	partition int16
	job       uuid.UUID
	version   int32
	priority  int16
	admit     int16
	queue     int32
	key       *int64 // its concurrency key; nil: none
	keyMax    *int32
	handler   *string // nil: nodes deliver them
	schedule  *schedule.Schedule
}

// runsOf returns what the runs of a job with this definition copy from it.
func (d *definition) runsOf(j *job.Job, queue int32) *runsOf {
	return &runsOf{
		partition: j.Partition, job: j.ID, version: j.Version, priority: d.Priority, admit: int16(d.AdmitRule()),
		queue: queue, key: d.concurrencyKey(j.Namespace), keyMax: d.concurrencyMax(), handler: d.handler(),
		schedule: d.own,
	}
}

// runRows are new runs by schedule, as the arrays that insertRuns takes.
type runRows struct {
	partition, priority, admit, origin []int16
	version, queue                     []int32
	key                                []*int64
	keyMax                             []*int32
	job                                pgtype.FlatArray[pgtype.UUID]
	dueAt, runAt                       []time.Time
	handler                            []*string
	wake                               job.Wake // the runs that are due immediately
}

// add adds the runs of due times. None may start before now, because the sweep that has to find them begins there.
func (rows *runRows) add(r *runsOf, due []job.DueTime, now time.Time) {
	for _, d := range due {
		runAt := store.Later(now, store.Later(d.RunAt, r.schedule.RunAt(d.DueAt, r.job.String())))
		if runAt.Sub(now) <= job.WakeAhead {
			rows.wake.Add(r.partition, r.queue, r.handler != nil)
		}
		rows.partition, rows.version = append(rows.partition, r.partition), append(rows.version, r.version)
		rows.job = append(rows.job, pgtype.UUID{Bytes: r.job, Valid: true})
		rows.dueAt, rows.runAt = append(rows.dueAt, d.DueAt), append(rows.runAt, runAt)
		rows.priority, rows.origin = append(rows.priority, r.priority), append(rows.origin, int16(d.Origin))
		rows.admit = append(rows.admit, r.admit)
		rows.queue = append(rows.queue, r.queue)
		rows.key = append(rows.key, r.key)
		rows.keyMax, rows.handler = append(rows.keyMax, r.keyMax), append(rows.handler, r.handler)
	}
}

// The planner of the owner did not write these runs, so they need the sweep. Runs that workers pull do not: workers
// find them by themselves.
const insertRuns = `
INSERT INTO run (partition, seq, version, job_id, due_at, run_at, state, attempt, priority, origin, admit, queue_id,
                 concurrency_key, concurrency_max, handler, needs_sweep)
SELECT r.partition, 0, r.version, r.job_id, r.due_at, r.run_at, 0 /* pending */, 0, r.priority, r.origin, r.admit,
       r.queue_id, r.concurrency_key, r.concurrency_max, r.handler, r.handler IS NULL
FROM (SELECT unnest($1::smallint[]) AS partition, unnest($2::integer[]) AS version, unnest($3::uuid[]) AS job_id,
             unnest($4::timestamptz[]) AS due_at, unnest($5::timestamptz[]) AS run_at,
             unnest($6::smallint[]) AS priority, unnest($7::smallint[]) AS origin, unnest($8::smallint[]) AS admit,
             unnest($9::integer[]) AS queue_id, unnest($10::bigint[]) AS concurrency_key,
             unnest($11::integer[]) AS concurrency_max, unnest($12::text[]) AS handler) r
ON CONFLICT DO NOTHING`

// insert queues the runs for a batch of a transaction.
func (rows *runRows) insert(tx pgx.Tx, batch *pgx.Batch) {
	if len(rows.job) > 0 {
		store.WakeOf(tx).Merge(rows.wake)
		batch.Queue(
			insertRuns, rows.partition, rows.version, rows.job, rows.dueAt, rows.runAt, rows.priority, rows.origin,
			rows.admit, rows.queue, rows.key, rows.keyMax, rows.handler,
		)
	}
}

// skipRows are ranges that did not run, as the arrays that insertSkips takes.
type skipRows struct {
	partition      []int16
	version, queue []int32
	job            pgtype.FlatArray[pgtype.UUID]
	from, to       []time.Time
	count          []int64
	reason         []string
}

func (rows *skipRows) add(r *runsOf, skips []job.Skip) {
	for _, s := range skips {
		rows.partition, rows.version = append(rows.partition, r.partition), append(rows.version, r.version)
		rows.job, rows.queue = append(rows.job, pgtype.UUID{Bytes: r.job, Valid: true}), append(rows.queue, r.queue)
		rows.from, rows.to = append(rows.from, s.From), append(rows.to, s.To)
		rows.count, rows.reason = append(rows.count, s.Count), append(rows.reason, string(s.Reason))
	}
}

// insertSkips writes a skip of one occurrence like a run that was skipped. A range has an end and a count, or no count
// if its occurrences were too many to count.
const insertSkips = `
INSERT INTO run_history (partition, seq, version, job_id, due_at, run_at, ended_at, ended, attempt, origin, status,
                         queue_id, due_to, count, reason)
SELECT s.partition, 0, s.version, s.job_id, s.from_due, s.from_due AS run_at, $1, 4 /* skipped */, 0,
       0 /* schedule */, 0, s.queue_id, CASE WHEN s.n <> 1 THEN s.to_due END, CASE WHEN s.n > 1 THEN s.n END, s.reason
FROM (SELECT unnest($2::smallint[]) AS partition, unnest($3::integer[]) AS version, unnest($4::uuid[]) AS job_id,
             unnest($5::integer[]) AS queue_id, unnest($6::timestamptz[]) AS from_due,
             unnest($7::timestamptz[]) AS to_due, unnest($8::bigint[]) AS n, unnest($9::text[]) AS reason) s`

func (rows *skipRows) insert(batch *pgx.Batch, now time.Time) {
	if len(rows.job) > 0 {
		batch.Queue(
			insertSkips, now, rows.partition, rows.version, rows.job, rows.queue, rows.from, rows.to, rows.count,
			rows.reason,
		)
	}
}

// insert queues the runs of due times of one job for a batch of a transaction.
func (r *runsOf) insert(tx pgx.Tx, batch *pgx.Batch, due []job.DueTime, now time.Time) {
	var rows runRows
	rows.add(r, due, now)
	rows.insert(tx, batch)
}

// skip queues the history of ranges of one job that did not run.
func (r *runsOf) skip(batch *pgx.Batch, skips []job.Skip, now time.Time) {
	var rows skipRows
	rows.add(r, skips)
	rows.insert(batch, now)
}

// withoutEnded leaves out due times that are already in history, because a run has one entry in the ledger. There are
// some when a past one-off is edited back to what it was, or when the clock has gone back.
func (c *change) withoutEnded(ctx context.Context, due []job.DueTime) ([]job.DueTime, error) {
	if len(due) == 0 {
		return due, nil
	}
	times := make([]time.Time, len(due))
	for i, d := range due {
		times[i] = d.DueAt
	}
	rows, err := c.tx.Query(
		ctx, `SELECT due_at FROM run_history WHERE job_id = $1 AND due_at = ANY ($2) AND seq = 0`, c.job.ID, times,
	)
	if err != nil {
		return nil, err
	}
	ended, err := pgx.CollectRows(rows, pgx.RowTo[time.Time])
	return slices.DeleteFunc(due, func(d job.DueTime) bool { return slices.ContainsFunc(ended, d.DueAt.Equal) }), err
}
