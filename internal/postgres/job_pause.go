package postgres

import (
	"cmp"
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/store"
)

// pauseRuns removes the runs by schedule that have not started. Due runs end as skipped, and so do those before
// plan_from ($4), which no resume decides about again. Later ones are decided when the job is resumed. Retries and runs
// that a user triggered go on.
const pauseRuns = `
WITH gone AS (
    DELETE FROM run
    WHERE partition = $1 AND job_id = $2 AND seq = 0 AND state = 0 /* pending */ AND attempt = 0
      AND origin IN (0, 3) /* schedule, missed */
    RETURNING *
), ended AS (
    INSERT INTO run_history (partition, seq, version, job_id, due_at, run_at, ended_at, ended, attempt, origin, status,
                             queue_id, reason)
    SELECT partition, seq, version, job_id, due_at, run_at, $3, 4 /* skipped */, 0, origin, 0, queue_id, 'paused'
    FROM gone
    WHERE due_at <= $3 OR due_at < $4
)
SELECT count(*), count(*) FILTER (WHERE due_at <= $3 OR due_at < $4) FROM gone`

const pauseJobRow = `
UPDATE job
SET state = 2 /* paused */, paused_at = $3, paused_by = $6, paused_until = $7, note = $4, plan_from = $5,
    finished_at = NULL, updated_at = $3, updated_by = $6
WHERE partition = $1 AND id = $2`

// PauseJob stops a job's schedule. If that has no occurrence left and no run is to come, there is nothing to pause.
func (a *API) PauseJob(ctx context.Context, o job.ChangeParams, note string) (out job.Change, err error) {
	err = a.changeJob(ctx, "pause", o, func(c *change) error {
		out, err = c.pause(ctx, note)
		return err
	})
	return out, err
}

func (c *change) pause(ctx context.Context, note string) (out job.Change, err error) {
	defer func() {
		if err == nil && out.Changed {
			c.audit("job.pause", struct {
				Name  string    `json:"name"`
				Note  string    `json:"note,omitempty"`
				Until time.Time `json:"until,omitzero"`
			}{c.job.Name, note, c.order.Until})
		}
	}()
	j := &c.job
	out = job.Change{Job: j.Job, Now: c.now}
	c.order.Until = roundUp(c.order.Until).UTC()
	if err := job.CheckUntil(c.order.Until, c.now); err != nil {
		return out, err
	}
	if j.State == job.Paused {
		return c.pauseLonger(ctx, note)
	}
	var gone int32
	var skipped int64
	if err := c.tx.QueryRow(ctx, pauseRuns, j.Partition, j.ID, c.now, j.planFrom).Scan(&gone, &skipped); err != nil {
		return out, err
	}
	store.LedgerOf(c.tx).Ended(j.queueID, job.EndedSkipped, job.ReasonPaused, skipped)
	if left, _ := c.cursor.left(j.endAt, nil, c.now); left == job.Finished && gone == 0 {
		return out, nil
	}
	// If the cursor is behind, the pause also covers what it has not planned yet.
	from := c.now.Add(store.Instant)
	if j.State == job.Active && c.cursor.before(c.now) {
		from = *c.cursor.next
	}
	out.Changed = true
	p := &out.Job
	p.State, p.Note, p.UpdatedAt, p.UpdatedBy, p.NextDue = job.Paused, note, c.now, c.actor(), time.Time{}
	p.PausedAt, p.PausedBy, p.PausedUntil = c.now, c.actor(), c.order.Until
	var batch pgx.Batch
	batch.Queue(
		pauseJobRow, j.Partition, j.ID, c.now, note, store.Later(j.planFrom, from), c.actor(), orNull(c.order.Until),
	)
	c.setPauseEnd(&batch, c.order.Until)
	return out, c.tx.SendBatch(ctx, &batch).Close()
}

const pauseLongerRow = `
UPDATE job SET paused_until = $3, note = $4, updated_at = $5, updated_by = $6 WHERE partition = $1 AND id = $2`

// pauseLonger gives the pause of a paused job another end, or none. Belfry itself does not change the pause of a user.
func (c *change) pauseLonger(ctx context.Context, note string) (job.Change, error) {
	p, until := c.job.Job, c.order.Until
	if c.order.Actor == "" || until.Equal(p.PausedUntil) {
		return job.Change{Job: p, Now: c.now}, nil
	}
	p.PausedUntil, p.Note, p.UpdatedAt, p.UpdatedBy = until, cmp.Or(note, p.Note), c.now, c.actor()
	var batch pgx.Batch
	batch.Queue(pauseLongerRow, p.Partition, p.ID, orNull(until), p.Note, c.now, p.UpdatedBy)
	c.setPauseEnd(&batch, until)
	return job.Change{Job: p, Now: c.now, Changed: true}, c.tx.SendBatch(ctx, &batch).Close()
}

const resumeJobRow = `
UPDATE job
SET state = $3, paused_at = NULL, paused_by = '', paused_until = NULL, note = '', plan_from = $4,
    end_at = $7, finished_at = CASE WHEN $3::smallint = 3 /* finished */ THEN $5::timestamptz END, updated_at = $5,
    updated_by = $6
WHERE partition = $1 AND id = $2
RETURNING queue_id, admit, concurrency_key, concurrency_max, handler`

// ResumeJob restarts a job's schedule. The policy missed.paused decides whether occurrences of the pause run or are
// skipped.
func (a *API) ResumeJob(ctx context.Context, o job.ChangeParams) (out job.Change, err error) {
	err = a.changeJob(ctx, "resume", o, func(c *change) error {
		out, err = c.resume(ctx, 0, time.Time{})
		return err
	})
	return out, err
}

// resume ends the pause of a job: at paused_until, if that has come or comes within the lead, or else now. What was due
// since paused_until and before missedUntil was missed.
func (c *change) resume(ctx context.Context, lead time.Duration, missedUntil time.Time) (job.Change, error) {
	out := job.Change{Job: c.job.Job, Now: c.now}
	if c.job.State != job.Paused {
		return out, nil
	}
	d, err := derive(c.job.Definition, c.job.ID)
	if err != nil {
		return out, err
	}
	r := resume{change: c, definition: d, end: c.now, missedUntil: missedUntil}
	if until := c.job.PausedUntil; !until.IsZero() && !until.After(c.now.Add(lead)) {
		r.end, r.ended = until.Add(-store.Instant), true // an occurrence at exactly paused_until runs
	}
	if err := r.decide(ctx); err != nil {
		return out, err
	}
	if err := r.write(ctx); err != nil {
		return out, err
	}
	out.Changed, out.Missed = true, r.missed
	out.Job.State, out.Job.Note, out.Job.UpdatedAt, out.Job.UpdatedBy = r.state, "", c.now, c.actor()
	out.Job.PausedAt, out.Job.PausedBy, out.Job.PausedUntil = time.Time{}, "", time.Time{}
	out.Job.NextDue = r.nextDue
	c.audit("job.resume", struct {
		Name   string `json:"name"`
		Missed int64  `json:"missed"`
	}{c.job.Name, r.missed})
	return out, nil
}

// resume is the end of a pause, and what the job becomes by it.
type resume struct {
	*change
	definition *definition
	end        time.Time // the last instant of the pause
	ended      bool      // at the time that was set for it

	missedUntil time.Time

	state    job.State
	planFrom time.Time
	endAt    *time.Time
	due      []job.DueTime
	skips    []job.Skip
	missed   int64
	nextDue  time.Time
}

// decide covers three consecutive ranges of time: until the end of the pause, its occurrences. From there to the cursor,
// what the cursor has already planned for other jobs. Then the rest, which the cursor will plan. If the cursor is behind
// when a user resumes the job, it takes over where it is, before the end of the pause. A pause that ends by itself
// covers everything up to its end.
func (r *resume) decide(ctx context.Context) error {
	j, d := &r.job, r.definition
	plannedTo, from := store.OrZero(r.cursor.next), r.end.Add(store.Instant)
	switch {
	case r.ended:
		plannedTo = time.Time{}
	case r.cursor.before(r.end):
		from = *r.cursor.next
	}
	if err := r.checkFull(ctx); err != nil {
		return err
	}
	due, skips, err := keptBack(job.ResumedInput{
		Schedule: d.own, Missed: d.Missed, PausedAt: j.planFrom.Add(-store.Instant), PlannedTo: plannedTo, Now: r.end,
	})
	if err != nil {
		return err
	}
	r.missed = int64(len(due))
	for _, s := range skips {
		// The cursor accounts for what gaps and calendars take away.
		if s.Reason == job.ReasonPaused {
			r.skips = append(r.skips, s)
			r.missed += s.Count
		}
	}
	r.planFrom = store.Later(j.planFrom, from)
	ahead, err := r.sinceEnd(ctx)
	if err != nil {
		return err
	}
	due = append(due, ahead...)
	r.state, r.endAt = r.cursor.left(d.endAt, due, r.now)
	r.due, err = r.withoutEnded(ctx, due)
	return err
}

// checkFull returns errFull if the resume may add runs to a full namespace: one job could add 10,000. Belfry itself retries
// to resume the job when a pause ends.
func (r *resume) checkFull(ctx context.Context) error {
	if r.definition.Missed.Paused == job.MissedSkip || r.definition.Schedule.At != "" {
		return nil
	}
	var full bool
	if err := r.tx.QueryRow(ctx, namespaceIsFull, r.job.Namespace).Scan(&full); err != nil || !full {
		return err
	}
	return errFull
}

func (r *resume) write(ctx context.Context) error {
	j, d := &r.job, r.definition
	runs := runsOf{partition: j.Partition, job: j.ID, version: j.Version, priority: d.Priority, schedule: d.own}
	row := r.tx.QueryRow(
		ctx, resumeJobRow, j.Partition, j.ID, r.state, r.planFrom, r.now, r.actor(), r.endAt,
	)
	if err := row.Scan(&runs.queue, &runs.admit, &runs.key, &runs.keyMax, &runs.handler); err != nil {
		return err
	}
	begin := r.now
	if r.end.After(r.now) {
		begin = r.end.Add(store.Instant) // it is resumed ahead of time
	}
	var batch pgx.Batch
	runs.insert(r.tx, &batch, r.due, begin)
	runs.skip(&batch, r.skips, r.now)
	countSkips(r.tx, runs.queue, r.skips)
	r.setPauseEnd(&batch, time.Time{})
	r.change.nextDue(&batch, job.NextDueInput{
		State: r.state, Cursor: r.cursor.next, PlanFrom: r.planFrom, Schedule: d.own,
	}, &r.nextDue)
	return r.tx.SendBatch(ctx, &batch).Close()
}

// maxCounted bounds how many occurrences of a pause are counted one by one, in calls of job.Resumed. A job that runs
// every second and was paused for a year has 31 million.
const maxCounted = 5

// keptBack calls job.Resumed until there is no more. After maxCounted calls it continues at the catch-up window,
// because earlier occurrences do not run. What it passes over becomes one range without a count.
func keptBack(in job.ResumedInput) (due []job.DueTime, skips []job.Skip, err error) {
	for call := 1; ; call++ {
		r, err := job.Resumed(in)
		if err != nil {
			return nil, nil, err
		}
		due, skips = append(due, r.Due...), joinSkips(skips, r.Skips)
		if !r.More {
			return due, skips, nil
		}
		in.PausedAt, in.PacedTo = r.NextDue.Add(-store.Instant), r.PacedTo
		window := in.Now.Add(-time.Duration(in.Missed.CatchUpWindow))
		if call >= maxCounted && r.NextDue.Before(window) {
			skips = append(skips, job.Skip{From: r.NextDue, To: window.Add(-store.Instant), Reason: job.ReasonPaused})
			in.PausedAt = window.Add(-store.Instant)
		}
	}
}

// skipped returns what was due from an instant until now as skips for a reason.
func (c *change) skipped(d *definition, from time.Time, why job.Reason) ([]job.Skip, error) {
	missed := d.Missed
	missed.Paused = job.MissedSkip
	_, skips, err := keptBack(
		job.ResumedInput{Schedule: d.own, Missed: missed, PausedAt: from.Add(-store.Instant), Now: c.now},
	)
	out := skips[:0]
	for _, s := range skips {
		switch {
		case s.Reason == job.ReasonPaused:
			s.Reason = why
		case c.cursor.next == nil || s.From.Before(*c.cursor.next):
			continue // the cursor has accounted for what gaps and calendars took away
		}
		out = append(out, s)
	}
	return out, err
}
