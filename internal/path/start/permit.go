package start

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/store"
)

var (
	permitLock     = statement("permit_lock")
	permitCapacity = statement("permit_capacity")
	permitInsert   = statement("permit_insert")
	permitRate     = statement("permit_rate")
	permitQuota    = statement("permit_quota")
)

// limits that the run has a permit of.
func (c *candidate) limits() (out []job.Limit) {
	if c.queuePermit != nil {
		out = append(out, job.QueueLimit(c.Queue))
	}
	if c.keyPermit != nil {
		out = append(out, job.KeyLimit(c.Key))
	}
	return out
}

// grantPermits decides which of the runs may start under the limits of their queues and concurrency keys, and adds the
// statements that write their permits to a batch. The transaction that starts runs calls it once, with all of them, and
// writes the numbers into their rows. Runs that wait on the node that starts them are not ahead of them. For workers there
// is none: whatever waits on a node may be ahead.
//
// The caller holds the shared lock of a live session. A limit that was just set
// waits for such transactions, and then counts the runs that started without it
// (permitLive).
func (s *Store) grantPermits(ctx context.Context, b *batch, runs []*candidate, then *pgx.Batch) error {
	if len(runs) > MaxRuns {
		return fmt.Errorf("%d runs in one transaction; the maximum is %d", len(runs), MaxRuns)
	}
	candidates := make([]job.Candidate, len(runs))
	for i, c := range runs {
		candidates[i] = c.Candidate
	}
	limits, r := limitsOf(candidates), b.capacity
	if r == nil || !r.has(limits) { // or a run has moved to another queue since
		var err error
		if r, err = s.readCapacity(ctx, b, limits, &pgx.Batch{}); err != nil {
			return err
		}
	}
	var w permitRows
	for i, refusal := range Grant(r.of, candidates, r.now) {
		c, number := runs[i], r.first+int64(i)
		if c.out.Refusal = refusal; refusal != (job.Refusal{}) {
			continue
		}
		if q := job.QueueLimit(c.Queue); r.of[q] != nil {
			c.queuePermit = &number
			w.add(q, number, c)
		}
		if c.Key != 0 {
			c.keyPermit = &number
			w.add(job.KeyLimit(c.Key), number, c)
		}
	}
	w.write(then, r)
	return nil
}

// limitsOf lists each limit of the candidates once.
func limitsOf(candidates []job.Candidate) (out []job.Limit) {
	known := map[job.Limit]bool{}
	for i := range candidates {
		for _, l := range candidates[i].Limits() {
			if !known[l] {
				known[l] = true
				out = append(out, l)
			}
		}
	}
	return out
}

// capacities are limits as one transaction sees them.
type capacities struct {
	now      time.Time
	timeline int64
	read     map[job.Limit]bool
	of       map[job.Limit]*job.Capacity // of those that are limited
	quotas   map[uuid.UUID]*job.RunQuota // by namespace; the queues of a namespace share one
	first    int64                       // of MaxRuns numbers
}

func (r *capacities) has(limits []job.Limit) bool {
	return !slices.ContainsFunc(limits, func(l job.Limit) bool { return !r.read[l] })
}

// locked reports whether the transaction has the lock of a quota: it got it together with that of a queue.
func (r *capacities) locked(q *job.RunQuota) bool {
	for _, c := range r.of {
		if c.Quota == q && c.Locked {
			return true
		}
	}
	return false
}

// readCapacity locks limits and reads their capacity, after the statements of a batch.
func (s *Store) readCapacity(
	ctx context.Context, b *batch, limits []job.Limit, after *pgx.Batch,
) (*capacities, error) {
	timeline := s.marks.newest()
	r, err := s.readCapacityOnce(ctx, b, limits, timeline, after)
	if err == nil && r.timeline != timeline {
		r, err = s.readCapacityOnce(ctx, b, limits, r.timeline, &pgx.Batch{})
	}
	return r, err
}

// readCapacityOnce counts from the marks of a timeline.
func (s *Store) readCapacityOnce(
	ctx context.Context, b *batch, limits []job.Limit, timeline int64, after *pgx.Batch,
) (*capacities, error) {
	kind, id, low := s.marks.columns(timeline, limits)
	r := &capacities{
		read: map[job.Limit]bool{}, of: map[job.Limit]*job.Capacity{}, quotas: map[uuid.UUID]*job.RunQuota{},
	}
	for _, l := range limits {
		r.read[l] = true
	}
	locked := map[job.Limit]bool{}
	after.Queue(permitLock, kind, id).Query(func(rows pgx.Rows) error {
		var l job.Limit
		_, err := pgx.ForEachRow(rows, []any{&l.Kind, &l.ID}, func() error { locked[l] = true; return nil })
		return err
	})
	// After the locks, so that the numbers are greater than all that were given out under them.
	after.Queue(`SELECT nextval('permit_number'), now(), belfry_timeline()`).QueryRow(func(row pgx.Row) error {
		return row.Scan(&r.first, &r.now, &r.timeline)
	})
	after.Queue(permitCapacity, kind, id, low, b.session).Query(s.collectCapacity(r, timeline))
	if err := b.tx.SendBatch(ctx, after).Close(); err != nil {
		return nil, err
	}
	for l, c := range r.of {
		c.Locked = locked[l]
	}
	return r, nil
}

// collectCapacity reads the rows of permit_capacity.sql, which counted from the marks of a timeline.
func (s *Store) collectCapacity(r *capacities, timeline int64) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		var l job.Limit
		var q job.QueueLimits
		var running int
		var oldest *int64
		var tokens, quotaTokens *float64
		var refilled, quotaRefilled, runAt *time.Time
		var priority *int16
		var namespace uuid.UUID
		var perMinute int32
		_, err := pgx.ForEachRow(rows, []any{
			&l.Kind, &l.ID, &q.MaxRunning, &q.Rate.Count, &q.Rate.Seconds, &q.Burst, &running, &oldest, &tokens,
			&refilled, &priority, &runAt, store.Raw(&namespace), &perMinute, &quotaTokens, &quotaRefilled,
		}, func() error {
			c := &job.Capacity{Running: running, Limits: q, Quota: r.quotas[namespace]}
			if tokens != nil {
				c.Bucket = job.Bucket{Tokens: *tokens, At: *refilled}
			}
			if perMinute > 0 && c.Quota == nil {
				c.Quota = &job.RunQuota{PerMinute: perMinute}
				if quotaTokens != nil {
					c.Quota.Bucket = job.Bucket{Tokens: *quotaTokens, At: *quotaRefilled}
				}
				r.quotas[namespace] = c.Quota
			}
			if priority != nil {
				c.Ahead = &job.Waiter{Priority: *priority, RunAt: *runAt}
			}
			r.of[l] = c
			if r.timeline == timeline {
				s.marks.note(timeline, l, oldest)
			}
			return nil
		})
		return err
	}
}

// permitRows are new permits and changed token buckets, as columns.
type permitRows struct {
	kind       []int16
	id, number []int64
	queue      []int32
	keys       []job.Key
	rated      []int32
	tokens     []float64
	refilled   []time.Time

	namespaces    []uuid.UUID // with a quota of runs
	quotaTokens   []float64
	quotaRefilled []time.Time
}

func (w *permitRows) add(l job.Limit, number int64, run *candidate) {
	w.kind, w.id, w.number = append(w.kind, int16(l.Kind)), append(w.id, l.ID), append(w.number, number)
	w.queue, w.keys = append(w.queue, run.Queue), append(w.keys, run.key)
}

func (w *permitRows) write(batch *pgx.Batch, r *capacities) {
	if len(w.number) == 0 {
		return
	}
	for l, c := range r.of {
		if c.Locked && c.Limits.Rate.Count > 0 {
			w.rated = append(w.rated, int32(l.ID))
			w.tokens, w.refilled = append(w.tokens, c.Bucket.Tokens), append(w.refilled, c.Bucket.At)
		}
	}
	for namespace, q := range r.quotas {
		if !r.locked(q) {
			continue
		}
		w.namespaces, w.quotaTokens = append(w.namespaces, namespace), append(w.quotaTokens, q.Bucket.Tokens)
		w.quotaRefilled = append(w.quotaRefilled, q.Bucket.At)
	}
	k := store.SplitKeys(w.keys)
	batch.Queue(permitInsert, w.kind, w.id, w.number, w.queue, k.Partition, k.Job, k.DueAt, k.Seq)
	if len(w.rated) > 0 {
		batch.Queue(permitRate, w.rated, w.tokens, w.refilled)
	}
	if len(w.namespaces) > 0 {
		batch.Queue(permitQuota, w.namespaces, w.quotaTokens, w.quotaRefilled)
	}
}

// writeWaiters publishes what waits on this node. It need not survive a crash.
const writeWaiters = `
INSERT INTO queue_waiter (queue_id, session_id, waiting, priority, run_at, reported_at)
SELECT unnest($1::integer[]), $2, unnest($3::integer[]), unnest($4::smallint[]), unnest($5::timestamptz[]), now()
ON CONFLICT (queue_id, session_id) DO UPDATE
SET waiting = excluded.waiting, priority = excluded.priority, run_at = excluded.run_at,
    reported_at = excluded.reported_at`

// ReportWaiters publishes what waits for queues on this node, so that priority
// holds across nodes, and returns the capacity of limits. It takes no lock: the
// capacity is a hint. Queues that have no limit any more are left out.
func (s *Store) ReportWaiters(
	ctx context.Context, session uuid.UUID, limits []job.Limit, waiters []job.WaiterReport,
) (map[job.Limit]*job.Capacity, error) {
	timeline := s.marks.newest()
	kind, id, low := s.marks.columns(timeline, limits)
	r := capacities{of: map[job.Limit]*job.Capacity{}, quotas: map[uuid.UUID]*job.RunQuota{}}
	var queue, waiting []int32
	var priority []int16
	var runAt []time.Time
	for _, w := range waiters {
		queue, waiting = append(queue, w.Queue), append(waiting, w.Waiting)
		priority, runAt = append(priority, w.Priority), append(runAt, w.RunAt)
	}
	var batch pgx.Batch // one round trip, one transaction
	batch.Queue(store.Apply(store.LazyCommit, store.KeyLookups))
	if len(waiters) > 0 {
		batch.Queue(writeWaiters, queue, session, waiting, priority, runAt)
	}
	batch.Queue(`SELECT now(), belfry_timeline()`).QueryRow(func(row pgx.Row) error {
		return row.Scan(&r.now, &r.timeline)
	})
	batch.Queue(permitCapacity, kind, id, low, session).Query(s.collectCapacity(&r, timeline))
	if err := s.db.SendBatch(ctx, &batch).Close(); err != nil {
		return nil, fmt.Errorf("report waiters: %w", err)
	}
	for _, c := range r.of {
		if c.Limits.Rate.Count > 0 {
			c.Bucket = c.Bucket.Fill(c.Limits, r.now)
		}
	}
	return r.of, nil
}

// lowMarks are the low-water marks of limits: no permit below one is alive.
// Permits that have ended stay in the index as long as some snapshot may see
// them, so counting starts at the mark.
//
// A mark belongs to a timeline of the database. After a failover to a standby that
// had not received everything, the sequence of numbers went back: permits below
// the mark are alive again, and new ones may get numbers below it.
type lowMarks struct {
	mu       sync.Mutex
	timeline int64
	of       map[job.Limit]int64
}

const maxLowMarks = 100_000

// newest is the timeline that the marks belong to.
func (w *lowMarks) newest() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.timeline
}

// columns are the marks of limits on a timeline.
func (w *lowMarks) columns(timeline int64, limits []job.Limit) (kind []int16, id, low []int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if timeline != w.timeline {
		w.timeline, w.of = timeline, nil
	}
	for _, l := range limits {
		kind, id, low = append(kind, int16(l.Kind)), append(id, l.ID), append(low, w.of[l])
	}
	return kind, id, low
}

// note records the oldest permit that is alive on a timeline; nil: there is none.
func (w *lowMarks) note(timeline int64, l job.Limit, oldest *int64) {
	if oldest == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if timeline != w.timeline {
		return
	}
	if w.of == nil || len(w.of) >= maxLowMarks {
		w.of = map[job.Limit]int64{}
	}
	w.of[l] = *oldest
}
