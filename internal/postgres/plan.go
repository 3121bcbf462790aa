package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/store"
)

var (
	planCursorsDue   = statement("plan_cursors_due")
	planCursorsLate  = statement("plan_cursors_late")
	planCursorsTurns = statement("plan_cursors_turns")
	planRuns         = statement("plan_runs")
	planMoveCursors  = statement("plan_move_cursors")
	planBreakCursors = statement("plan_break_cursors")
	planFinishJobs   = statement("plan_finish_jobs")
	planSkips        = statement("plan_skips")
	planCountJobs    = statement("plan_count_jobs")
	planJobAt        = statement("plan_job_at")
)

// lockTimeout is how long plan waits for late cursors that are locked. After that it plans the others.
const lockTimeout = "500ms"

// Plan writes runs of some partitions that are due within the look-ahead, and advances their cursors, in one transaction
// and as of one instant. Any number of planners may call it at the same time: the one that locks a cursor plans it.
// A session plans only partitions that it owns.
//
// A transaction writes a bounded number of runs, see planBound. If there are more, the cursors stay where they are, or
// stop between two jobs of one due time.
func (e *Engine) Plan(ctx context.Context, in job.PlanParams) (job.Planned, error) {
	out, err := e.plan(ctx, in, true)
	if store.Code(err) == store.LockNotAvailable {
		return e.plan(ctx, in, false)
	}
	return out, err
}

func (e *Engine) plan(ctx context.Context, in job.PlanParams, wait bool) (out job.Planned, err error) {
	batch := &planBatch{upTo: uuid.Max}
	err = e.db.Tx(ctx, "plan", func(tx pgx.Tx) error {
		out = job.Planned{}
		// Every statement below uses this instant and reads no clock. If the commit is lost, the cursors are planned
		// again, so it need not wait for the disk.
		const begin = `
SELECT now(), belfry_clock_trusted(), (SELECT restored_until FROM cluster WHERE only_row),
       ARRAY(SELECT namespace_id FROM namespace_runs WHERE ` + isFull + `)
FROM (
    SELECT set_config('synchronous_commit', 'off', true), set_config('lock_timeout', '` + lockTimeout + `', true),
           ` + string(store.KeyLookups) + ` OFFSET 0) s`
		var trusted bool
		var restored *time.Time
		var full []uuid.UUID
		if err := tx.QueryRow(ctx, begin).Scan(&out.Now, &trusted, &restored, &full); err != nil || !trusted {
			return err
		}
		if err := lockOwned(ctx, tx, &in); err != nil || len(in.Partitions) == 0 {
			return err
		}
		batch = &planBatch{upTo: uuid.Max}
		bound := &planBound{
			engine: e, tx: tx, now: out.Now, until: out.Now.Add(in.LookAhead), restored: store.OrZero(restored), max: in.Runs,
			cursors: in.Cursors, full: full, out: &out, batch: batch,
		}
		if err := bound.planCursors(ctx, in, wait); err != nil || out.Cursors == 0 {
			return err
		}
		return batch.write(ctx, tx, out.Now.Add(in.LookAhead), &out)
	})
	// A cursor that was set aside may go back, to where it was. The transaction may have committed even if it failed.
	for i, next := range batch.moved.next {
		if next != nil {
			e.cursors.lower(batch.moved.partition[i], *next)
		}
	}
	return out, err
}

// lockOwned leaves only the partitions that the session owns, and delays a takeover of them until the plan has ended: the
// new owner loads the runs of a partition when it gains it, and would not know those that are planned later.
func lockOwned(ctx context.Context, tx pgx.Tx, in *job.PlanParams) error {
	if in.Session == uuid.Nil {
		return nil
	}
	var batch pgx.Batch
	batch.Queue(`SELECT pg_advisory_xact_lock_shared($1)`, store.SessionLock(in.Session))
	batch.Queue(`SELECT id FROM partition WHERE id = ANY ($1) AND owner = $2`, in.Partitions, in.Session).
		Query(func(rows pgx.Rows) (err error) {
			in.Partitions, err = pgx.CollectRows(rows, pgx.RowTo[int16])
			return err
		})
	return tx.SendBatch(ctx, &batch).Close()
}

// planBatch is what one transaction of Plan writes.
type planBatch struct {
	due struct { // one for each due time of a cursor
		partition []int16
		cursor    []int64
		dueAt     []time.Time
		runAt     []time.Time
		origin    []int16
	}
	moved struct { // one for each cursor
		partition []int16
		cursor    []int64
		next      []*time.Time
		pacedTo   []*time.Time  // nil: no caught-up run is left
		broken    []bool        // it stays broken: it has not caught up yet
		after     []*uuid.UUID  // nil: the cursor stands between two due times
		origin    []*job.Origin // nil: the same
	}
	// The runs are those of the jobs in (after, upTo]. Only a batch of one cursor excludes any.
	after, upTo uuid.UUID
	broken      struct { // one for each cursor that cannot be planned
		partition []int16
		cursor    []int64
		retryAt   []time.Time
		problem   []string
	}
	ended struct { // one for each cursor that has no more
		partition []int16
		cursor    []int64
		at        []time.Time
	}
	skipped struct { // one for each range
		partition []int16
		cursor    []int64
		from, to  []time.Time
		count     []int64
		reason    []string
	}
}

// planCursors locks the cursors that are due and calls job.Plan for each. It handles late cursors first and alone,
// because it waits for their locks. Locked cursors that are not late are skipped. Where the cursors of one namespace may
// hide those of another, it reads some of each namespace too: see addTurns.
func (p *planBound) planCursors(ctx context.Context, in job.PlanParams, wait bool) error {
	tx, out := p.tx, p.out
	if p.max == 0 {
		p.max = job.PlanRuns
	}
	least := time.Time{}
	if len(in.Full) > 0 {
		least, wait = out.Now.Add(-job.MissedGrace), false
	}
	from := p.engine.cursors.after(in.Partitions, least).from
	if wait {
		until := out.Now.Add(in.LookAhead / 2)
		late, err := dueCursors(ctx, tx, planCursorsLate, in.Partitions, until, in.Cursors, from)
		if err == nil && len(late) == in.Cursors {
			late, err = p.addTurns(ctx, late, in, until)
		}
		if err != nil {
			return err
		}
		if len(late) > 0 {
			out.More = true
			return p.decide(ctx, late)
		}
	}
	due, err := dueCursors(ctx, tx, planCursorsDue, in.Partitions, p.until, in.Cursors, from)
	out.More = len(due) == in.Cursors
	if err == nil && (len(in.Full) > 0 || !wait && out.More) {
		n := len(due)
		due, err = p.addTurns(ctx, due, in, p.until)
		out.More = out.More || len(due) > n
	}
	if err != nil {
		return err
	}
	return p.decide(ctx, due)
}

// dueCursor is a cursor that is due. This transaction has locked it.
type dueCursor struct {
	partition        int16
	id               int64
	schedule, missed string
	next             time.Time
	brokenAt         *time.Time
	pacedTo          *time.Time
	after            *uuid.UUID  // jobs up to this one have their run of next; nil: none has one
	origin           *job.Origin // of those runs
	missedUntil      *time.Time  // occurrences before it were missed; nil: none was
	namespace        uuid.UUID
	brokenTo         time.Time // occurrences before it were missed, because the cursor was broken; zero: it was not
	turn             int       // see planTurns
}

func (c *dueCursor) key() cursorID { return cursorID{c.partition, c.id} }

func dueCursors(ctx context.Context, tx pgx.Tx, query string, args ...any) ([]dueCursor, error) {
	rows, err := tx.Query(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (c dueCursor, err error) {
		err = row.Scan(
			&c.partition, &c.id, &c.schedule, &c.missed, &c.next, &c.brokenAt, &c.pacedTo, &c.after, &c.origin,
			&c.missedUntil, &c.namespace,
		)
		return c, err
	})
}

// planCursor calls job.Plan for the schedule and the missed policy of a cursor.
func (e *Engine) planCursor(c *dueCursor, in *job.PlanInput) (result job.PlanResult, err error) {
	defer func() {
		// A schedule that panics must not stop the node.
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	if in.Schedule, in.Missed, err = e.schedules.Read(c.schedule, c.missed); err != nil {
		return job.PlanResult{}, err
	}
	in.NextDue, in.PacedTo, in.Begun, in.MissedUntil = c.next, store.OrZero(c.pacedTo), c.origin, store.OrZero(c.missedUntil)
	if c.brokenAt != nil { // no node served the jobs of this cursor
		in.MissedUntil = in.Now.Add(-job.MissedGrace)
		c.brokenTo = in.MissedUntil
	}
	return job.Plan(*in)
}

func (b *planBatch) addBroken(partition int16, cursor int64, retryAt time.Time, problem error) {
	b.broken.partition = append(b.broken.partition, partition)
	b.broken.cursor = append(b.broken.cursor, cursor)
	b.broken.retryAt = append(b.broken.retryAt, retryAt)
	b.broken.problem = append(b.broken.problem, problem.Error())
}

// add adds what was decided about a cursor, and moves it.
func (b *planBatch) add(c *dueCursor, r *job.PlanResult) {
	b.addResults(c.partition, c.id, r)
	to := cursorPlace{pacedTo: r.PacedTo}
	if r.Ended {
		b.end(c.partition, c.id, r)
	} else {
		to.next = &r.NextDue
	}
	b.move(c, to)
}

// end ends the jobs of a cursor, after its last due time.
func (b *planBatch) end(partition int16, cursor int64, r *job.PlanResult) {
	var at time.Time
	if n := len(r.Due); n > 0 {
		at = r.Due[n-1].DueAt.Add(store.Instant)
	}
	b.ended.partition, b.ended.cursor = append(b.ended.partition, partition), append(b.ended.cursor, cursor)
	b.ended.at = append(b.ended.at, at)
}

// cursorPlace is where a cursor goes.
type cursorPlace struct {
	next    *time.Time // nil: the schedule has ended
	pacedTo time.Time
	after   *uuid.UUID
	origin  *job.Origin
}

func (b *planBatch) move(c *dueCursor, to cursorPlace) {
	m := &b.moved
	m.partition, m.cursor, m.next = append(m.partition, c.partition), append(m.cursor, c.id), append(m.next, to.next)
	m.broken = append(m.broken, to.next != nil && to.next.Before(c.brokenTo))
	m.after, m.origin = append(m.after, to.after), append(m.origin, to.origin)
	if to.pacedTo.IsZero() {
		m.pacedTo = append(m.pacedTo, nil)
	} else {
		m.pacedTo = append(m.pacedTo, &to.pacedTo)
	}
}

func (b *planBatch) addResults(partition int16, cursor int64, r *job.PlanResult) {
	for _, d := range r.Due {
		b.due.partition = append(b.due.partition, partition)
		b.due.cursor = append(b.due.cursor, cursor)
		b.due.dueAt = append(b.due.dueAt, d.DueAt)
		b.due.runAt = append(b.due.runAt, d.RunAt)
		b.due.origin = append(b.due.origin, int16(d.Origin))
	}
	for _, skip := range r.Skips {
		b.skipped.partition = append(b.skipped.partition, partition)
		b.skipped.cursor = append(b.skipped.cursor, cursor)
		b.skipped.from = append(b.skipped.from, skip.From)
		b.skipped.to = append(b.skipped.to, skip.To)
		b.skipped.count = append(b.skipped.count, skip.Count)
		b.skipped.reason = append(b.skipped.reason, string(skip.Reason))
	}
}

// write writes the runs and moves the cursors. A run that may start only after the look-ahead needs the sweep, because
// a new owner loads no further than that.
func (b *planBatch) write(ctx context.Context, tx pgx.Tx, until time.Time, out *job.Planned) error {
	var batch pgx.Batch
	if d := &b.due; len(d.cursor) > 0 {
		batch.Queue(planRuns, d.partition, d.cursor, d.dueAt, d.runAt, d.origin, until, b.after, b.upTo).
			Query(func(rows pgx.Rows) error { return collectPlanned(rows, out, store.WakeOf(tx)) })
	}
	if len(b.skipped.cursor) > 0 { // before the cursors forget why they could not be planned
		b.writeSkipped(tx, &batch, out)
	}
	if m := &b.moved; len(m.cursor) > 0 {
		batch.Queue(planMoveCursors, m.partition, m.cursor, m.next, m.pacedTo, m.after, m.origin, m.broken)
	}
	if k := &b.broken; len(k.cursor) > 0 {
		batch.Queue(planBreakCursors, k.partition, k.cursor, k.retryAt, k.problem, out.Now)
	}
	if e := &b.ended; len(e.cursor) > 0 {
		batch.Queue(planFinishJobs, e.partition, e.cursor, e.at, out.Now, b.upTo)
	}
	return tx.SendBatch(ctx, &batch).Close()
}

// jobKey names a job.
type jobKey struct {
	partition int16
	id        uuid.UUID
}

// collectPlanned reads the planned runs.
func collectPlanned(rows pgx.Rows, out *job.Planned, wake *job.Wake) error {
	run := job.Run{State: job.Pending}
	var pulled bool // workers pull it: no node delivers it
	_, err := pgx.ForEachRow(rows, []any{
		&run.Partition, store.Raw(&run.Job), &run.DueAt, &run.RunAt, &run.Version, &run.Priority, &run.Origin,
		&run.Queue, &run.ConcurrencyKey, &run.ConcurrencyMax, &pulled,
	}, func() error {
		if run.Origin == job.FromMissed {
			out.Missed.Add(job.Outage{Runs: 1, From: run.DueAt, To: run.DueAt})
		}
		switch {
		case !pulled:
			out.Runs = append(out.Runs, run)
		case run.RunAt.Before(out.Now):
			wake.AddLate(run.Queue, run.RunAt)
		}
		return nil
	})
	return err
}

const nextDue = `
SELECT p.id, c.plan_at, p.missed, now(), belfry_timeline()
FROM (SELECT id, first, EXISTS (SELECT FROM partition WHERE id = k.id AND missed_from IS NOT NULL) AS missed
      FROM unnest($1::smallint[], $2::timestamptz[]) k (id, first) OFFSET 0) p LEFT JOIN LATERAL (
    SELECT plan_at FROM cursor WHERE partition = p.id AND plan_at >= p.first AND NOT p.missed
    ORDER BY plan_at LIMIT 1) c ON true`

// NextDue returns, for each partition, the earliest time that its planner has to work for: a due time that is not
// planned, or a cursor that failed and is to be retried. Partitions without one are left out, and those that have to be
// caught up first, missed: CatchUp says where the pace of caught-up runs continues.
func (e *Engine) NextDue(
	ctx context.Context, partitions []int16,
) (now time.Time, next map[int16]time.Time, missed []int16, err error) {
	s := e.cursors.begin(partitions)
	rows, err := e.db.Query(ctx, nextDue, s.partitions, s.from)
	if err != nil {
		return now, nil, nil, fmt.Errorf("read the next due times: %w", err)
	}
	next = map[int16]time.Time{}
	first := map[int16]time.Time{}
	var p int16
	var at *time.Time
	var gap bool
	var timeline int64
	_, err = pgx.ForEachRow(rows, []any{&p, &at, &gap, &now, &timeline}, func() error {
		switch {
		case gap:
			missed = append(missed, p)
			first[p] = time.Time{} // it was not searched
		case at != nil:
			next[p], first[p] = *at, *at
		}
		return nil
	})
	if err != nil {
		return now, nil, nil, fmt.Errorf("read the next due times: %w", err)
	}
	e.cursors.found(s, first, now, timeline)
	return now, next, missed, nil
}

// BrokenCursors counts up to limit cursors that cannot be planned, and returns the problem of the oldest.
func (e *Engine) BrokenCursors(ctx context.Context, limit int) (n int, oldest string, err error) {
	err = e.db.QueryRow(ctx, `
SELECT count(*), coalesce((array_agg(problem ORDER BY broken_at))[1], '')
FROM (SELECT problem, broken_at FROM cursor WHERE broken_at IS NOT NULL ORDER BY broken_at LIMIT $1) b`,
		limit).Scan(&n, &oldest)
	if err != nil {
		return 0, "", fmt.Errorf("count broken cursors: %w", err)
	}
	return n, oldest, nil
}
