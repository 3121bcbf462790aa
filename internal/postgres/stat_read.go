package postgres

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/postgres/pool"
)

const statColumns = `s.minute, s.started, s.succeeded, s.failed, s.cancelled, s.skipped, s.missed, s.late, s.audited, s.lateness`

// The rows of a namespace or of its queues, and those that show when any process was counting.
const (
	statsOfNamespace = `
SELECT '' AS queue, false AS more, ` + statColumns + ` FROM stat_minute s
WHERE s.namespace_id = @namespace AND s.queue_id = 0 AND s.minute >= @from AND s.minute < @to
ORDER BY s.minute DESC LIMIT @limit`

	// The busiest queues are those with the most in their newest rows. Each queue has the same share of the rows.
	statsOfQueues = `
WITH candidate AS MATERIALIZED (
    SELECT q.id, q.name FROM queue q
    WHERE q.namespace_id = @namespace AND (@queue = '' OR q.name = @queue)
    ORDER BY q.name LIMIT @candidates),
found AS MATERIALIZED (
    SELECT c.id, c.name, x.total FROM candidate c, LATERAL (
        SELECT sum(n.total) AS total FROM (
            SELECT s.started + s.succeeded + s.failed + s.cancelled + s.skipped + s.missed + s.late AS total
            FROM stat_minute s
            WHERE s.namespace_id = @namespace AND s.queue_id = c.id AND s.minute >= @from AND s.minute < @to
            ORDER BY s.minute DESC LIMIT 10) n) x
    WHERE x.total IS NOT NULL),
busiest AS MATERIALIZED (SELECT f.id, f.name FROM found f ORDER BY f.total DESC, f.name LIMIT @queues)
SELECT b.name, (SELECT count(*) FROM found) > @queues OR (SELECT count(*) FROM candidate) >= @candidates, x.*
FROM busiest b, LATERAL (
    SELECT ` + statColumns + ` FROM stat_minute s
    WHERE s.namespace_id = @namespace AND s.queue_id = b.id AND s.minute >= @from AND s.minute < @to
    ORDER BY s.minute DESC LIMIT @limit / (SELECT count(*) FROM busiest)) x`

	// A process that is alive writes its minutes until they are over. One that stopped in one of them, and has been
	// silent for several times its pause, was killed.
	statsOfProcesses = `
SELECT date_bin(@step, s.minute, @from), max(s.written_at) FILTER (
    WHERE s.written_at < s.minute + interval '1 minute' AND s.written_at < now() - interval '15 seconds'), count(*)
FROM (
    SELECT s.minute, s.written_at FROM stat_minute s
    WHERE s.namespace_id = '00000000-0000-0000-0000-000000000000' AND s.queue_id = 0
      AND s.minute >= @from AND s.minute < @to
    ORDER BY s.minute DESC LIMIT @processes) s
GROUP BY 1`
)

// Stats returns series of what happened in each step of a range. The number of rows it reads is bounded, and so is the
// number of points it returns.
func (v *Views) Stats(ctx context.Context, p job.StatParams) (out job.Stats, err error) {
	b := statBuilder{StatParams: p, series: map[string][]job.StatPoint{}}
	sql := statsOfNamespace
	if p.ByQueue || p.Queue != "" {
		sql = statsOfQueues
	}
	args := pgx.NamedArgs{
		"namespace": p.Namespace, "queue": p.Queue, "from": p.From, "to": p.To, "step": p.Step,
		"limit": job.MaxStatRows, "processes": job.MaxStatProcessRows, "candidates": job.MaxStatCandidates,
		"queues": max(1, min(job.MaxStatSeries, job.MaxStatPoints/b.steps())),
	}
	err = v.db.Tx(ctx, pool.In(p.Namespace, pool.Lists, pool.NoBitmaps), "read statistics", func(tx pgx.Tx) error {
		b.partial = false
		var batch pgx.Batch
		batch.Queue(statsOfProcesses, args).Query(b.counted)
		batch.Queue(sql, args).Query(b.read)
		return tx.SendBatch(ctx, &batch).Close()
	})
	if err != nil {
		return out, err
	}
	return b.stats(), nil
}

// statBuilder sums rows by step.
type statBuilder struct {
	job.StatParams
	known  map[int]bool // steps in which a process was counting
	lost   map[int]bool // steps in which a process was killed
	series map[string][]job.StatPoint

	partial bool // something is left out
}

func (b *statBuilder) steps() int { return int((b.To.Sub(b.From) + b.Step - 1) / b.Step) }

func (b *statBuilder) counted(rows pgx.Rows) error {
	b.known, b.lost = map[int]bool{}, map[int]bool{}
	var at time.Time
	var killed *time.Time
	var n, all int64
	_, err := pgx.ForEachRow(rows, []any{&at, &killed, &n}, func() error {
		all += n
		step := int(at.Sub(b.From) / b.Step)
		b.known[step] = true
		if killed != nil {
			b.lost[step] = true
			b.lost[int(killed.Add(job.StatsPause).Sub(b.From)/b.Step)] = true // it may have died in the next one
		}
		return nil
	})
	b.partial = b.partial || all >= job.MaxStatProcessRows
	return err
}

func (b *statBuilder) read(rows pgx.Rows) error {
	clear(b.series)
	var queue string
	var r job.StatRow
	var lateness []int64
	var more bool
	read := map[string]int{}
	_, err := pgx.ForEachRow(rows, append([]any{&queue, &more}, statFields(&r, &lateness)...), func() error {
		read[queue]++
		b.partial = b.partial || more
		r.Lateness = lateness
		if b.series[queue] == nil {
			b.series[queue] = make([]job.StatPoint, b.steps())
		}
		p := &b.series[queue][int(r.Minute.Sub(b.From)/b.Step)]
		late := p.Late
		p.Add(&r.Stat)
		if b.Step > time.Minute {
			p.Late = max(late, r.Late) // of the minutes of a step, the worst
		}
		return nil
	})
	for _, n := range read {
		b.partial = b.partial || n >= job.MaxStatRows/len(read)
	}
	return err
}

// statFields are the fields that statColumns are read into.
func statFields(r *job.StatRow, lateness *[]int64) []any {
	return []any{
		&r.Minute, &r.Started, &r.Succeeded, &r.Failed, &r.Cancelled, &r.Skipped, &r.Missed, &r.Late, &r.Audited,
		lateness,
	}
}

func (b *statBuilder) stats() job.Stats {
	out := job.Stats{
		From: b.From.UTC(), To: b.To.UTC(), Step: b.Step, Partial: b.partial,
	}
	if !b.ByQueue && b.series[b.Queue] == nil {
		b.series[b.Queue] = make([]job.StatPoint, b.steps())
	}
	for queue, points := range b.series {
		for i := range points {
			points[i].At = out.From.Add(time.Duration(i) * b.Step)
			points[i].Counted, points[i].Incomplete = b.known[i], b.lost[i]
		}
		out.Series = append(out.Series, job.StatSeries{Queue: queue, Points: points})
	}
	slices.SortFunc(out.Series, func(a, b job.StatSeries) int { return strings.Compare(a.Queue, b.Queue) })
	return out
}

// Now reads the clock of the database.
func (v *Views) Now(ctx context.Context, namespace uuid.UUID) (now time.Time, err error) {
	err = v.db.Query(ctx, pool.In(namespace), func(rows pgx.Rows) error {
		now, err = pgx.CollectExactlyOneRow(rows, pgx.RowTo[time.Time])
		return err
	}, `SELECT now()`)
	return now.UTC(), err
}
