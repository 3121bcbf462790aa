package postgres

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/store"
)

// loadBounds bound the work for a load. A load that would exceed them reads a part of the jobs.
type loadBounds struct {
	rows    int // jobs and groups of them, of an exact load
	sample  int // the same of a sample
	cursors int // cursors of one partition
}

var defaultLoadBounds = loadBounds{rows: 60_000, sample: 30_000, cursors: 5_000}

const (
	partitionCount = 256
	maxEach        = 2_000  // jobs that are read one by one
	maxPlanned     = 10_000 // live runs to read: an index by due time would make every run more expensive
)

// loadStatement is a statement of a load that runs with the engine's view: see indexSearch. Under row-level security
// each job would be read from the table, because the index job_cursor does not have the namespace.
type loadStatement string

const (
	// loadKey is the key of the last cursor of a partition that a load reads. Keys are hashes, so it says what
	// fraction of the schedules comes before it. It returns no row if the partition has fewer cursors.
	loadKey loadStatement = `
SELECT key FROM cursor WHERE partition = @first AND namespace_id = @namespace
ORDER BY key OFFSET @cursors - 1 LIMIT 1`

	loadOfPartitions = loadBefore + `
        SELECT c.partition, c.id, c.schedule, c.next_due_at, c.after_job
        FROM unnest(@partitions::smallint[]) p, LATERAL (
            SELECT * FROM cursor
            WHERE partition = p AND namespace_id = @namespace AND (@last::bytea IS NULL OR key <= @last)
            OFFSET 0) c
        WHERE c.broken_at IS NULL AND c.plan_at < @to` + loadAfter

	loadOfAll = loadBefore + `
        SELECT partition, id, schedule, next_due_at, after_job FROM cursor
        WHERE namespace_id = @namespace AND broken_at IS NULL AND plan_at < @to OFFSET 0` + loadAfter

	// loadBefore and loadAfter, around cursors c, count their active jobs: those that were read, and those that
	// match. Bounds outside of the range do not split a group.
	loadBefore loadStatement = `
SELECT c.schedule, ` + loadColumns + `, count(*), count(*) FILTER (WHERE` + matches + `)
FROM (`

	loadAfter loadStatement = `) c, LATERAL (
    SELECT * FROM job WHERE partition = c.partition AND cursor_id = c.id AND state = 1 /* active */ OFFSET 0) s
GROUP BY 1, 2, 3`

	loadColumns = `CASE WHEN s.plan_from > @from THEN s.plan_from END AS starts,
       CASE WHEN s.end_at < @to THEN s.end_at END AS ends`

	// loadPlanned counts planned runs that the schedule of an active job does not have: loadOfAll leaves out schedules
	// that have ended, and a resumed job may have runs from before plan_from.
	loadPlanned loadStatement = `
SELECT r.due_at, count(*)
FROM (SELECT r.partition, r.job_id, r.due_at, r.queue_id FROM (
          SELECT partition, job_id, due_at, queue_id, seq, state, attempt FROM run LIMIT @planned) r
      WHERE r.seq = 0 AND r.state = 0 /* pending */ AND r.attempt = 0 AND r.due_at >= @from AND r.due_at < @to
        AND r.queue_id = ANY (ARRAY(SELECT q.id FROM queue q WHERE q.namespace_id = @namespace))
      OFFSET 0) r, LATERAL (
    SELECT * FROM job WHERE partition = r.partition AND id = r.job_id LIMIT 1) s
WHERE (s.state <> 1 /* active */ OR r.due_at < s.plan_from OR EXISTS (
           SELECT FROM cursor c WHERE c.partition = s.partition AND c.id = s.cursor_id AND c.next_due_at IS NULL))
  AND` + matches + `
GROUP BY r.due_at`

	loadLive loadStatement = `SELECT count(*) FROM (SELECT FROM run LIMIT @planned) r`
)

// loadOfEach and loadEach, around jobs s of a lead, count those that match. Row-level security applies.
const (
	loadOfEach = `
SELECT c.schedule, ` + loadColumns + `, count(*), count(*)
FROM`
	loadEach = `, LATERAL (SELECT * FROM cursor WHERE partition = s.partition AND id = s.cursor_id LIMIT 1) c
WHERE s.state = 1 /* active */ AND c.broken_at IS NULL AND c.plan_at < @to AND` + matches + `
GROUP BY 1, 2, 3`
)

// Load counts the runs that are due in each step of a range of time.
//
// It counts the active jobs of each schedule, and computes the occurrences of each schedule once. Jobs are spread over
// partitions by a hash of their ids, so if there are too many, those of some partitions are a fair sample.
func (a *API) Load(ctx context.Context, p job.LoadParams) (out job.Load, err error) {
	l := loading{listing: listing{API: a, order: p.Filter.List(p.Namespace)}}
	if err := l.read(ctx, &p); err != nil {
		if store.GaveUp(ctx, err) {
			err = fmt.Errorf("%w: %w", job.ErrSlowList, err)
		}
		return out, fmt.Errorf("read the load: %w", err)
	}
	l.in.Compile = a.schedules.Get
	return job.CountLoad(l.in), nil
}

// loading reads what a load is computed from.
type loading struct {
	listing
	in   job.LoadInput
	rows int // jobs that were read, whether or not they match
}

func (l *loading) read(ctx context.Context, p *job.LoadParams) error {
	l.args = pgx.NamedArgs{
		"namespace": p.Namespace, "after": uuid.Nil,
		"state": nil, "queue": nil, "target": nil, "labels": nil, "name": nil,
	}
	now, err := one[time.Time](ctx, &l.listing, `SELECT now()`)
	if err != nil {
		return err
	}
	if err := p.At(now); err != nil {
		return err
	}
	l.in = job.LoadInput{From: p.From, To: p.To, Step: p.Step, Now: now, Fraction: 1, Exact: true}
	l.args["from"], l.args["to"] = store.Later(p.From, now), p.To
	l.args["planned"] = maxPlanned
	possible, err := l.prepare(ctx)
	if err != nil || !possible {
		return err
	}
	each, err := l.each(ctx)
	if err == nil && !each {
		err = l.sample(ctx)
	}
	if err != nil {
		return err
	}
	return l.planned(ctx)
}

// each reads the jobs of a filter that few jobs match. It returns false if there is none.
func (l *loading) each(ctx context.Context) (bool, error) {
	if len(l.leads()) == 0 && len(l.order.Labels) == 0 && l.order.Name == "" {
		return false, nil
	}
	d, n, err := l.choose(ctx, true)
	if err != nil || n > maxEach {
		return false, err
	}
	l.args["scanned"] = maxEach
	return true, l.query(ctx, l.collect, loadOfEach+d.scanned()+loadEach, l.args)
}

// sample reads one partition. If that is few, it reads all of them, else as many as the bounds allow.
func (l *loading) sample(ctx context.Context) error {
	order := partitionOrder(l.order.Namespace[15])
	l.args["first"], l.args["partitions"] = order[0], order[:1]
	last, err := l.first(ctx, l.loads.cursors)
	// A filter by label reads the rows of the jobs, which may be many times slower than the index.
	for cursors := l.loads.cursors / 20; store.GaveUp(ctx, err) && cursors > 0; cursors /= 20 {
		last, err = l.first(ctx, cursors)
	}
	if err != nil {
		return err
	}
	fraction := 1.0
	if last != nil {
		fraction = keyFraction(last)
	}
	cost := l.rows + len(l.in.Jobs) + 1
	if last == nil && cost*partitionCount <= l.loads.rows {
		l.in.Jobs, l.rows = nil, 0
		if err := l.index.load(ctx, loadOfAll, l.args, l.collect); err != nil {
			return err
		}
		return nil
	}
	l.in.Exact = false
	if more := min(l.loads.sample/cost, partitionCount-1); last == nil && more > 0 {
		l.args["partitions"] = order[1 : 1+more]
		switch err := l.index.load(ctx, loadOfPartitions, l.args, l.collect); {
		case err == nil:
			fraction += float64(more)
		case !store.GaveUp(ctx, err):
			return err
		}
	}
	l.in.Fraction = fraction / partitionCount
	return nil
}

// first reads the jobs of the first cursors of one partition, up to a number, and returns the key of the last one if there are more.
func (l *loading) first(ctx context.Context, cursors int) (last []byte, err error) {
	l.args["cursors"], l.args["last"] = cursors, nil
	l.in.Jobs, l.rows = nil, 0
	err = l.index.load(ctx, loadKey, l.args, func(rows pgx.Rows) error {
		_, err := pgx.ForEachRow(rows, []any{&last}, func() error { return nil })
		return err
	})
	if err != nil {
		return nil, err
	}
	if last != nil {
		l.args["last"] = last
	}
	return last, l.index.load(ctx, loadOfPartitions, l.args, l.collect)
}

// planned adds the planned runs that the schedules do not have.
func (l *loading) planned(ctx context.Context) error {
	if l.in.From.After(l.in.Now.Add(plannedAhead)) {
		return nil
	}
	live := 0
	err := l.index.load(ctx, loadLive, l.args, func(rows pgx.Rows) (err error) {
		live, err = pgx.CollectExactlyOneRow(rows, pgx.RowTo[int])
		return err
	})
	if err == nil && live > 0 {
		err = l.index.load(ctx, loadPlanned, l.args, func(rows pgx.Rows) (err error) {
			l.in.Planned, err = pgx.CollectRows(rows, pgx.RowToStructByPos[job.PlannedRuns])
			return err
		})
	}
	if store.GaveUp(ctx, err) {
		l.in.Exact = false
		return nil
	}
	l.in.Exact = l.in.Exact && live < maxPlanned
	return err
}

// plannedAhead is longer than any look-ahead of the nodes: no run of a schedule is planned for later.
const plannedAhead = 10 * time.Minute

func (l *loading) collect(rows pgx.Rows) error {
	var g job.LoadJobs
	var read int
	_, err := pgx.ForEachRow(rows, []any{
		&g.Schedule, &g.From, &g.End, &read, &g.Jobs,
	}, func() error {
		if l.rows += read; g.Jobs > 0 {
			l.in.Jobs = append(l.in.Jobs, g)
		}
		g.From, g.End = nil, nil // the next row must not share them
		return nil
	})
	return err
}

// loadTime is the timeout of a statement. A smaller sample takes less.
const loadTime = "800ms"

// noMemoize: no cursor comes twice, so a cache of its jobs is in vain.
const noMemoize store.Settings = `set_config('enable_memoize', 'off', true)`

// load runs a statement of a load.
func (x engineSearch) load(
	ctx context.Context, sql loadStatement, args pgx.NamedArgs, read func(pgx.Rows) error,
) error {
	var batch pgx.Batch
	settings := append([]store.Settings{store.KeyLookups, noMemoize}, customPlans...)
	settings = append(settings, store.Timeout(loadTime))
	batch.Queue(store.Apply(settings...))
	batch.Queue(string(sql), args).Query(read)
	return x.all.SendBatch(ctx, &batch).Close()
}

// partitionOrder returns all partitions in an order that does not follow their numbers. It is always the same for a
// namespace, so that two samples of it are alike.
func partitionOrder(seed byte) []int16 {
	out := make([]int16, partitionCount)
	for i := range out {
		out[i] = int16((int(seed) + i*167) % partitionCount) // 167 and 256 have no common factor
	}
	return out
}

// keyFraction is the fraction of hashes up to and including a hash.
func keyFraction(hash []byte) float64 {
	return max(float64(binary.BigEndian.Uint64(hash))/math.MaxUint64, 1e-9)
}
