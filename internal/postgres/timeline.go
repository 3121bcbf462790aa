package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/postgres/pool"
	"github.com/belfry-dev/belfry/internal/timeline"
)

// timelineReader reads the facts of a timeline.
type timelineReader struct {
	tx          pgx.Tx
	params      timeline.Params
	partition   int16
	facts       timeline.Facts
	definitions []job.Definition // of facts.Versions
	versionEnd  time.Time        // when the newest version that was read ended; zero: it is in force
}

// Timeline reads what the ledger says about a job in a window of due times, also about a deleted job.
func (v *Views) Timeline(ctx context.Context, p timeline.Params) (timeline.Facts, error) {
	var r timelineReader
	settings := pool.In(p.Namespace, pool.Lists, pool.NoBitmaps, pool.InOrder, pool.Timeout("5s"))
	err := v.db.Tx(ctx, settings, "read the timeline of "+job.FormatJobID(p.Job), func(tx pgx.Tx) error {
		r = timelineReader{tx: tx, params: p, partition: job.PartitionOf(p.Job)}
		if err := r.readClock(ctx); err != nil {
			return err
		}
		for _, read := range []func(context.Context) error{r.readJob, r.readSkips, r.readEntries, r.readLater} {
			if err := read(ctx); err != nil {
				return err
			}
		}
		return nil
	})
	return r.facts, err
}

// readClock reads the instant of the timeline, and where history begins.
func (r *timelineReader) readClock(ctx context.Context) error {
	f := &r.facts
	if err := r.tx.QueryRow(ctx, `SELECT now(), `+historyFrom).Scan(&f.Now, &f.HistoryFrom); err != nil {
		return err
	}
	f.Job, f.Now, f.HistoryFrom = r.params.Job, f.Now.UTC(), f.HistoryFrom.UTC()
	f.From, f.To = r.params.Window(f.Now)
	return r.readArchived(ctx)
}

const timelineArchived = `
SELECT day FROM archive_day
WHERE day >= ($1::timestamptz AT TIME ZONE 'UTC')::date AND day < ($2::timestamptz AT TIME ZONE 'UTC')::date
  AND manifest IS NOT NULL`

// readArchived reads which days of the window only the archive has. A window has few days.
func (r *timelineReader) readArchived(ctx context.Context) error {
	f := &r.facts
	if !f.From.Before(f.HistoryFrom) {
		return nil
	}
	rows, err := r.tx.Query(ctx, timelineArchived, f.From, f.HistoryFrom)
	if err != nil {
		return err
	}
	f.Archived = map[time.Time]bool{}
	var day time.Time
	_, err = pgx.ForEachRow(rows, []any{&day}, func() error {
		f.Archived[day.UTC()] = true
		return nil
	})
	return err
}

// timelineVersions reads the versions that were in force in a window, the newest first. A large payload is left out.
const timelineVersions = `
SELECT v.version, v.created_at, v.actor, CASE
           WHEN length(v.definition) < 20000 THEN v.definition
           ELSE (v.definition::jsonb - 'payload' - 'target')::text END,
       (SELECT n.created_at FROM job_version n
        WHERE n.partition = $1 AND n.job_id = $2 AND n.version = v.version + 1 AND n.created_at >= $5)
FROM job_version v
WHERE v.partition = $1 AND v.job_id = $2 AND v.namespace_id = $3 AND (v.created_at < $5 OR v.version = 1)
  AND v.version >= coalesce((
      SELECT o.version FROM job_version o
      WHERE o.partition = $1 AND o.job_id = $2 AND o.created_at <= $4
      ORDER BY o.version DESC LIMIT 1), 1)
ORDER BY v.version DESC LIMIT $6`

// readJob reads the job and its versions.
func (r *timelineReader) readJob(ctx context.Context) error {
	f, p := &r.facts, &r.params
	var batch pgx.Batch
	batch.Queue(selectJob+whereJob, r.partition, p.Job, p.Namespace).Query(func(rows pgx.Rows) error {
		found, err := pgx.CollectRows(rows, scanJob)
		if err == nil && len(found) == 1 {
			j := &found[0]
			f.State, f.PausedUntil, f.PlanFrom, f.RunsLeft = j.State, j.PausedUntil, j.planFrom, j.runsLeft
			f.NextDue = deref(j.next).UTC()
		}
		return err
	})
	args := []any{r.partition, p.Job, p.Namespace, f.From, f.To, timeline.MaxVersions + 1}
	batch.Queue(timelineVersions, args...).Query(r.readVersions)
	if err := r.tx.SendBatch(ctx, &batch).Close(); err != nil {
		return err
	}
	if len(f.Versions) == 0 {
		return ErrNotFound
	}
	if len(f.Versions) > timeline.MaxVersions {
		f.Versions, r.definitions = f.Versions[1:], r.definitions[1:]
		f.Known = f.Versions[0].From.Add(time.Microsecond)
	}
	if f.State != 0 {
		return nil
	}
	object := job.FormatJobID(p.Job)
	err := r.tx.QueryRow(ctx, lastAction, p.Namespace, object, "job.delete").Scan(&f.DeletedAt, new(string))
	if noRows(err) {
		return nil
	}
	return err
}

func (r *timelineReader) readVersions(rows pgx.Rows) error {
	f := &r.facts
	f.Versions, r.definitions = nil, nil
	var v timeline.Version
	var definition string
	var end *time.Time
	_, err := pgx.ForEachRow(rows, []any{&v.Number, &v.From, &v.By, &definition, &end}, func() error {
		var d job.Definition
		if err := json.Unmarshal([]byte(definition), &d); err != nil {
			return fmt.Errorf("read version %d: %w", v.Number, err)
		}
		if len(f.Versions) == 0 {
			r.versionEnd, f.Replaced = deref(end).UTC(), end != nil
		}
		v.From, v.MaxRuns = v.From.UTC(), d.MaxRuns
		f.Versions, r.definitions = append(f.Versions, v), append(r.definitions, d.WithDefaults())
		return nil
	})
	slices.Reverse(f.Versions)
	slices.Reverse(r.definitions)
	return err
}

// timelineCursors finds the cursors of schedules.
const timelineCursors = `
SELECT k.n, c.id FROM unnest($3::bytea[]) WITH ORDINALITY AS k(key, n), LATERAL (
    SELECT id FROM cursor WHERE partition = $1 AND namespace_id = $2 AND key = k.key LIMIT 1) c`

// timelineSkips reads the ranges of a cursor that begin in a window, and those that may reach into it, the newest first.
const timelineSkips = `
SELECT from_due, to_due, count, reason FROM (
    (SELECT * FROM cursor_skip
     WHERE partition = $1 AND cursor_id = $2 AND from_due >= $3 AND from_due < $4 AND ` + planned + `
     ORDER BY from_due DESC LIMIT $5)
    UNION ALL
    (SELECT * FROM (
        SELECT * FROM cursor_skip
        WHERE partition = $1 AND cursor_id = $2 AND from_due < $3
        ORDER BY from_due DESC LIMIT $6) b
     WHERE to_due >= $3 AND ` + planned + `)) s
ORDER BY from_due DESC`

// readSkips reads what the cursors of the versions skipped for all their jobs.
func (r *timelineReader) readSkips(ctx context.Context) error {
	f := &r.facts
	keys := make([][]byte, len(f.Versions))
	for i, d := range r.definitions {
		derived, err := derive(d, r.params.Job)
		if err != nil {
			continue // this version of Belfry cannot read it
		}
		f.Versions[i].Schedule, keys[i] = derived.own, derived.key
	}
	rows, err := r.tx.Query(ctx, timelineCursors, r.partition, r.params.Namespace, keys)
	if err != nil {
		return err
	}
	cursors := make([]int64, len(keys))
	var n, id int64
	if _, err := pgx.ForEachRow(rows, []any{&n, &id}, func() error {
		cursors[n-1] = id
		return nil
	}); err != nil {
		return err
	}
	known := map[int64]int{} // versions with the same cursor share its ranges
	for i, cursor := range cursors {
		f.Versions[i].CursorGone = cursor == 0
		if first, ok := known[cursor]; ok {
			f.Versions[i].Skips = f.Versions[first].Skips
			continue
		}
		if known[cursor] = i; cursor == 0 {
			continue
		}
		if err := r.readCursor(ctx, cursor, &f.Versions[i]); err != nil {
			return err
		}
	}
	return nil
}

func (r *timelineReader) readCursor(ctx context.Context, cursor int64, v *timeline.Version) error {
	f := &r.facts
	rows, err := r.tx.Query(ctx, timelineSkips, r.partition, cursor, f.From, f.To, timeline.MaxSkips+1, timeline.ReachingIn)
	if err != nil {
		return err
	}
	var s job.Skip
	_, err = pgx.ForEachRow(rows, []any{&s.From, &s.To, &s.Count, &s.Reason}, func() error {
		v.Skips = append(v.Skips, s)
		return nil
	})
	if len(v.Skips) > timeline.MaxSkips { // what begins before the last of them may not have been read
		f.Known = later(f.Known, v.Skips[timeline.MaxSkips].To.Add(time.Microsecond))
	}
	return err
}

// timelineEntries reads the newest entries of a job that are due in a window, and ranges that may reach into it. Runs
// that ended long before the window were due before it, so their days of history are not searched.
const timelineEntries = `
SELECT e.job_id, e.due_at, e.seq, e.version, e.run_at, e.started_at, e.ended_at, e.state, e.ended, e.attempt, e.origin,
       e.due_to, e.count, e.reason, e.first, e.undelivered, now()
FROM (
    (SELECT ` + liveBrief + `
     FROM run r
     WHERE r.partition = @partition AND r.job_id = @job AND r.due_at >= @from AND r.due_at < @to
     ORDER BY r.due_at DESC LIMIT @limit)
    UNION ALL
    (SELECT ` + endedBrief + `
     FROM run_history_all h
     WHERE h.job_id = @job AND h.due_at >= @from AND h.due_at < @to AND h.ended_at >= @ended
     ORDER BY h.due_at DESC LIMIT @limit)
    UNION ALL
    (SELECT * FROM (
        SELECT ` + endedBrief + `
        FROM run_history_all h
        WHERE h.job_id = @job AND h.due_at < @from AND h.ended_at >= @ended AND h.seq = 0
        ORDER BY h.due_at DESC LIMIT @reaching) b
     WHERE b.due_to >= @from)) e
ORDER BY e.due_at DESC, e.seq DESC, e.ended_at DESC`

// readEntries reads the ledger of the job.
func (r *timelineReader) readEntries(ctx context.Context) error {
	f := &r.facts
	f.Entries = nil
	const most = timeline.MaxEntries + timeline.ReachingIn
	var batch pgx.Batch
	batch.Queue(timelineEntries, pgx.NamedArgs{
		"partition": r.partition, "job": r.params.Job, "from": f.From, "to": f.To, "far": far,
		"ended": f.From.Add(-24 * time.Hour), "limit": most, "reaching": timeline.ReachingIn,
	}).Query(func(rows pgx.Rows) error {
		return eachBrief(rows, nil, func(e job.Entry) {
			if n := len(f.Entries); n == cap(f.Entries) { // entries are large: copy them seldom
				f.Entries = slices.Grow(f.Entries, 3*n+256)
			}
			f.Entries = append(f.Entries, e)
		})
	})
	if err := r.tx.SendBatch(ctx, &batch).Close(); err != nil {
		return err
	}
	if len(f.Entries) >= most { // what is due at the time of the last one may not have been read
		f.Known = later(f.Known, f.Entries[timeline.MaxEntries].DueAt.Add(time.Microsecond))
	}
	return nil
}

// readLater finds out whether the job had a run after the window by the version that was in force at its end: only then
// did it have runs left in the window.
func (r *timelineReader) readLater(ctx context.Context) error {
	f := &r.facts
	last := &f.Versions[len(f.Versions)-1]
	if last.MaxRuns == 0 || !f.To.Before(f.Now) {
		return nil
	}
	until := r.versionEnd
	if until.IsZero() {
		until = far
	}
	var at *time.Time
	err := r.tx.QueryRow(ctx, lastRun, r.partition, r.params.Job, f.To.Add(-time.Microsecond), until).Scan(&at)
	f.LaterRun = at != nil
	return err
}
