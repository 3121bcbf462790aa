package postgres

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/schedule"
	"github.com/belfry-dev/belfry/internal/store"
	"github.com/belfry-dev/belfry/internal/why"
)

// whyReader reads the facts that why.Explain needs.
type whyReader struct {
	tx    pgx.Tx
	order why.Params
	facts why.Facts
}

// Why explains occurrences of a job, also of a deleted one: see why.Params.
func (a *API) Why(ctx context.Context, o why.Params) (out []why.Story, err error) {
	err = a.db.Tx(ctx, store.In(o.Namespace, store.Lists), "explain "+job.FormatJobID(o.Job), func(tx pgx.Tx) error {
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
				return job.ErrNotFound
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
       (SELECT nullif(held_until, '-infinity') FROM cluster WHERE only_row)`

// readJob reads the facts that are the same for all times.
func (y *whyReader) readJob(ctx context.Context) error {
	id, partition := y.order.Job, job.PartitionOf(y.order.Job)
	f := &y.facts
	var created, held *time.Time
	var batch pgx.Batch
	batch.Queue(whyCluster, partition, id).QueryRow(func(row pgx.Row) error {
		return row.Scan(&f.Now, &f.HistoryFrom, &f.Owned, &created, &held)
	})
	if err := y.tx.SendBatch(ctx, &batch).Close(); err != nil {
		return err
	}
	if created == nil {
		return job.ErrNotFound
	}
	f.Created, f.HeldUntil = created.UTC(), store.OrZero(held)
	return nil
}

const lastAction = `
SELECT at, actor FROM audit_log
WHERE namespace_id = $1 AND object = $2 AND action = $3
ORDER BY seq DESC LIMIT 1`

// lastActor reads who last performed an action on an object, and when.
func (y *whyReader) lastActor(ctx context.Context, action, object string, at *time.Time, actor *string) error {
	err := y.tx.QueryRow(ctx, lastAction, y.order.Namespace, object, action).Scan(at, actor)
	if store.NoRows(err) {
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
	if err := y.readLife(ctx, y.facts.Now); err != nil {
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
	if !before.IsZero() && (len(runs) == 0 || before.After(y.facts.Created)) {
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
    (SELECT h.due_at, h.seq FROM run_history h
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

// readLife reads what matters of the job at a time. For a time before the job was created that is its first version.
func (y *whyReader) readLife(ctx context.Context, at time.Time) error {
	f := &y.facts
	r := lifeReader{tx: y.tx, namespace: y.order.Namespace, partition: job.PartitionOf(y.order.Job), from: at}
	r.ID, r.Now, r.HistoryFrom, r.to = y.order.Job, f.Now, f.HistoryFrom, at.Add(time.Microsecond)
	if err := r.read(ctx); err != nil {
		return err
	}
	f.Life, f.DeletedBy, f.Job = r.Life, r.deletedBy, nil
	if r.row != nil {
		f.Job = &r.row.Job
	}
	f.In, _ = r.At(at)
	f.Definition, f.Problem = r.definitions[f.In], r.problems[f.In]
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
         FROM run_history h
         WHERE h.job_id = @job AND h.due_at >= @at AND h.due_at < @after
           AND (@seq::smallint IS NULL OR h.seq = @seq)
         ORDER BY h.due_at LIMIT 100)
        UNION ALL
        (SELECT * FROM (
             SELECT ` + endedEntry + `
             FROM run_history h
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

// readAt reads the facts about one time, or about one run that is due then.
func (y *whyReader) readAt(ctx context.Context, subject whySubject) error {
	at := subject.at
	if err := y.readLife(ctx, at); err != nil {
		return err
	}
	f, id, partition := &y.facts, y.order.Job, job.PartitionOf(y.order.Job)
	f.At, f.Entries = at, nil
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
	if err := y.readFinding(ctx); err != nil {
		return err
	}
	return y.readAround(ctx)
}

// readFinding reads what the audit found about the occurrence.
func (y *whyReader) readFinding(ctx context.Context) error {
	f := &y.facts
	f.FoundAt, f.Found = time.Time{}, ""
	const found = `
SELECT kind, found_at FROM audit_finding WHERE partition = $1 AND job_id = $2 AND due_at = $3 ORDER BY kind LIMIT 1`
	err := y.tx.QueryRow(ctx, found, job.PartitionOf(y.order.Job), y.order.Job, f.At).Scan(&f.Found, &f.FoundAt)
	if store.NoRows(err) {
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
