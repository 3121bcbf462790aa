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
	"github.com/belfry-dev/belfry/internal/schedule"
	"github.com/belfry-dev/belfry/internal/why"
)

// whyReader reads the facts that why.Explain needs.
type whyReader struct {
	tx    pgx.Tx
	order why.Params
	row   *jobRow // nil: deleted
	facts why.Facts
}

// Why explains occurrences of a job, also of a deleted one: see why.Params.
func (a *API) Why(ctx context.Context, o why.Params) (out []why.Story, err error) {
	err = a.db.Tx(ctx, pool.In(o.Namespace, pool.Lists), "explain "+job.FormatJobID(o.Job), func(tx pgx.Tx) error {
		out = nil
		y := whyReader{tx: tx, order: o}
		if err := y.readJob(ctx); err != nil {
			return err
		}
		subjects, err := y.subjects(ctx)
		if err != nil {
			return err
		}
		for _, s := range subjects {
			if err := y.readAt(ctx, s); err != nil {
				return err
			}
			if o.Run != nil && len(y.facts.Entries) == 0 {
				return ErrNotFound
			}
			out = append(out, why.Explain(y.facts))
		}
		return nil
	})
	return out, err
}

const whyCluster = `
SELECT now(), ` + historyFrom + `,
       EXISTS (SELECT FROM partition p JOIN session s ON s.id = p.owner WHERE p.id = $1 AND s.expires_at > now()),
       (SELECT min(created_at) FROM job_version WHERE partition = $1 AND job_id = $2),
       (SELECT nullif(held_from, '-infinity') FROM cluster WHERE only_row),
       (SELECT nullif(held_until, '-infinity') FROM cluster WHERE only_row)`

// readJob reads the facts that are the same for all times.
func (y *whyReader) readJob(ctx context.Context) error {
	id, partition := y.order.Job, job.PartitionOf(y.order.Job)
	f := &y.facts
	f.ID = id
	var created, from, until *time.Time
	var batch pgx.Batch
	batch.Queue(selectJob+whereJob, partition, id, y.order.Namespace).Query(func(rows pgx.Rows) error {
		found, err := pgx.CollectRows(rows, scanJob)
		if err == nil && len(found) == 1 {
			y.row = &found[0]
		}
		return err
	})
	batch.Queue(whyCluster, partition, id).QueryRow(func(row pgx.Row) error {
		return row.Scan(&f.Now, &f.HistoryFrom, &f.Owned, &created, &from, &until)
	})
	batch.Queue(namespaceIsFull, y.order.Namespace).QueryRow(func(row pgx.Row) error { return row.Scan(&f.Full) })
	if err := y.tx.SendBatch(ctx, &batch).Close(); err != nil {
		return err
	}
	if created == nil {
		return ErrNotFound
	}
	f.Created, f.HeldFrom, f.HeldUntil = created.UTC(), deref(from), deref(until)
	if y.row == nil {
		return y.lastActor(ctx, "job.delete", job.FormatJobID(id), &f.DeletedAt, &f.DeletedBy)
	}
	f.Job, f.RunsLeft, f.PlanFrom = &y.row.Job, y.row.runsLeft, y.row.planFrom
	return nil
}

const lastAction = `
SELECT at, actor FROM audit_log
WHERE namespace_id = $1 AND object = $2 AND action = $3
ORDER BY seq DESC LIMIT 1`

// lastActor reads who last performed an action on an object, and when.
func (y *whyReader) lastActor(ctx context.Context, action, object string, at *time.Time, actor *string) error {
	err := y.tx.QueryRow(ctx, lastAction, y.order.Namespace, object, action).Scan(at, actor)
	if noRows(err) {
		return nil
	}
	return err
}

// whySubject is what one story is about: a time, or one run that is due then.
type whySubject struct {
	at  time.Time
	seq *int16 // nil: whatever the ledger has at that time
}

// subjects returns what to explain, in the order of time.
func (y *whyReader) subjects(ctx context.Context) ([]whySubject, error) {
	if k := y.order.Run; k != nil {
		return []whySubject{{k.DueAt, &k.Seq}}, nil
	}
	if err := y.readVersion(ctx, y.facts.Now); err != nil {
		return nil, err
	}
	compiled, err := schedule.New(y.facts.Definition.Schedule, y.order.Job.String())
	if y.order.At != "" {
		zone := time.UTC
		if err == nil {
			zone = compiled.Zone()
		}
		at, err := why.ParseWhen(y.order.At, zone)
		return []whySubject{{at: at}}, err
	}
	if err != nil {
		return nil, err
	}
	runs, err := y.newestRuns(ctx)
	if err != nil {
		return nil, err
	}
	before, after := compiled.Around(y.facts.Now)
	// The time before the job existed needs no story if a run has one.
	if !before.IsZero() && (len(runs) == 0 || !before.Before(y.facts.Created)) {
		runs = append(runs, whySubject{at: before})
	}
	if !after.IsZero() {
		runs = append(runs, whySubject{at: after})
	}
	slices.SortStableFunc(runs, func(a, b whySubject) int { return a.at.Compare(b.at) })
	return slices.CompactFunc(runs, whySubject.covers), nil
}

// covers reports whether two subjects next to each other have the same story: a time has that of its first run.
func (s whySubject) covers(other whySubject) bool {
	same := s.seq == nil || other.seq == nil || *s.seq == *other.seq
	return same && s.at.Equal(other.at)
}

// newestRuns finds the newest run that is more than planned, whatever its origin, the next run that was triggered for
// later, and the newest dead letters.
const newestRuns = `
(SELECT due_at, seq FROM (
    (SELECT r.due_at, r.seq FROM run r
     WHERE r.partition = $1 AND r.job_id = $2 AND (r.state <> 0 /* pending */ OR r.attempt > 0 OR r.run_at <= now())
     ORDER BY r.due_at DESC, r.seq DESC LIMIT 1)
    UNION ALL
    (SELECT h.due_at, h.seq FROM run_history_all h
     WHERE h.job_id = $2 AND h.due_to IS NULL
     ORDER BY h.due_at DESC, h.seq DESC LIMIT 1)) x
 ORDER BY due_at DESC, seq DESC LIMIT 1)
UNION
(SELECT r.due_at, r.seq FROM run r
 WHERE r.partition = $1 AND r.job_id = $2 AND r.seq > 0 AND r.state = 0 /* pending */ AND r.attempt = 0
   AND r.due_at > now()
 ORDER BY r.due_at, r.seq LIMIT 1)
UNION
(SELECT d.due_at, d.seq FROM dead_letter d
 WHERE d.partition = $1 AND d.job_id = $2
 ORDER BY d.due_at DESC, d.seq DESC LIMIT 3)`

func (y *whyReader) newestRuns(ctx context.Context) (out []whySubject, err error) {
	rows, err := y.tx.Query(ctx, newestRuns, job.PartitionOf(y.order.Job), y.order.Job)
	if err != nil {
		return nil, err
	}
	var at time.Time
	var seq int16
	_, err = pgx.ForEachRow(rows, []any{&at, &seq}, func() error {
		number := seq
		out = append(out, whySubject{at.UTC(), &number})
		return nil
	})
	return out, err
}

const versionAt = `
SELECT version, definition FROM job_version
WHERE partition = $1 AND job_id = $2 AND (created_at <= $3 OR version = 1)
ORDER BY version DESC LIMIT 1`

// readVersion reads the definition that was in force at a time. For a time before the job was created it is the first.
func (y *whyReader) readVersion(ctx context.Context, at time.Time) error {
	var definition string
	err := y.tx.QueryRow(ctx, versionAt, job.PartitionOf(y.order.Job), y.order.Job, at).
		Scan(&y.facts.Version, &definition)
	if err != nil {
		return err
	}
	y.facts.Definition = job.Definition{}
	if err := json.Unmarshal([]byte(definition), &y.facts.Definition); err != nil {
		return fmt.Errorf("read version %d: %w", y.facts.Version, err)
	}
	y.facts.Definition = y.facts.Definition.WithDefaults()
	return nil
}

// entriesAt reads the runs that are due within the second that begins at a time, and the range of skipped occurrences
// that may cover it. Between the ends of a range its job has no other entry by schedule, so the range is among the last
// before. For one run, it reads that run alone, because the limits may cut off others of the same time.
const entriesAt = selectEntries + `
    SELECT * FROM (
        (SELECT ` + liveEntry + `
         FROM run r
         WHERE r.partition = @partition AND r.job_id = @job AND r.due_at >= @at AND r.due_at < @after
           AND (@seq::smallint IS NULL OR r.seq = @seq)
         ORDER BY r.due_at LIMIT 20)
        UNION ALL
        (SELECT ` + endedEntry + `
         FROM run_history_all h
         WHERE h.job_id = @job AND h.due_at >= @at AND h.due_at < @after
           AND (@seq::smallint IS NULL OR h.seq = @seq)
         ORDER BY h.due_at LIMIT 100)
        UNION ALL
        (SELECT * FROM (
             SELECT ` + endedEntry + `
             FROM run_history_all h
             WHERE h.job_id = @job AND h.due_at < @at AND h.seq = 0 AND @seq::smallint IS NULL
             ORDER BY h.due_at DESC LIMIT 5) h
         WHERE h.due_to >= @at)) u) x
ORDER BY x.ended_at DESC, x.due_at, x.seq`

const archivedDay = `
SELECT EXISTS (SELECT FROM archive_day WHERE day = ($1::timestamptz AT TIME ZONE 'UTC')::date AND manifest IS NOT NULL)`

const otherRuns = `
SELECT (SELECT count(*) FROM run WHERE partition = $1 AND job_id = $2 AND state <> 0 /* live */),
       (SELECT count(*) FROM run
        WHERE partition = $1 AND job_id = $2 AND due_at < $3 AND state = 0 /* pending */ AND run_at <= now())`

const skipAt = `
SELECT s.from_due, s.to_due, s.count, s.reason
FROM (SELECT * FROM cursor_skip
      WHERE partition = $1 AND cursor_id = $2 AND from_due <= $3
      ORDER BY from_due DESC LIMIT 10) s
WHERE s.to_due >= $3`

// readAt reads the facts about one time, or about one run that is due then.
func (y *whyReader) readAt(ctx context.Context, subject whySubject) error {
	at := subject.at
	if err := y.readVersion(ctx, at); err != nil {
		return err
	}
	f, id, partition := &y.facts, y.order.Job, job.PartitionOf(y.order.Job)
	f.At, f.Entries, f.Skip, f.NextDue, f.CursorGone = at, nil, nil, time.Time{}, false
	var batch pgx.Batch
	after := at.Add(time.Second)
	if subject.seq != nil {
		after = at.Add(time.Microsecond) // times are whole microseconds
	}
	args := pgx.NamedArgs{
		"partition": partition, "job": id, "at": at, "after": after, "seq": subject.seq, "far": far,
	}
	batch.Queue(entriesAt, args).Query(func(rows pgx.Rows) (err error) {
		f.Entries, err = pgx.CollectRows(rows, scanEntry)
		return err
	})
	batch.Queue(archivedDay, at).QueryRow(func(row pgx.Row) error { return row.Scan(&f.Archived) })
	batch.Queue(otherRuns, partition, id, at).QueryRow(func(row pgx.Row) error { return row.Scan(&f.Others, &f.Ahead) })
	if err := y.tx.SendBatch(ctx, &batch).Close(); err != nil {
		return err
	}
	if err := y.readCursor(ctx); err != nil {
		return err
	}
	if err := y.readFinding(ctx); err != nil {
		return err
	}
	return y.readAround(ctx)
}

// readCursor reads how far the schedule that was in force is planned, and what the cursor skipped for all its jobs.
func (y *whyReader) readCursor(ctx context.Context) error {
	f, partition := &y.facts, job.PartitionOf(y.order.Job)
	d, err := derive(f.Definition, y.order.Job)
	if err != nil {
		return nil //nolint:nilerr // Explain reports that the definition cannot be read
	}
	var c cursor
	const find = `SELECT id, next_due_at FROM cursor WHERE partition = $1 AND namespace_id = $2 AND key = $3`
	err = y.tx.QueryRow(ctx, find, partition, y.order.Namespace, d.key).Scan(&c.id, &c.next)
	if noRows(err) {
		f.CursorGone = true
		return nil
	}
	if err != nil {
		return err
	}
	f.NextDue = deref(c.next).UTC()
	rows, err := y.tx.Query(ctx, skipAt, partition, c.id, f.At)
	if err != nil {
		return err
	}
	var skip job.Skip
	_, err = pgx.ForEachRow(rows, []any{&skip.From, &skip.To, &skip.Count, &skip.Reason}, func() error {
		found := skip
		f.Skip = &found
		return nil
	})
	return err
}

// readFinding reads what the audit found about the occurrence.
func (y *whyReader) readFinding(ctx context.Context) error {
	f := &y.facts
	f.FoundAt, f.Found = time.Time{}, ""
	const found = `
SELECT kind, found_at FROM audit_finding WHERE partition = $1 AND job_id = $2 AND due_at = $3 ORDER BY kind LIMIT 1`
	err := y.tx.QueryRow(ctx, found, job.PartitionOf(y.order.Job), y.order.Job, f.At).Scan(&f.Found, &f.FoundAt)
	if noRows(err) {
		return nil
	}
	return err
}

// readAround reads whether the queue of the run is paused and who paused it, the state of its limits, and who cancelled
// the run.
func (y *whyReader) readAround(ctx context.Context) error {
	f := &y.facts
	f.QueuePaused, f.QueueNote, f.QueueBy, f.CancelledBy = time.Time{}, "", "", ""
	f.Queue, f.KeyRunning, f.Workers, f.RunQuota, f.QuotaUsed = job.Queue{}, 0, false, 0, false
	if len(f.Entries) == 0 {
		return nil
	}
	e := f.Entries[0]
	var at time.Time // the row of the queue has the exact time
	if e.Status == job.StatusCancelled && e.Reason == job.ReasonCancelled {
		return y.lastActor(ctx, "run.cancel", job.FormatRunID(e.Key), &at, &f.CancelledBy)
	}
	if err := y.readLimits(ctx, e.Queue); err != nil || !f.Queue.Paused {
		return err
	}
	f.QueuePaused, f.QueueNote = f.Queue.PausedAt, f.Queue.Note
	if f.QueuePaused.IsZero() {
		f.QueuePaused = f.Queue.CreatedAt
	}
	return y.lastActor(ctx, "queue.pause", e.Queue, &at, &f.QueueBy)
}

// readLimits reads the state of the limits that apply to a run.
func (y *whyReader) readLimits(ctx context.Context, queue string) error {
	f := &y.facts
	var batch pgx.Batch
	batch.Queue(selectQueues+`AND name = $2`, y.order.Namespace, queue).Query(func(rows pgx.Rows) error {
		found, err := pgx.CollectRows(rows, scanQueue)
		if len(found) == 1 {
			f.Queue = found[0]
		}
		return err
	})
	const workers = `
SELECT EXISTS (SELECT FROM session s JOIN queue q ON q.id = s.queue_id
               WHERE q.namespace_id = $1 AND q.name = $2 AND s.expires_at > now())`
	batch.Queue(workers, y.order.Namespace, queue).QueryRow(func(row pgx.Row) error { return row.Scan(&f.Workers) })
	const quota = `
SELECT n.max_runs_per_minute, r.tokens, r.refilled_at FROM namespace n LEFT JOIN namespace_rate r ON r.namespace_id = n.id
WHERE n.id = $1 AND n.max_runs_per_minute IS NOT NULL`
	batch.Queue(quota, y.order.Namespace).Query(func(rows pgx.Rows) error {
		var q job.RunQuota
		var tokens *float64
		var refilled *time.Time
		_, err := pgx.ForEachRow(rows, []any{&q.PerMinute, &tokens, &refilled}, func() error {
			if tokens != nil {
				q.Bucket = job.Bucket{Tokens: *tokens, At: *refilled}
			}
			f.RunQuota, f.QuotaUsed = q.PerMinute, q.Left(f.Now) < 1
			return nil
		})
		return err
	})
	if key := f.Definition.Concurrency.ID(y.order.Namespace); key != 0 {
		const running = `SELECT count(*) FROM permit WHERE limit_kind = 2 /* concurrency key */ AND limit_id = $1`
		batch.Queue(running, key).QueryRow(func(row pgx.Row) error { return row.Scan(&f.KeyRunning) })
	}
	return y.tx.SendBatch(ctx, &batch).Close()
}
