package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/postgres/pool"
)

var (
	planCursorsDue   = statement("plan_cursors_due")
	planCursorsLate  = statement("plan_cursors_late")
	planRuns         = statement("plan_runs")
	planRunsLimited  = statement("plan_runs_limited")
	planMoveCursors  = statement("plan_move_cursors")
	planBreakCursors = statement("plan_break_cursors")
	planFinishJobs   = statement("plan_finish_jobs")
	planCountRuns    = statement("plan_count_runs")
	planSkips        = statement("plan_skips")
)

// lockTimeout is how long plan waits for late cursors that are locked. After that it plans the others.
const lockTimeout = "500ms"

// Plan writes the runs of some partitions that are due within the look-ahead, and advances their cursors, in one
// transaction and as of one instant. Any number of planners may call it at the same time: the one that locks a cursor
// plans it.
func (e *Engine) Plan(ctx context.Context, in job.PlanParams) (job.Planned, error) {
	out, err := e.plan(ctx, in, true)
	if Code(err) == lockNotAvailable {
		return e.plan(ctx, in, false)
	}
	return out, err
}

func (e *Engine) plan(ctx context.Context, in job.PlanParams, wait bool) (out job.Planned, err error) {
	err = e.db.Tx(ctx, "plan", func(tx pgx.Tx) error {
		out = job.Planned{}
		// Every statement below uses this instant and reads no clock. If the commit is lost, the cursors are planned
		// again, so it need not wait for the disk.
		const begin = `
SELECT now() FROM (
    SELECT set_config('synchronous_commit', 'off', true), set_config('lock_timeout', '` + lockTimeout + `', true),
           ` + string(pool.KeyLookups) + ` OFFSET 0) s`
		if err := tx.QueryRow(ctx, begin).Scan(&out.Now); err != nil {
			return err
		}
		batch, err := e.planCursors(ctx, tx, in, wait, &out)
		if err != nil || out.Cursors == 0 {
			return err
		}
		switch n, err := planEndedAlone(ctx, tx, &batch.behind, out.Now); {
		case err != nil:
			return err
		case n == maxPlannedAlone: // there may be more of them, so the cursors must not move yet
			out = job.Planned{Now: out.Now, More: true}
			return nil
		}
		batch.count(tx)
		return batch.write(ctx, tx, out.Now.Add(in.LookAhead), &out)
	})
	return out, err
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
	}
	behind behind   // those that missed occurrences
	broken struct { // one for each cursor that cannot be planned
		partition []int16
		cursor    []int64
		retryAt   []time.Time
		problem   []string
	}
	ended struct { // one for each cursor that has no more
		partition []int16
		cursor    []int64
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
// because it waits for their locks. Locked cursors that are not late are skipped.
func (e *Engine) planCursors(
	ctx context.Context, tx pgx.Tx, in job.PlanParams, wait bool, out *job.Planned,
) (*planBatch, error) {
	b, until := &planBatch{}, out.Now.Add(in.LookAhead)
	decide := func(rows pgx.Rows) error { return e.decideCursors(rows, b, until, out) }
	if wait {
		rows, err := tx.Query(ctx, planCursorsLate, in.Partitions, out.Now.Add(in.LookAhead/2), in.Cursors)
		if err != nil {
			return nil, err
		}
		if err := decide(rows); err != nil || out.Cursors > 0 {
			out.More = true
			return b, err
		}
	}
	rows, err := tx.Query(ctx, planCursorsDue, in.Partitions, until, in.Cursors)
	if err != nil {
		return nil, err
	}
	err = decide(rows)
	out.More = out.More || out.Cursors == in.Cursors
	return b, err
}

func (e *Engine) decideCursors(rows pgx.Rows, b *planBatch, until time.Time, out *job.Planned) error {
	var partition int16
	var id int64
	var text, missed string
	var next time.Time
	var brokenAt *time.Time
	_, err := pgx.ForEachRow(rows, []any{&partition, &id, &text, &missed, &next, &brokenAt}, func() error {
		out.Cursors++
		result, err := e.planCursor(text, missed, next, out.Now, until)
		if err != nil {
			// One cursor that fails must not stop the others.
			err = fmt.Errorf("cursor %d of partition %d: %w", id, partition, err)
			out.Broken = append(out.Broken, err)
			b.addBroken(partition, id, job.RetryBroken(brokenAt, out.Now, until), err)
			return nil
		}
		b.add(partition, id, result)
		if next.Before(out.Now.Add(-job.MissedGrace)) {
			b.behind.add(partition, id, next)
		}
		for _, skip := range result.Skips {
			out.Skipped += skip.Count
		}
		out.More = out.More || result.More
		return nil
	})
	return err
}

func (e *Engine) planCursor(text, missed string, next, now, until time.Time) (result job.PlanResult, err error) {
	defer func() {
		// A schedule that panics must not stop the node.
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	compiled, err := e.schedules.get(text)
	if err != nil {
		return job.PlanResult{}, err
	}
	var policy job.Missed
	if err := json.Unmarshal([]byte(missed), &policy); err != nil {
		return job.PlanResult{}, fmt.Errorf("read the missed policy: %w", err)
	}
	return job.Plan(job.PlanInput{Schedule: compiled, Missed: policy, NextDue: next, Now: now, Until: until})
}

func (b *planBatch) addBroken(partition int16, cursor int64, retryAt time.Time, problem error) {
	b.broken.partition = append(b.broken.partition, partition)
	b.broken.cursor = append(b.broken.cursor, cursor)
	b.broken.retryAt = append(b.broken.retryAt, retryAt)
	b.broken.problem = append(b.broken.problem, problem.Error())
}

func (b *planBatch) add(partition int16, cursor int64, r job.PlanResult) {
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
	b.moved.partition = append(b.moved.partition, partition)
	b.moved.cursor = append(b.moved.cursor, cursor)
	if r.Ended {
		b.moved.next = append(b.moved.next, nil)
		b.ended.partition = append(b.ended.partition, partition)
		b.ended.cursor = append(b.ended.cursor, cursor)
		return
	}
	b.moved.next = append(b.moved.next, &r.NextDue)
}

// countBatch is how many jobs one plan_count_runs.sql updates, because its search for each job is linear.
const countBatch = 1000

// write writes the runs and moves the cursors. A run that may start only after the look-ahead needs the sweep, because
// a new owner loads no further than that.
func (b *planBatch) write(ctx context.Context, tx pgx.Tx, until time.Time, out *job.Planned) error {
	var batch pgx.Batch
	limited := map[jobKey]int32{}
	if d := &b.due; len(d.cursor) > 0 {
		batch.Queue(planRuns, d.partition, d.cursor, d.dueAt, d.runAt, d.origin, until).
			Query(func(rows pgx.Rows) error { return collectPlanned(rows, out, nil) })
		batch.Queue(planRunsLimited, d.partition, d.cursor, d.dueAt, d.runAt, d.origin, until).
			Query(func(rows pgx.Rows) error { return collectPlanned(rows, out, limited) })
	}
	if m := &b.moved; len(m.cursor) > 0 {
		batch.Queue(planMoveCursors, m.partition, m.cursor, m.next)
	}
	if k := &b.broken; len(k.cursor) > 0 {
		batch.Queue(planBreakCursors, k.partition, k.cursor, k.retryAt, k.problem, out.Now)
	}
	if e := &b.ended; len(e.cursor) > 0 {
		batch.Queue(planFinishJobs, e.partition, e.cursor, out.Now)
	}
	if k := &b.skipped; len(k.cursor) > 0 {
		batch.Queue(planSkips, k.partition, k.cursor, k.from, k.to, k.count, k.reason, out.Now)
	}
	if err := tx.SendBatch(ctx, &batch).Close(); err != nil {
		return err
	}
	return countLimited(ctx, tx, limited, out.Now)
}

// jobKey names a job.
type jobKey struct {
	partition int16
	id        uuid.UUID
}

// countLimited subtracts planned runs from what jobs with max_runs have left.
func countLimited(ctx context.Context, tx pgx.Tx, runs map[jobKey]int32, now time.Time) error {
	if len(runs) == 0 {
		return nil
	}
	var batch pgx.Batch
	for part := range slices.Chunk(slices.Collect(maps.Keys(runs)), countBatch) {
		var partitions []int16
		var ids []uuid.UUID
		var counts []int32
		for _, k := range part {
			partitions, ids, counts = append(partitions, k.partition), append(ids, k.id), append(counts, runs[k])
		}
		batch.Queue(planCountRuns, partitions, ids, counts, now)
	}
	return tx.SendBatch(ctx, &batch).Close()
}

// count reports the due times that are skipped.
func (b *planBatch) count(tx pgx.Tx) {
	for i, why := range b.skipped.reason {
		pool.LedgerOf(tx).Skipped(job.Reason(why), b.skipped.count[i])
	}
}

// collectPlanned reads the planned runs. If counted is not nil, it counts the runs of each job.
func collectPlanned(rows pgx.Rows, out *job.Planned, counted map[jobKey]int32) error {
	run := job.Run{State: job.Pending}
	var pulled bool // workers pull it: no node delivers it
	_, err := pgx.ForEachRow(rows, []any{
		&run.Partition, raw(&run.Job), &run.DueAt, &run.RunAt, &run.Version, &run.Priority, &run.Origin,
		&run.Queue, &run.ConcurrencyKey, &run.ConcurrencyMax, &pulled,
	}, func() error {
		if counted != nil {
			counted[jobKey{run.Partition, run.Job}]++
		}
		if !pulled {
			out.Runs = append(out.Runs, run)
		}
		return nil
	})
	return err
}

// NextDue returns, for each partition, the earliest time that its planner has to work for: a due time that is not
// planned, or a cursor that failed and is to be retried. Partitions without one are left out.
func (e *Engine) NextDue(ctx context.Context, partitions []int16) (now time.Time, next map[int16]time.Time, err error) {
	rows, err := e.db.Query(ctx, `
SELECT p, c.plan_at, now()
FROM unnest($1::smallint[]) p, LATERAL (
    SELECT plan_at FROM cursor WHERE partition = p AND plan_at IS NOT NULL ORDER BY plan_at LIMIT 1) c`, partitions)
	if err != nil {
		return now, nil, fmt.Errorf("read the next due times: %w", err)
	}
	next = map[int16]time.Time{}
	var p int16
	var at time.Time
	_, err = pgx.ForEachRow(rows, []any{&p, &at, &now}, func() error { next[p] = at; return nil })
	if err != nil {
		return now, nil, fmt.Errorf("read the next due times: %w", err)
	}
	return now, next, nil
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
