package postgres

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/postgres/pool"
)

// A list by due time merges three streams. A job is in one of them:
//   - by its first planned run
//   - else by its cursor, at the first occurrence that is not planned, even if a calendar will take it away
//   - or, if it starts later than that, by its start
//
// All streams have the order of [job.ListMark.Compare]. If a filter leaves few jobs, each of those is read instead.
const (
	maxPlanned = 10_000 // live runs to read: an index by due time would make every run more expensive
	maxDue     = 100    // jobs of a page
	maxMerged  = 256    // rows of a stream at once
	maxRuns    = 1_000  // the same if there are filters
	maxMerges  = 10     // of a page
	maxEach    = 2_000  // jobs that are read one by one
)

// dueByCursor also returns cursors without jobs, because they limit how far the stream was read. It returns jobs with a
// planned run by that run, which may be newer than the stream of runs. The rows have the order of the cursors and then
// of the ids, because a lateral join with a limit can only be a nested loop.
const dueByCursor = `
SELECT 0, c.plan_at, c.partition, c.id, coalesce(j.id, '` + lastID + `'),
       j.plan_from <= greatest(c.plan_at, now()) AND (j.end_at IS NULL OR c.plan_at < j.end_at) AND p.pending IS NULL,
       p.pending
FROM (SELECT c.plan_at, c.partition, c.id FROM cursor c
      WHERE c.namespace_id = @namespace AND c.broken_at IS NULL AND c.plan_at < @before
        AND (c.plan_at, c.partition, c.id) >= (@due, @part, @cursor)
      ORDER BY c.plan_at, c.partition, c.id LIMIT @most) c
LEFT JOIN LATERAL (
    SELECT j.partition, j.id, j.plan_from, j.end_at FROM job j
    WHERE j.partition = c.partition AND j.cursor_id = c.id AND j.state = 1 /* active */
      AND j.id > CASE WHEN c.plan_at = @due AND c.partition = @part AND c.id = @cursor THEN @after
                      ELSE '` + firstID + `'::uuid END
    ORDER BY j.id LIMIT @most) j ON true, LATERAL (
    SELECT ` + firstPending + ` AS pending) p
LIMIT @most`

// state + 0 keeps PostgreSQL from an index by state, which does not have the order of plan_from.
const dueByStart = `
SELECT 1, j.plan_from, j.partition, 0::bigint, j.id,
       (j.end_at IS NULL OR j.plan_from < j.end_at)
       AND j.plan_from > (
           SELECT c.next_due_at FROM cursor c
           WHERE c.partition = j.partition AND c.id = j.cursor_id AND c.broken_at IS NULL)
       AND ` + firstPending + ` IS NULL,
       NULL::timestamptz
FROM (SELECT j.plan_from, j.partition, j.id, j.end_at, j.cursor_id FROM job j
      WHERE j.namespace_id = @namespace AND j.state + 0 = 1 /* active */ AND j.plan_from > now()
        AND j.plan_from < @before AND (j.plan_from, j.partition, j.id) > (greatest(@due, now()), @part, @after_no_cursor)
      ORDER BY j.plan_from, j.partition, j.id LIMIT @most) j`

// These two run as the engine: row-level security would skip the runs of other namespaces before it counts any. They
// return a number, and ids of the namespace's own jobs. If there are maxPlanned runs, there may be more. A job with
// several planned runs counts by its first one.
const (
	countLive = `
SELECT count(*)::integer, NULL::timestamptz, 0::smallint, 0::bigint, '` + firstID + `'::uuid, false, NULL::timestamptz
FROM (SELECT FROM run LIMIT @planned) r`

	dueByRun = `
SELECT 2, f.due_at, f.partition, 0::bigint, f.id, true, NULL::timestamptz
FROM (SELECT r.partition, r.job_id AS id, min(r.due_at) AS due_at
      FROM (SELECT r.due_at, r.partition, r.job_id, r.queue_id, r.seq, r.state, r.attempt FROM run r
            LIMIT @planned) r
      WHERE r.seq = 0 AND r.state = 0 /* pending */ AND r.attempt = 0
        AND r.queue_id = ANY (ARRAY(SELECT q.id FROM queue q WHERE q.namespace_id = @namespace))
      GROUP BY r.partition, r.job_id) f
WHERE f.due_at < @before AND (f.due_at, f.partition, f.id) > (@due, @part, @after_no_cursor)
ORDER BY f.due_at, f.partition, f.id LIMIT @most`
)

// dueOfEach and ofEach, around the jobs s to read, return the position of each job in the list: the three streams for
// one job at a time.
const (
	dueOfEach = `
SELECT 3, x.due_at, x.partition, x.cursor, x.id, true, NULL::timestamptz
FROM (SELECT j.partition, j.id,
             CASE WHEN j.pending IS NULL AND j.plan_from <= greatest(j.next, now()) THEN j.cursor_id
                  ELSE 0 END AS cursor,
             CASE WHEN j.pending IS NOT NULL THEN j.pending
                  WHEN j.state = 1 /* active */ AND (j.end_at IS NULL OR later < j.end_at) THEN later END AS due_at
      FROM (SELECT j.*, ` + firstPending + ` AS pending, (
                       SELECT c.plan_at FROM cursor c
                       WHERE c.partition = j.partition AND c.id = j.cursor_id AND c.broken_at IS NULL) AS next
            FROM (SELECT s.* FROM `
	ofEach = `
                  WHERE` + matches + `) j
            OFFSET 0) j, LATERAL (
          SELECT CASE WHEN j.plan_from > greatest(j.next, now()) AND j.next IS NOT NULL THEN j.plan_from
                      ELSE j.next END AS later) l) x
WHERE x.due_at >= @from AND x.due_at < @before`

	firstID = `00000000-0000-0000-0000-000000000000`
	lastID  = `ffffffff-ffff-ffff-ffff-ffffffffffff`
)

// dueList is a page of a list by due time while it is built.
type dueList struct {
	found    []job.ListMark
	counts   map[int32]int          // rows of each stream
	last     map[int32]job.ListMark // last row of each stream
	frontier *job.ListMark          // the list is complete up to here; nil: to its end
	partial  bool
}

// byDue finds the ids of a page in the order of due times. Filters apply to what was found, so a page may be short.
func (l *listing) byDue(ctx context.Context) (ids []uuid.UUID, page job.ListPage, err error) {
	limit := min(l.order.Limit, maxDue)
	l.fillDue(l.order.After)
	d, err := l.listEach(ctx, l.fewest)
	if err == nil && d == nil {
		d, err = l.walkDue(ctx, limit)
	}
	if err == nil && d.frontier != nil && len(d.found) < limit && hasTrigram(l.order.Name) {
		// Walking finds names that many jobs have. A search finds names that few jobs have.
		var few *dueList
		if few, err = l.listEach(ctx, l.named); few != nil {
			d = few
		}
	}
	if err != nil {
		return nil, page, err
	}
	page.Partial, page.Next = d.partial, d.frontier
	for i, m := range d.found {
		if i == limit {
			page.Next = &d.found[i-1]
			break
		}
		ids = append(ids, m.ID)
	}
	return ids, page, nil
}

// walkDue merges one part of the streams after another until the page is full, at most maxMerges.
func (l *listing) walkDue(ctx context.Context, limit int) (*dueList, error) {
	all, after := newDueList(), l.order.After
	var runs *dueList
	for merged := 1; ; merged++ {
		if runs == nil || runs.frontier != nil && after.Compare(*runs.frontier) >= 0 {
			var err error
			if runs, err = l.readRuns(ctx); err != nil {
				return nil, err
			}
		}
		d, err := l.merge(ctx, runs, after)
		if err != nil {
			return nil, err
		}
		all.found, all.frontier, all.partial = append(all.found, d.found...), d.frontier, all.partial || d.partial
		if len(all.found) > limit || all.frontier == nil || merged == maxMerges {
			return all, nil
		}
		after = *all.frontier
		l.fillDue(after)
	}
}

// fillDue sets where the streams begin: after a mark, or at the beginning of the list.
func (l *listing) fillDue(after job.ListMark) {
	o := &l.order
	from := infinite(o.Due.From, pgtype.NegativeInfinity)
	l.args["from"], l.args["due"], l.args["before"] = from, from, infinite(o.Due.Before, pgtype.Infinity)
	l.args["part"], l.args["cursor"] = after.Partition, after.Cursor
	l.args["after"], l.args["after_no_cursor"] = after.ID, after.ID
	l.args["most"], l.args["planned"] = maxMerged, maxPlanned
	if l.filtered() {
		l.args["most"] = maxRuns
	}
	if after.ID == uuid.Nil {
		l.args["part"] = int16(-1)
		return
	}
	l.args["due"] = after.Due
	if after.Cursor != 0 { // at the same due time, jobs without a cursor come first, so all of them are listed
		l.args["after_no_cursor"] = uuid.Max
	}
}

// listEach builds the page from few jobs, one by one. It returns nil if there are too many.
func (l *listing) listEach(ctx context.Context, jobs func(context.Context) (from string, err error)) (*dueList, error) {
	after := l.args["after"]
	l.args["after"] = uuid.Nil // all jobs are read; put leaves out those before the mark
	defer func() { l.args["after"] = after }()
	from, err := jobs(ctx)
	if err != nil || from == "" {
		return nil, err
	}
	d := newDueList()
	if err := l.query(ctx, d.collect, dueOfEach+from+ofEach, l.args); err != nil {
		return nil, err
	}
	d.put(l.order.After)
	return d, nil
}

// fewest returns the jobs s of the filter that fewest jobs match; empty: too many match it.
func (l *listing) fewest(ctx context.Context) (from string, err error) {
	d, n, err := l.choose(ctx, true)
	if err != nil || n > maxEach {
		return "", err
	}
	l.args["scanned"] = maxEach
	return d.scanned(), nil
}

// named returns the jobs s whose name contains a string; empty: there are too many.
func (l *listing) named(ctx context.Context) (from string, err error) {
	ids, all, err := l.search(ctx, maxEach)
	if err != nil || !all {
		return "", err
	}
	l.args["partitions"], l.args["ids"] = jobKeys(len(ids), func(i int) uuid.UUID { return ids[i] })
	return keyedJobs, nil
}

// readRuns reads the stream of planned runs.
func (l *listing) readRuns(ctx context.Context) (*dueList, error) {
	d := newDueList()
	if err := l.index.plannedRuns(ctx, l.args, d.collect); gaveUp(ctx, err) {
		d.partial = true
	} else if err != nil {
		return nil, err
	}
	d.bound(l.args["most"].(int))
	return d, nil
}

// merge reads the other streams after a mark, sorts the rows up to the frontier and keeps the jobs that match.
func (l *listing) merge(ctx context.Context, runs *dueList, after job.ListMark) (*dueList, error) {
	d := newDueList()
	in := pool.In(l.order.Namespace, append(slices.Clone(customPlans), pool.KeyLookups)...)
	if err := l.db.Queries(ctx, in, d.collect, l.args, dueByCursor, dueByStart); err != nil {
		return nil, err
	}
	d.bound(l.args["most"].(int))
	d.found, d.partial = append(d.found, runs.found...), runs.partial
	if runs.frontier != nil && (d.frontier == nil || runs.frontier.Compare(*d.frontier) < 0) {
		d.frontier = runs.frontier
	}
	d.found = slices.DeleteFunc(d.found, func(m job.ListMark) bool { return !l.order.Due.Has(m.Due) })
	d.put(after)
	if !l.filtered() {
		return d, nil
	}
	return d, l.filter(ctx, d)
}

func (l *listing) filtered() bool {
	return len(l.leads()) > 0 || len(l.order.Labels) > 0 || l.order.Name != ""
}

// bound moves the frontier to the end of the first stream that has more rows than were read.
func (d *dueList) bound(most int) {
	for stream, n := range d.counts {
		if last := d.last[stream]; n == most && (d.frontier == nil || last.Compare(*d.frontier) < 0) {
			d.frontier = &last
		}
	}
}

func infinite(t time.Time, otherwise pgtype.InfinityModifier) pgtype.Timestamptz {
	if t.IsZero() {
		return pgtype.Timestamptz{InfinityModifier: otherwise, Valid: true}
	}
	return pgtype.Timestamptz{Time: t, Valid: true}
}

func newDueList() *dueList { return &dueList{counts: map[int32]int{}, last: map[int32]job.ListMark{}} }

func (d *dueList) collect(rows pgx.Rows) error {
	var stream int32
	var due *time.Time
	var m job.ListMark
	var match *bool
	var pending *time.Time
	columns := []any{&stream, &due, &m.Partition, &m.Cursor, raw(&m.ID), &match, &pending}
	_, err := pgx.ForEachRow(rows, columns, func() error {
		if due == nil { // the row of countLive
			d.partial = stream == maxPlanned
			return nil
		}
		m.Due = due.UTC()
		d.counts[stream]++
		d.last[stream] = m
		switch {
		case pending != nil:
			d.found = append(d.found, job.ListMark{Due: pending.UTC(), Partition: m.Partition, ID: m.ID})
		case match != nil && *match:
			d.found = append(d.found, m)
		}
		return nil
	})
	return err
}

// put sorts what was found and keeps what lies between a mark and the frontier.
func (d *dueList) put(after job.ListMark) {
	slices.SortFunc(d.found, job.ListMark.Compare)
	if after.ID != uuid.Nil {
		begin, same := slices.BinarySearchFunc(d.found, after, job.ListMark.Compare)
		if same {
			begin++
		}
		d.found = d.found[begin:]
	}
	if d.frontier != nil {
		end, same := slices.BinarySearchFunc(d.found, *d.frontier, job.ListMark.Compare)
		if same {
			end++
		}
		d.found = d.found[:end]
	}
	// A job that was planned between two statements is in two streams.
	seen := map[uuid.UUID]bool{}
	d.found = slices.DeleteFunc(d.found, func(m job.ListMark) bool {
		again := seen[m.ID]
		seen[m.ID] = true
		return again
	})
}

// filter keeps the jobs that match.
func (l *listing) filter(ctx context.Context, d *dueList) error {
	l.args["partitions"], l.args["ids"] = jobKeys(len(d.found), func(i int) uuid.UUID { return d.found[i].ID })
	var ids []uuid.UUID
	err := l.query(ctx, collectIDs(&ids), `SELECT s.id FROM`+keyedJobs+`WHERE`+matches, l.args)
	match := make(map[uuid.UUID]bool, len(ids))
	for _, id := range ids {
		match[id] = true
	}
	d.found = slices.DeleteFunc(d.found, func(m job.ListMark) bool { return !match[m.ID] })
	return err
}
