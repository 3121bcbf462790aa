package postgres

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/schedule"
)

// maxCalls bounds how often job.Plan is asked for one job: a million
// occurrences. A cursor is ahead by the look-ahead, which is a minute or so.
const maxCalls = 10

// plannedPast returns the due times from an instant on that a cursor has
// already planned past. A job that joins it then has to get them by itself.
// What gaps and calendars take away the cursor has accounted for.
func plannedPast(d *definition, c cursor, from, now time.Time) ([]job.DueTime, error) {
	until := now.Add(schedule.Horizon)
	if c.next != nil {
		until = c.next.Add(-instant)
	}
	if until.Before(from) {
		return nil, nil
	}
	r, err := planAll(job.PlanInput{Schedule: d.own, Missed: d.Missed, NextDue: from, Now: now, Until: until})
	return r.Due, err
}

// planAll is job.Plan, called until there is no more.
func planAll(in job.PlanInput) (out job.PlanResult, err error) {
	for range maxCalls {
		r, err := job.Plan(in)
		if err != nil {
			return out, err
		}
		out.Due, out.Skips = append(out.Due, r.Due...), joinSkips(out.Skips, r.Skips)
		if !r.More {
			return out, nil
		}
		in.NextDue = r.NextDue
	}
	return out, fmt.Errorf("more than %d occurrences between %s and %s: was the clock of the database wrong?", maxCalls*job.PlanResults, in.Now, in.Until)
}

// joinSkips puts ranges together that a bound has cut apart: one row each.
func joinSkips(to, more []job.Skip) []job.Skip {
	if n := len(to); n > 0 && len(more) > 0 && to[n-1].Reason == more[0].Reason && to[n-1].Count > 0 && more[0].Count > 0 {
		to[n-1].To = more[0].To
		to[n-1].Count += more[0].Count
		more = more[1:]
	}
	return append(to, more...)
}

// limited cuts due times down to what max_runs leaves, and counts them.
func limited(due []job.DueTime, runsLeft *int32) ([]job.DueTime, *int32) {
	if runsLeft == nil {
		return due, nil
	}
	due = due[:min(len(due), int(max(*runsLeft, 0)))]
	left := *runsLeft - int32(len(due))
	return due, &left
}

// runsOf is what the runs of a job take from it.
type runsOf struct {
	partition int16
	job       uuid.UUID
	version   int32
	priority  int16
	admit     int16
	queue     int32
	schedule  *schedule.Schedule
}

// woken: the owner of the partition did not write them, so its sweep has to find them.
const insertRuns = `
INSERT INTO run (partition, seq, version, job_id, due_at, run_at, state, attempt, priority, origin, admit, queue_id, woken)
SELECT $1, 0, $2, $3, d.due_at, d.run_at, 0, 0, $4, d.origin, $5, $6, true
FROM (SELECT unnest($7::timestamptz[]) AS due_at, unnest($8::timestamptz[]) AS run_at, unnest($9::smallint[]) AS origin) d
ON CONFLICT DO NOTHING`

// insert queues the runs of due times. None may start before now, which is when
// the sweep that has to find them looks from.
func (r *runsOf) insert(batch *pgx.Batch, due []job.DueTime, now time.Time) {
	if len(due) == 0 {
		return
	}
	dueAt, runAt, origin := make([]time.Time, len(due)), make([]time.Time, len(due)), make([]int16, len(due))
	for i, d := range due {
		dueAt[i], origin[i] = d.DueAt, int16(d.Origin)
		runAt[i] = later(now, later(d.RunAt, r.schedule.RunAt(d.DueAt, r.job.String())))
	}
	batch.Queue(insertRuns, r.partition, r.version, r.job, r.priority, r.admit, r.queue, dueAt, runAt, origin)
}

// A skip of one is a run that was skipped; a range has an end and a count. A
// range of more than was counted has no count.
const insertSkips = `
INSERT INTO run_history (partition, seq, version, job_id, due_at, run_at, ended_at, ended, attempt, origin, status, due_to, count, reason)
SELECT $1, 0, $2, $3, s.from_due, s.from_due AS run_at, $4, 4, 0, 0, 0, CASE WHEN s.n <> 1 THEN s.to_due END, CASE WHEN s.n > 1 THEN s.n END, s.reason
FROM (SELECT unnest($5::timestamptz[]) AS from_due, unnest($6::timestamptz[]) AS to_due, unnest($7::bigint[]) AS n, unnest($8::text[]) AS reason) s`

// skip queues the history of ranges that did not run.
func (r *runsOf) skip(batch *pgx.Batch, skips []job.Skip, now time.Time) {
	if len(skips) == 0 {
		return
	}
	from, to := make([]time.Time, len(skips)), make([]time.Time, len(skips))
	count, reason := make([]int64, len(skips)), make([]string, len(skips))
	for i, s := range skips {
		from[i], to[i], count[i], reason[i] = s.From, s.To, s.Count, string(s.Reason)
	}
	batch.Queue(insertSkips, r.partition, r.version, r.job, now, from, to, count, reason)
}

// withoutEnded leaves out due times that are in history already. There are some
// when a one-off that is past is edited back to what it was, or when the clock
// has gone back; a run has one entry in the ledger.
func (c *change) withoutEnded(ctx context.Context, due []job.DueTime) ([]job.DueTime, error) {
	if len(due) == 0 {
		return due, nil
	}
	times := make([]time.Time, len(due))
	for i, d := range due {
		times[i] = d.DueAt
	}
	rows, err := c.tx.Query(ctx, `SELECT due_at FROM run_history WHERE job_id = $1 AND due_at = ANY ($2) AND seq = 0`, c.job.ID, times)
	if err != nil {
		return nil, err
	}
	ended, err := pgx.CollectRows(rows, pgx.RowTo[time.Time])
	return slices.DeleteFunc(due, func(d job.DueTime) bool { return slices.ContainsFunc(ended, d.DueAt.Equal) }), err
}
