package postgres

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/store"
)

const statColumns = `s.minute, s.started, s.succeeded, s.failed, s.cancelled, s.skipped, s.missed, s.late, s.audited, s.lateness,
    s.process_id`

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

	// Processes that counted queues of the namespace without writing a row for each of them.
	statsOfRest = `
SELECT s.minute, s.process_id FROM stat_minute s
WHERE s.namespace_id = @namespace AND s.queue_id = @rest AND s.minute >= @from AND s.minute < @to
ORDER BY s.minute DESC LIMIT @limit`

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
	b := statBuilder{StatParams: p, series: map[string]*statSeries{}}
	sql := statsOfNamespace
	if p.ByQueue || p.Queue != "" {
		sql = statsOfQueues
	}
	args := pgx.NamedArgs{
		"namespace": p.Namespace, "queue": p.Queue, "from": p.From, "to": p.To, "step": p.Step,
		"limit": job.MaxStatRows, "processes": job.MaxStatProcessRows, "candidates": job.MaxStatCandidates,
		"rest": job.StatRest, "queues": max(1, min(job.MaxStatSeries, job.MaxStatPoints/b.steps())),
	}
	err = v.db.Tx(ctx, store.In(p.Namespace, store.Lists, store.NoBitmaps), "read statistics", func(tx pgx.Tx) error {
		b.partial = false
		var batch pgx.Batch
		batch.Queue(statsOfProcesses, args).Query(b.counted)
		b.rest = nil
		if sql == statsOfQueues {
			batch.Queue(statsOfRest, args).Query(b.readRest)
		}
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
	known  map[int]bool        // steps in which a process was counting
	lost   map[int]bool        // steps in which a process was killed
	rest   map[statSource]bool // those that did not write a row for each queue
	before time.Time           // rest has nothing earlier, although there may be some
	series map[string]*statSeries

	partial bool // something is left out
}

// statSource is what wrote rows: a process in a minute.
type statSource struct {
	minute  int64 // Unix time
	process uuid.UUID
}

// statSeries is the points of a queue while they are summed.
type statSeries struct {
	points []job.StatPoint
	rows   int
	oldest time.Time           // minute
	from   map[statSource]bool // those of statBuilder.rest that have a row of the queue
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

func (b *statBuilder) readRest(rows pgx.Rows) error {
	b.rest, b.before = map[statSource]bool{}, time.Time{}
	var at time.Time
	var process uuid.UUID
	_, err := pgx.ForEachRow(rows, []any{&at, &process}, func() error {
		b.rest[statSource{at.Unix(), process}] = true
		return nil
	})
	if len(b.rest) >= job.MaxStatRows {
		b.before = at
	}
	return err
}

func (b *statBuilder) read(rows pgx.Rows) error {
	clear(b.series)
	var queue string
	var r job.StatRow
	var lateness []int64
	var process uuid.UUID
	var more bool
	_, err := pgx.ForEachRow(rows, append([]any{&queue, &more}, statFields(&r, &lateness, &process)...), func() error {
		b.partial = b.partial || more
		r.Lateness = lateness
		b.of(queue).add(&b.StatParams, &r)
		if source := (statSource{r.Minute.Unix(), process}); b.rest[source] {
			b.of(queue).from[source] = true
		}
		return nil
	})
	return err
}

func (b *statBuilder) of(queue string) *statSeries {
	s := b.series[queue]
	if s == nil {
		s = &statSeries{points: make([]job.StatPoint, b.steps()), from: map[statSource]bool{}}
		b.series[queue] = s
	}
	return s
}

func (s *statSeries) add(p *job.StatParams, r *job.StatRow) {
	s.rows++
	if s.oldest.IsZero() || r.Minute.Before(s.oldest) {
		s.oldest = r.Minute
	}
	point := &s.points[int(r.Minute.Sub(p.From)/p.Step)]
	late := point.Late
	point.Add(&r.Stat)
	if p.Step > time.Minute {
		point.Late = max(late, r.Late) // of the minutes of a step, the worst
	}
}

// statFields are the fields that statColumns are read into.
func statFields(r *job.StatRow, lateness *[]int64, process *uuid.UUID) []any {
	return []any{
		&r.Minute, &r.Started, &r.Succeeded, &r.Failed, &r.Cancelled, &r.Skipped, &r.Missed, &r.Late, &r.Audited,
		lateness, process,
	}
}

func (b *statBuilder) stats() job.Stats {
	if !b.ByQueue {
		b.of(b.Queue)
	}
	out := job.Stats{From: b.From.UTC(), To: b.To.UTC(), Step: b.Step}
	for queue, s := range b.series {
		for i := range s.points {
			s.points[i].At = out.From.Add(time.Duration(i) * b.Step)
			s.points[i].Counted, s.points[i].Incomplete = b.known[i], b.lost[i]
		}
		b.markCut(s)
		b.markRest(s)
		out.Series = append(out.Series, job.StatSeries{Queue: queue, Points: s.points})
	}
	// Of several queues, those of the rest that have no series are left out.
	out.Partial = b.partial || b.ByQueue && len(b.rest) > 0
	slices.SortFunc(out.Series, func(a, b job.StatSeries) int { return strings.Compare(a.Queue, b.Queue) })
	return out
}

// markCut marks the points before the oldest row that was read, if there may be others.
func (b *statBuilder) markCut(s *statSeries) {
	if s.rows < job.MaxStatRows/len(b.series) {
		return
	}
	b.partial = true
	oldest := int(s.oldest.Sub(b.From) / b.Step)
	s.points[oldest].Incomplete = true
	for i := range oldest {
		s.points[i].Counted = false
	}
}

// markRest marks the points in which a process counted queues that have no row of their own, if this queue has none.
func (b *statBuilder) markRest(s *statSeries) {
	for source := range b.rest {
		if s.from[source] {
			continue
		}
		b.partial = true
		s.lack(int(time.Unix(source.minute, 0).Sub(b.From) / b.Step))
	}
	for i := 0; i < len(s.points) && s.points[i].At.Before(b.before); i++ {
		s.lack(i)
	}
}

// lack marks a point that may lack something.
func (s *statSeries) lack(i int) {
	if s.points[i].Total() == 0 {
		s.points[i].Counted = false
	} else {
		s.points[i].Incomplete = true
	}
}

// Now reads the clock of the database.
func (v *Views) Now(ctx context.Context, namespace uuid.UUID) (now time.Time, err error) {
	err = v.db.Query(ctx, store.In(namespace), func(rows pgx.Rows) error {
		now, err = pgx.CollectExactlyOneRow(rows, pgx.RowTo[time.Time])
		return err
	}, `SELECT now()`)
	return now.UTC(), err
}
