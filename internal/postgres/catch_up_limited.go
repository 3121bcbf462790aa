package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/schedule"
)

// freedRuns is a job with max_runs of which planned runs are skipped. They do not count, as if they had never been
// planned.
type freedRuns struct {
	job    *missedJob
	cursor *missedCursor
}

// lockFreed reads a job, and the due time of its last run in place of the first.
const lockFreed = jobFields + `, NULL::timestamptz, (
           SELECT max(r.due_at) FROM run r WHERE r.partition = j.partition AND r.job_id = j.id AND r.seq = 0),
       NULL::timestamptz
FROM job j WHERE j.partition = $1 AND j.id = $2 FOR UPDATE OF j`

const updateRunsLeft = `
UPDATE job
SET runs_left = $3, state = $4, end_at = $6,
    finished_at = CASE WHEN $4::smallint = 3 /* finished */ THEN coalesce(finished_at, $5) END
WHERE partition = $1 AND id = $2`

// giveBack adds skipped runs to what a job with max_runs has left. If all of its runs had been planned, it also gets the
// occurrences that its cursor has planned for other jobs since.
func (c *catchUp) giveBack(ctx context.Context, f freedRuns) error {
	skipped := c.skipped[f.job.id]
	if skipped == 0 { // an update of the job was faster
		return nil
	}
	rows, err := c.tx.Query(ctx, lockFreed, f.job.partition, f.job.id)
	if err != nil {
		return err
	}
	j, err := pgx.CollectExactlyOneRow(rows, scanJob)
	if err != nil || j.runsLeft == nil || j.State == job.Paused {
		return ignoreNoRows(err)
	}
	var batch pgx.Batch
	left, state, endAt := *j.runsLeft+skipped, j.State, j.endAt
	if d, err := derive(j.Definition, j.ID); err == nil && *j.runsLeft <= 0 {
		due, skips := f.passed(d, later(f.job.due[len(f.job.due)-1], deref(j.pending)), c.now)
		due, kept := limited(due, &left)
		left = *kept
		state, endAt = f.cursor.left(d.endAt, kept, due, c.now)
		runs := d.runsOf(&j.Job, j.queueID)
		runs.insert(c.tx, &batch, due, c.now)
		runs.skip(&batch, skips, c.now)
		countSkips(c.tx, j.queueID, skips)
	}
	batch.Queue(updateRunsLeft, f.job.partition, f.job.id, left, int16(state), c.now, endAt)
	return c.tx.SendBatch(ctx, &batch).Close()
}

// passed decides about the occurrences after an instant that the cursor has passed. The cursor has accounted for what
// gaps and calendars took away.
func (f *freedRuns) passed(d *definition, after, now time.Time) (due []job.DueTime, skips []job.Skip) {
	until := now.Add(schedule.Horizon)
	if next := f.cursor.of(f.job.id).next; next != nil {
		until = next.Add(-instant)
	}
	decide, err := f.cursor.decision(f.job)
	if err != nil {
		return nil, nil
	}
	for _, o := range d.own.Between(after, until, job.PlanResults) {
		at := o.Due.UTC()
		switch {
		case o.Skip != "":
		case !at.Before(f.cursor.in.Until):
			due = append(due, job.DueTime{DueAt: at, RunAt: at, Origin: job.FromSchedule})
		default:
			if one := decide([]time.Time{at})[0]; one.Reason != job.ReasonNone {
				skips = append(skips, job.Skip{From: at, To: at, Count: 1, Reason: one.Reason})
				continue
			}
			due = append(due, job.DueTime{
				DueAt: at, RunAt: later(now, f.cursor.pacedTo), Origin: job.FromMissed,
			})
			f.cursor.pacedTo = later(now, f.cursor.pacedTo).Add(time.Duration(f.cursor.in.Missed.Pace))
		}
	}
	return due, skips
}
