package postgres

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/belfry-dev/belfry/internal/job"
)

// A list by due time merges three streams of (due time, id). A job is in one of
// them: by its first planned run; else by its cursor, which tells the first
// occurrence that is not planned, also one that a calendar will take away; or,
// if it starts later than that, by its start.

const (
	// maxPlanned bounds the planned runs that are looked at: the live table has no
	// index by time, which each run would have to pay for.
	maxPlanned = 30_000
	// maxDue bounds a page of a list by due time.
	maxDue = 100
	// dueOfEach is how many are read of each partition.
	dueOfEach = 8
)

// Of each partition so many; what lies behind the last of any partition that has
// more is not complete. Sorted by the cursor's index, then within one instant.
const dueByCursor = `
SELECT p, x.due_at, x.id FROM generate_series(0, 255) p, LATERAL (
    SELECT c.next_due_at AS due_at, j.id
    FROM cursor c, LATERAL (
        SELECT j.id FROM job j
        WHERE j.partition = c.partition AND j.cursor_id = c.id AND j.state = 1
          AND j.plan_from <= greatest(c.next_due_at, now()) AND (j.end_at IS NULL OR c.next_due_at < j.end_at)
          AND (c.next_due_at > @due OR j.id > @after) AND ` + firstPending + ` IS NULL
        ORDER BY j.id LIMIT @each) j
    WHERE c.partition = p AND c.namespace_id = @namespace AND c.next_due_at >= @due AND c.next_due_at < @before
    ORDER BY c.next_due_at, j.id LIMIT @each) x`

const dueByStart = `
SELECT -1, j.plan_from, j.id
FROM job j
WHERE j.namespace_id = @namespace AND j.state = 1 AND j.plan_from > now() AND (j.plan_from, j.id) > (@due, @after) AND j.plan_from < @before
  AND (j.end_at IS NULL OR j.plan_from < j.end_at)
  AND j.plan_from > (SELECT c.next_due_at FROM cursor c WHERE c.partition = j.partition AND c.id = j.cursor_id) AND ` + firstPending + ` IS NULL
ORDER BY j.plan_from, j.id LIMIT @most`

// The number of runs comes first: with maxPlanned of them there may be more.
const dueByRun = `
WITH planned AS MATERIALIZED (
    SELECT r.job_id, r.due_at FROM run r WHERE r.seq = 0 AND r.state = 0 AND r.attempt = 0 LIMIT @planned
), first AS (
    SELECT job_id AS id, min(due_at) AS due_at FROM planned GROUP BY job_id
)
(SELECT count(*)::integer AS p, NULL::timestamptz AS due_at, NULL::uuid AS id FROM planned)
UNION ALL
(SELECT -2, due_at, id FROM first WHERE (due_at, id) > (@due, @after) AND due_at < @before ORDER BY due_at, id LIMIT @most)`

// dueList is a page of a list by due time while it is made.
type dueList struct {
	found    []job.ListMark
	counts   map[int32]int          // of each stream
	last     map[int32]job.ListMark // of each stream
	frontier *job.ListMark          // behind it nothing is certain; nil: all is found
	partial  bool
}

func compareMarks(a, b job.ListMark) int {
	if c := a.Due.Compare(b.Due); c != 0 {
		return c
	}
	return slices.Compare(a.ID[:], b.ID[:])
}

// byDue finds the ids of a page in the order of due times. Filters are asked of
// what was found, so that a page may be short.
func (l *listing) byDue(ctx context.Context) (ids []uuid.UUID, page job.ListPage, err error) {
	limit, most := min(l.order.Limit, maxDue), maxDue+1
	filtered := len(l.leads()) > 0 || len(l.order.Labels) > 0 || l.order.Name != ""
	if filtered {
		most = 1000
	}
	d, err := l.merge(ctx, most)
	if err != nil {
		return nil, page, err
	}
	if filtered {
		if err := l.filter(ctx, d); err != nil {
			return nil, page, err
		}
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

// merge reads the streams, and puts what is certain in order.
func (l *listing) merge(ctx context.Context, most int) (*dueList, error) {
	o := &l.order
	l.args["due"], l.args["before"] = infinite(o.Due.From, pgtype.NegativeInfinity), infinite(o.Due.Before, pgtype.Infinity)
	if o.After.ID != uuid.Nil {
		l.args["due"] = o.After.Due
	}
	l.args["each"], l.args["most"], l.args["planned"] = dueOfEach, most, maxPlanned
	d := &dueList{counts: map[int32]int{}, last: map[int32]job.ListMark{}}
	var batch pgx.Batch
	batch.Queue(`SELECT `+asNamespace+`, `+customPlans, o.Namespace)
	batch.Queue(dueByRun, l.args).Query(d.collect)
	batch.Queue(`SELECT ` + keyLookups)
	batch.Queue(dueByCursor, l.args).Query(d.collect)
	batch.Queue(dueByStart, l.args).Query(d.collect)
	if err := l.pool.SendBatch(ctx, &batch).Close(); err != nil {
		return nil, err
	}
	for stream, n := range d.counts {
		full := stream >= 0 && n == dueOfEach || stream < 0 && n == most
		if last := d.last[stream]; full && (d.frontier == nil || compareMarks(last, *d.frontier) < 0) {
			d.frontier = &last
		}
	}
	slices.SortFunc(d.found, compareMarks)
	if d.frontier != nil {
		end, _ := slices.BinarySearchFunc(d.found, *d.frontier, compareMarks)
		d.found = d.found[:min(end+1, len(d.found))]
	}
	// A job that was planned between two statements is in two streams.
	seen := map[uuid.UUID]bool{}
	d.found = slices.DeleteFunc(d.found, func(m job.ListMark) bool {
		again := seen[m.ID]
		seen[m.ID] = true
		return again
	})
	return d, nil
}

func infinite(t time.Time, otherwise pgtype.InfinityModifier) pgtype.Timestamptz {
	if t.IsZero() {
		return pgtype.Timestamptz{InfinityModifier: otherwise, Valid: true}
	}
	return pgtype.Timestamptz{Time: t, Valid: true}
}

func (d *dueList) collect(rows pgx.Rows) error {
	var stream int32
	var due *time.Time
	var id *uuid.UUID
	_, err := pgx.ForEachRow(rows, []any{&stream, &due, &id}, func() error {
		if due == nil { // the number of runs
			d.partial = stream == maxPlanned
			return nil
		}
		m := job.ListMark{Due: due.UTC(), ID: *id}
		d.found = append(d.found, m)
		d.counts[stream]++
		d.last[stream] = m
		return nil
	})
	return err
}

// filter leaves those that match.
func (l *listing) filter(ctx context.Context, d *dueList) error {
	partitions, keys := jobKeys(len(d.found), func(i int) uuid.UUID { return d.found[i].ID })
	l.args["partitions"], l.args["ids"] = partitions, keys
	var ids []uuid.UUID
	err := l.query(ctx, collectIDs(&ids), `SELECT s.id FROM`+keyedJobs+`WHERE`+matches, l.args)
	match := make(map[uuid.UUID]bool, len(ids))
	for _, id := range ids {
		match[id] = true
	}
	d.found = slices.DeleteFunc(d.found, func(m job.ListMark) bool { return !match[m.ID] })
	return err
}
