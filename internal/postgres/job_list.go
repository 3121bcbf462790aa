package postgres

import (
	"context"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/store"
)

// The bounds of a page of a list.
const (
	maxScanned  = 40_000 // jobs to read
	firstScan   = 2_000  // jobs to read before a search by name
	maxFound    = 5_000  // jobs that a search by name may find and sort
	maxCompared = 5_000  // jobs to count for each filter, to find the filter that fewest match
)

// ListJobs returns a page of the jobs of a namespace.
//
// In the order of ids, it scans the index of one filter and applies the other filters to what it finds. With one filter
// no row is read in vain. With several, the filter that fewest jobs match leads, and a page ends after maxScanned jobs,
// full or not. A list by due time has no filters, and full pages.
func (a *API) ListJobs(ctx context.Context, o job.ListParams) (page job.ListPage, err error) {
	l := a.newListing(o)
	var ids []uuid.UUID
	possible, err := l.prepare(ctx)
	switch {
	case err != nil || !possible:
	case o.Due != nil:
		ids, page.Next, err = l.byDue(ctx)
	default:
		ids, page.Next, err = l.byID(ctx)
	}
	if err == nil && len(ids) > 0 {
		page.Jobs, err = l.read(ctx, ids)
	}
	if store.GaveUp(ctx, err) {
		err = fmt.Errorf("%w: %w", job.ErrSlowList, err)
	}
	if err != nil {
		return job.ListPage{}, fmt.Errorf("list jobs: %w", err)
	}
	return page, nil
}

// listing builds one page.
type listing struct {
	*API
	order job.ListParams
	args  pgx.NamedArgs
}

// customPlans makes PostgreSQL plan each statement of a list for its parameters. A generic plan knows neither which
// filters are set nor how small a page is: it made lists by due time eight times slower.
//
// The timeout is a last resort: the work for a page is bounded, so only an overloaded database reaches it.
var customPlans = []store.Settings{
	`set_config('plan_cache_mode', 'force_custom_plan', true), set_config('jit', 'off', true)`, store.Timeout("5s"),
}

// query reads rows of the namespace with custom plans.
func (l *listing) query(ctx context.Context, read func(pgx.Rows) error, sql string, args ...any) error {
	return l.db.Query(ctx, store.In(l.order.Namespace, customPlans...), read, sql, args...)
}

// matches is true for a job s that matches all filters.
const matches = ` (@state::smallint IS NULL OR s.state = @state)
    AND (@queue::integer IS NULL OR s.queue_id = @queue)
    AND (@target::text IS NULL OR s.target_kind = @target)
    AND (@labels::jsonb IS NULL OR s.labels @> @labels)
    AND (@name::text IS NULL OR s.name ILIKE @name) `

// prepare fills in the parameters and reports whether any job can match.
func (l *listing) prepare(ctx context.Context) (possible bool, err error) {
	o := &l.order
	if o.State != 0 {
		l.args["state"] = int16(o.State)
	}
	if o.Target != "" {
		l.args["target"] = o.Target
	}
	if o.Name != "" {
		l.args["name"] = "%" + strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`).Replace(o.Name) + "%"
	}
	if len(o.Labels) > 0 {
		all := map[string]string{}
		for _, x := range o.Labels {
			if v, ok := all[x.Key]; ok && v != x.Value {
				return false, nil
			}
			all[x.Key] = x.Value
		}
		if l.args["labels"], err = toJSON(all); err != nil {
			return false, err
		}
	}
	if o.Queue == "" {
		return true, nil
	}
	id, err := one[int32](ctx, l, selectQueue, o.Namespace, o.Queue)
	if store.NoRows(err) {
		return false, nil
	}
	l.args["queue"] = id
	return true, err
}

// one reads one value.
func one[T any](ctx context.Context, l *listing, sql string, args ...any) (out T, err error) {
	err = l.query(ctx, func(rows pgx.Rows) (err error) {
		out, err = pgx.CollectExactlyOneRow(rows, pgx.RowTo[T])
		return err
	}, sql, args...)
	return out, err
}

// lead finds jobs j by the index of one filter, in the order of their ids, after a given id.
type lead string

const (
	leadAll    lead = `FROM job j WHERE j.namespace_id = @namespace AND j.id > @after `
	leadState  lead = leadAll + `AND j.state = @state `
	leadQueue  lead = leadAll + `AND j.queue_id = @queue `
	leadTarget lead = leadAll + `AND j.target_kind = @target `
	leadLabel  lead = labelled + `l, LATERAL (
        SELECT * FROM job WHERE namespace_id = @namespace AND id = l.id LIMIT 1) j `

	labelled = `FROM (
        SELECT job_id AS id FROM job_label
        WHERE namespace_id = @namespace AND key = @key AND value = @value AND job_id > @after
        ORDER BY job_id LIMIT @scanned) `
)

// scanned returns up to @scanned jobs of a lead, in order.
func (d lead) scanned() string {
	if d == leadLabel {
		return ` (SELECT j.* ` + string(d) + `ORDER BY l.id) s `
	}
	return ` (SELECT j.* ` + string(d) + `ORDER BY j.id LIMIT @scanned) s `
}

// ids is scanned with ids only, which the index contains.
func (d lead) ids() string {
	if d == leadLabel {
		return ` (SELECT j.id ` + labelled + `j ORDER BY j.id) s `
	}
	return ` (SELECT j.id ` + string(d) + `ORDER BY j.id LIMIT @scanned) s `
}

// leads returns the leads of the filters that are set, except labels.
func (l *listing) leads() (out []lead) {
	for name, d := range map[string]lead{"state": leadState, "queue": leadQueue, "target": leadTarget} {
		if l.args[name] != nil {
			out = append(out, d)
		}
	}
	return out
}

// choose returns the lead that fewest jobs after the mark match, and how many those are, up to maxCompared + 1. A
// single lead is counted only if count is set, because there is nothing to choose.
func (l *listing) choose(ctx context.Context, count bool) (best lead, least int, err error) {
	leads := l.leads()
	for range l.order.Labels {
		leads = append(leads, leadLabel)
	}
	if count && len(leads) == 0 {
		leads = []lead{leadAll}
	}
	best, least = leadAll, maxCompared+1
	label := 0
	var with job.Label
	for _, d := range leads {
		var x job.Label
		if d == leadLabel {
			x = l.order.Labels[label]
			label++
			l.args["key"], l.args["value"] = x.Key, x.Value
		}
		n := 0
		if count || len(leads) > 1 {
			l.args["scanned"] = maxCompared
			if n, err = one[int](ctx, l, `SELECT count(*) FROM`+d.ids(), l.args); err != nil {
				return best, least, err
			}
		}
		if n < least {
			best, least, with = d, n, x
		}
	}
	l.args["key"], l.args["value"] = with.Key, with.Value
	return best, least, nil
}

// byID finds the ids of a page in the order of ids.
func (l *listing) byID(ctx context.Context) (ids []uuid.UUID, next *job.ListMark, err error) {
	d, _, err := l.choose(ctx, false)
	if err != nil {
		return nil, nil, err
	}
	if l.order.After.Scan || !hasTrigram(l.order.Name) {
		ids, next, err = l.scan(ctx, d, maxScanned)
		if next != nil {
			next.Scan = l.order.After.Scan
		}
		return ids, next, err
	}
	// A short scan finds names that many jobs have. A search finds names that few jobs have.
	ids, next, err = l.scan(ctx, d, firstScan)
	if err != nil || next == nil || len(ids) == l.order.Limit {
		return ids, next, err
	}
	l.after(len(ids), next)
	found, all, err := l.search(ctx, maxFound)
	if err != nil {
		return nil, nil, err
	}
	if all {
		ids, next = l.cut(append(ids, found...))
		return ids, next, nil
	}
	more, next, err := l.scan(ctx, d, maxScanned)
	if next != nil {
		next.Scan = true
	}
	return append(ids, more...), next, err
}

// after continues after a mark, when some jobs of the page were found.
func (l *listing) after(found int, mark *job.ListMark) {
	l.args["after"], l.args["limit"] = mark.ID, l.args["limit"].(int)-found
}

// scan reads up to most jobs of a lead, until the page is full. next is where it ended; nil: there is no more.
func (l *listing) scan(ctx context.Context, d lead, most int) (ids []uuid.UUID, next *job.ListMark, err error) {
	l.args["scanned"] = most
	sql := `SELECT s.id FROM` + d.scanned() + `WHERE` + matches + `LIMIT @limit`
	if l.order.Name == "" && len(l.leads())+len(l.order.Labels) <= 1 {
		sql = `SELECT s.id FROM` + d.ids() + `LIMIT @limit` // the lead is the only filter
	}
	err = l.query(ctx, collectIDs(&ids), sql, l.args)
	if err != nil {
		return nil, nil, err
	}
	if len(ids) == l.args["limit"] {
		return ids, &job.ListMark{ID: ids[len(ids)-1]}, nil
	}
	last, err := one[uuid.UUID](ctx, l, `SELECT s.id FROM`+d.ids()+`OFFSET @scanned - 1 LIMIT 1`, l.args)
	if store.NoRows(err) {
		return ids, nil, nil // that was all
	}
	return ids, &job.ListMark{ID: last}, err
}

// cut returns the page of what was found, in the order of ids.
func (l *listing) cut(ids []uuid.UUID) ([]uuid.UUID, *job.ListMark) {
	if len(ids) <= l.order.Limit {
		return ids, nil
	}
	ids = ids[:l.order.Limit]
	return ids, &job.ListMark{ID: ids[len(ids)-1]}
}

func collectIDs(into *[]uuid.UUID) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		var id uuid.UUID
		_, err := pgx.ForEachRow(rows, []any{store.Raw(&id)}, func() error {
			*into = append(*into, id)
			return nil
		})
		return err
	}
}

func jobKeys(n int, id func(int) uuid.UUID) (partitions []int16, ids pgtype.FlatArray[pgtype.UUID]) {
	partitions, ids = make([]int16, n), make(pgtype.FlatArray[pgtype.UUID], n)
	for i := range n {
		partitions[i], ids[i] = job.PartitionOf(id(i)), pgtype.UUID{Bytes: id(i), Valid: true}
	}
	return partitions, ids
}

// read returns the jobs of ids, in that order. It leaves out jobs that were deleted meanwhile.
func (l *listing) read(ctx context.Context, ids []uuid.UUID) ([]job.Job, error) {
	partitions, keys := jobKeys(len(ids), func(i int) uuid.UUID { return ids[i] })
	out := make([]job.Job, 0, len(ids))
	err := l.query(ctx, func(rows pgx.Rows) error {
		found, err := pgx.CollectRows(rows, (&jobScan{policies: map[string]job.Policy{}}).job)
		for i := range found {
			found[i].NextDue = found[i].nextDue()
			out = append(out, found[i].Job)
		}
		return err
	}, selectJobs, partitions, keys)
	return out, err
}
