package postgres

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/store"
	"github.com/belfry-dev/belfry/internal/timeline"
)

// timelineReader reads the facts of a timeline.
type timelineReader struct {
	lifeReader
	params timeline.Params
	facts  timeline.Facts
}

// Timeline reads what the ledger says about a job in a window of due times, also about a deleted job.
func (v *Views) Timeline(ctx context.Context, p timeline.Params) (timeline.Facts, error) {
	var r timelineReader
	settings := store.In(p.Namespace, store.Lists, store.NoBitmaps, store.InOrder, store.Timeout("5s"))
	err := v.db.Tx(ctx, settings, "read the timeline of "+job.FormatJobID(p.Job), func(tx pgx.Tx) error {
		r = timelineReader{
			lifeReader: lifeReader{tx: tx, namespace: p.Namespace, partition: job.PartitionOf(p.Job)}, params: p,
		}
		r.ID = p.Job
		if err := r.readClock(ctx); err != nil {
			return err
		}
		if err := r.read(ctx); err != nil {
			return err
		}
		r.facts.Life, r.facts.Known = r.Life, r.known
		return r.readEntries(ctx)
	})
	return r.facts, err
}

// readClock reads the instant of the timeline, and where history begins.
func (r *timelineReader) readClock(ctx context.Context) error {
	if err := r.tx.QueryRow(ctx, `SELECT now(), `+historyFrom).Scan(&r.Now, &r.HistoryFrom); err != nil {
		return err
	}
	r.Now, r.HistoryFrom = r.Now.UTC(), r.HistoryFrom.UTC()
	r.from, r.to = r.params.Window(r.Now)
	r.facts.From, r.facts.To = r.from, r.to
	return r.readArchived(ctx)
}

const timelineArchived = `
SELECT day FROM archive_day
WHERE day >= ($1::timestamptz AT TIME ZONE 'UTC')::date AND day < ($2::timestamptz AT TIME ZONE 'UTC')::date
  AND manifest IS NOT NULL`

// readArchived reads which days of the window only the archive has. A window has few days.
func (r *timelineReader) readArchived(ctx context.Context) error {
	f := &r.facts
	if !f.From.Before(r.HistoryFrom) {
		return nil
	}
	rows, err := r.tx.Query(ctx, timelineArchived, f.From, r.HistoryFrom)
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
     FROM run_history h
     WHERE h.job_id = @job AND h.due_at >= @from AND h.due_at < @to AND h.ended_at >= @ended
     ORDER BY h.due_at DESC LIMIT @limit)
    UNION ALL
    (SELECT * FROM (
        SELECT ` + endedBrief + `
        FROM run_history h
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
		f.Known = store.Later(f.Known, f.Entries[timeline.MaxEntries].DueAt.Add(time.Microsecond))
	}
	return nil
}
