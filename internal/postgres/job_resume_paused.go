package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/schedule"
	"github.com/belfry-dev/belfry/internal/store"
)

var resumeEnds = statement("resume_ends")

const (
	// resumeLead is how long before the end of a pause Belfry resumes the job, so that nodes know its runs in time. No
	// occurrence before the end of the pause runs because of it, and no run starts before that end.
	resumeLead = 2 * time.Second
	// resumeRetry is when Belfry retries to resume a job that it could not resume.
	resumeRetry = 30 * time.Second
	// resumeLate is how late a resume that failed may be before what was due since the end of the pause counts as
	// missed. If many pauses end at the same time, resumes take longer, and runs are only late.
	resumeLate = time.Minute
)

// pauseEnd is a row of job_pause_end.
type pauseEnd struct {
	Partition int16
	ResumeAt  time.Time
	Job       uuid.UUID
	Namespace uuid.UUID
}

const deletePauseEnd = `DELETE FROM job_pause_end WHERE partition = $1 AND resume_at = $2 AND job_id = $3`

// setPauseEnd queues that Belfry resumes the job at an instant, and no longer at paused_until as it was; zero: not at
// all.
func (c *change) setPauseEnd(batch *pgx.Batch, until time.Time) {
	j := &c.job
	if !j.PausedUntil.IsZero() {
		batch.Queue(deletePauseEnd, j.Partition, j.PausedUntil, j.ID)
	}
	if !until.IsZero() {
		const insert = `
INSERT INTO job_pause_end (partition, resume_at, job_id, namespace_id) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING`
		batch.Queue(insert, j.Partition, until, j.ID, j.Namespace)
	}
}

// ResumePaused resumes up to limit jobs of partitions whose pause ends, and returns how many it resumed. A job that
// cannot be resumed is retried later, and does not stop the others.
func (e *Engine) ResumePaused(ctx context.Context, partitions []int16, limit int) (resumed int, err error) {
	ends, passed, err := e.pauseEnds(ctx, partitions, limit)
	if err != nil {
		return 0, err
	}
	var failed []error
	for _, end := range ends {
		changed, err := e.api.endPause(ctx, end)
		switch {
		case err == nil && changed:
			resumed++
		case errors.Is(err, job.ErrNotFound):
			_, err = e.db.Exec(ctx, deletePauseEnd, end.Partition, end.ResumeAt, end.Job)
		case err != nil && ctx.Err() == nil:
			failed = append(failed, err)
			err = e.retryResume(ctx, end)
		}
		if err != nil {
			return resumed, errors.Join(append(failed, err)...)
		}
	}
	if len(ends) < limit {
		passed()
	}
	return resumed, errors.Join(failed...)
}

// pauseEnds lists the pauses that end: none while the clock is in doubt. Call passed when those have been resumed.
func (e *Engine) pauseEnds(
	ctx context.Context, partitions []int16, limit int,
) (ends []pauseEnd, passed func(), err error) {
	s := e.resumes.begin(partitions)
	var now time.Time
	var trusted bool
	var timeline int64
	var batch pgx.Batch // one round trip, one transaction
	batch.Queue(store.Apply(store.KeyLookups))
	batch.Queue(`SELECT now(), belfry_clock_trusted(), belfry_timeline()`).QueryRow(func(row pgx.Row) error {
		return row.Scan(&now, &trusted, &timeline)
	})
	batch.Queue(resumeEnds, s.partitions, s.from, resumeLead, limit).Query(func(rows pgx.Rows) error {
		ends, err = pgx.CollectRows(rows, pgx.RowToStructByPos[pauseEnd])
		return err
	})
	if err := e.db.SendBatch(ctx, &batch).Close(); err != nil {
		return nil, nil, fmt.Errorf("list the pauses that end: %w", err)
	}
	if !trusted {
		return nil, func() {}, nil
	}
	return ends, func() { e.resumes.found(s, nil, now, timeline) }, nil
}

func (e *Engine) retryResume(ctx context.Context, end pauseEnd) error {
	const later = `
UPDATE job_pause_end SET resume_at = clock_timestamp() + $4::interval
WHERE partition = $1 AND resume_at = $2 AND job_id = $3`
	_, err := e.db.Exec(ctx, later, end.Partition, end.ResumeAt, end.Job, resumeRetry)
	return err
}

// endPause resumes a job whose pause ends, and returns whether it did. If the pause has another end, or has already
// ended, the row is of no use.
func (a *API) endPause(ctx context.Context, end pauseEnd) (resumed bool, err error) {
	o := job.ChangeParams{Namespace: end.Namespace, ID: end.Job}
	err = a.changeJob(ctx, "resume", o, func(c *change) error {
		resumed = false
		until := c.job.PausedUntil
		switch paused := c.job.State == job.Paused && !until.IsZero(); {
		case paused && !until.After(c.now.Add(resumeLead)):
			var missedUntil time.Time
			if end.ResumeAt.After(until) { // it failed before: see retryResume
				missedUntil = c.now.Add(-resumeLate)
			}
			if _, err := c.resume(ctx, resumeLead, missedUntil); err != nil {
				return err
			}
			resumed = true
		case paused && until.Equal(end.ResumeAt):
			return nil // the clock went back
		}
		_, err := c.tx.Exec(ctx, deletePauseEnd, end.Partition, end.ResumeAt, end.Job)
		return err
	})
	return resumed, err
}

// maxSinceEnd bounds for how long occurrences since the end of a pause are counted. None that is older runs.
const maxSinceEnd = time.Duration(job.MaxCatchUpWindow) + 24*time.Hour

// sinceEnd returns the occurrences since the end of the pause that the cursor has passed. They run, however late,
// except those that an outage missed, about which missed.policy decides.
func (r *resume) sinceEnd(ctx context.Context) ([]job.DueTime, error) {
	if !r.ended || !r.planFrom.Before(r.now) {
		return plannedPast(r.definition, r.cursor, r.planFrom, r.now)
	}
	missed, _, err := r.readGap(ctx)
	if err != nil {
		return nil, err
	}
	d, from, until := r.definition, r.planFrom, r.now.Add(schedule.Horizon)
	if r.cursor.next != nil {
		until = r.cursor.next.Add(-store.Instant)
	}
	if until.Before(from) {
		return nil, nil
	}
	missedUntil := store.Later(missed.until, r.missedUntil)
	if until.Before(missedUntil) { // one decision about all that was missed
		until = missedUntil.Add(-store.Instant)
		r.planFrom = store.Later(r.planFrom, missedUntil)
	}
	if oldest := r.now.Add(-maxSinceEnd); from.Before(oldest) {
		if err := r.skipUncounted(from, oldest); err != nil {
			return nil, err
		}
		from = oldest
	}
	planned, err := planAll(job.PlanInput{
		Schedule: d.own, Missed: d.Missed, NextDue: from, Now: r.now, Until: until, MissedUntil: missedUntil,
	})
	for _, s := range planned.Skips {
		// The cursor accounts for what gaps and calendars take away.
		if s.Reason != job.ReasonGap && s.Reason != job.ReasonCalendar {
			r.skips = append(r.skips, s)
		}
	}
	return planned.Due, err
}

// skipUncounted skips what was due in a range as missed. It becomes one entry without a count.
func (r *resume) skipUncounted(from, to time.Time) error {
	d := r.definition
	first, err := job.FirstDue(d.own, from.Add(-store.Instant))
	switch {
	case errors.Is(err, schedule.ErrNoMore), err == nil && !first.Before(to):
		return nil
	case err != nil:
		return err
	}
	why := job.ReasonMissedWindow
	if d.Missed.Policy == job.MissedSkip {
		why = job.ReasonMissed
	}
	r.skips = append(r.skips, job.Skip{From: first, To: to.Add(-store.Instant), Reason: why})
	return nil
}
