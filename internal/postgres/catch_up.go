package postgres

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/store"
)

var (
	catchUpRuns  = statement("catch_up_runs")
	catchUpSkip  = statement("catch_up_skip")
	catchUpStart = statement("catch_up_start")
)

// maxCaughtUp is how many runs one transaction catches up.
const maxCaughtUp = 10_000

// CatchUp applies the missed policies to runs that were planned before no node served their partition. The owner calls
// it before it loads the runs: until then none of them starts. One call is one transaction of bounded size. It finishes
// partitions one after the other, and returns those that need another call.
func (e *Engine) CatchUp(ctx context.Context, in job.CatchUpParams) (out job.CatchUpResult, err error) {
	err = e.db.Tx(ctx, "catch up", func(tx pgx.Tx) error {
		out = job.CatchUpResult{}
		c := newCatchUp(tx, &out)
		c.engine, c.rest = e, job.Partitions
		gaps, err := c.lockGaps(ctx, in)
		if err != nil || len(gaps.partition) == 0 {
			return err
		}
		if !c.trusted {
			out.Left = gaps.partition
			return nil
		}
		missed, err := c.missed(ctx, &gaps)
		if err != nil {
			return err
		}
		if err := c.decide(ctx, missed); err != nil {
			return err
		}
		if err := c.write(ctx, c.now.Add(in.LookAhead)); err != nil {
			return err
		}
		decided, _ := slices.BinarySearch(gaps.partition, c.rest)
		out.Left = gaps.partition[decided:]
		const done = `
UPDATE partition SET missed_from = NULL, missed_until = least(missed_until, now() - ` + grace + `) WHERE id = ANY ($1)`
		_, err = tx.Exec(ctx, done, gaps.partition[:decided])
		return err
	})
	return out, err
}

// catchUp is one transaction of CatchUp.
type catchUp struct {
	tx     pgx.Tx
	engine *Engine
	out    *job.CatchUpResult
	now    time.Time
	// trusted is false while the clock is in doubt: by a wrong clock, all is missed.
	trusted bool
	gaps    map[int16]gap
	// rest is the first partition that this transaction does not finish.
	rest int16

	skips  map[job.Reason]*missedRows
	starts missedRows
	paced  struct { // cursors that will plan further caught-up runs
		partition []int16
		cursor    []int64
		to        []time.Time
	}
}

func newCatchUp(tx pgx.Tx, out *job.CatchUpResult) *catchUp {
	return &catchUp{tx: tx, out: out, skips: map[job.Reason]*missedRows{}}
}

// gap is a time in which no node served a partition.
type gap struct{ from, until time.Time }

type gapColumns struct {
	partition   []int16
	from, until []time.Time
}

// lockGaps locks the partitions that have runs to catch up, so that no other session takes them meanwhile.
func (c *catchUp) lockGaps(ctx context.Context, in job.CatchUpParams) (out gapColumns, err error) {
	// If the commit is lost, the runs are caught up again, so it need not wait for the disk.
	const begin = `SELECT belfry_clock_trusted() FROM (
    SELECT set_config('synchronous_commit', 'off', true), ` + string(store.KeyLookups) + ` OFFSET 0) s`
	// The partition may have been taken by a wrong clock.
	const gaps = `
SELECT id, missed_from, least(missed_until, now() - ` + grace + `), now() FROM partition
WHERE id = ANY ($1) AND owner = $2 AND missed_from IS NOT NULL ORDER BY id FOR UPDATE`
	var p int16
	var g gap
	c.gaps = map[int16]gap{}
	var batch pgx.Batch
	batch.Queue(begin).QueryRow(func(row pgx.Row) error { return row.Scan(&c.trusted) })
	batch.Queue(gaps, in.Partitions, in.Session).Query(func(rows pgx.Rows) error {
		_, err := pgx.ForEachRow(rows, []any{&p, &g.from, &g.until, &c.now}, func() error {
			c.gaps[p] = g
			out.partition = append(out.partition, p)
			out.from, out.until = append(out.from, g.from), append(out.until, g.until)
			return nil
		})
		return err
	})
	return out, c.tx.SendBatch(ctx, &batch).Close()
}

// missedJob is the missed runs of a job, in order.
type missedJob struct {
	jobKey
	cursor int64
	due    []time.Time
}

// missed lists the missed runs by job, in the order of partitions. A job is not split: its runs have one pace.
func (c *catchUp) missed(ctx context.Context, g *gapColumns) (out []missedJob, err error) {
	rows, err := c.tx.Query(ctx, catchUpRuns, g.partition, g.from, g.until, maxCaughtUp)
	if err != nil {
		return nil, err
	}
	var next missedJob
	var due time.Time
	n := 0
	_, err = pgx.ForEachRow(rows, []any{
		&next.partition, store.Raw(&next.id), &due, &next.cursor,
	}, func() error {
		n++
		if len(out) == 0 || out[len(out)-1].jobKey != next.jobKey {
			out = append(out, next)
		}
		last := &out[len(out)-1]
		last.due = append(last.due, due)
		return nil
	})
	if n == maxCaughtUp { // there may be more
		c.rest = out[len(out)-1].partition
		out = out[:max(1, len(out)-1)]
	}
	return out, err
}

// decide asks job.CatchUp about the runs of each job. Jobs of one cursor share the answer.
func (c *catchUp) decide(ctx context.Context, missed []missedJob) error {
	cursors, err := c.lockCursors(ctx, missed)
	if err != nil {
		return err
	}
	for i := range missed {
		m := &missed[i]
		cursor, ok := cursors[m.cursor]
		if !ok || cursor.decide == nil {
			c.late(m)
			continue
		}
		c.collect(m, cursor, cursor.decide(m.due))
	}
	for _, cursor := range cursors {
		if cursor.before(c.gaps[cursor.partition].until.Add(-store.Instant)) && !cursor.pacedTo.IsZero() {
			c.paced.partition = append(c.paced.partition, cursor.partition)
			c.paced.cursor = append(c.paced.cursor, cursor.id)
			c.paced.to = append(c.paced.to, cursor.pacedTo)
		}
	}
	return nil
}

// missedCursor is a cursor whose jobs have missed runs.
type missedCursor struct {
	cursor
	partition int16
	pace      time.Duration
	decide    func([]time.Time) []job.CaughtUp // nil: the runs are late
	pacedTo   time.Time                        // when the next caught-up run may start; zero: none does
}

const lockMissedCursors = `
SELECT c.partition, c.id, c.next_due_at, c.after_job, c.schedule, c.missed
FROM (SELECT DISTINCT u.partition, u.id
      FROM (SELECT unnest($1::smallint[]) AS partition, unnest($2::bigint[]) AS id) u
      ORDER BY 1, 2) k, LATERAL (
    SELECT * FROM cursor WHERE partition = k.partition AND id = k.id LIMIT 1 FOR UPDATE) c`

// lockCursors locks the cursors of jobs, in their order. Changes of jobs and plan wait.
func (c *catchUp) lockCursors(ctx context.Context, missed []missedJob) (map[int64]*missedCursor, error) {
	partitions, ids := make([]int16, len(missed)), make([]int64, len(missed))
	for i := range missed {
		partitions[i], ids[i] = missed[i].partition, missed[i].cursor
	}
	rows, err := c.tx.Query(ctx, lockMissedCursors, partitions, ids)
	if err != nil {
		return nil, err
	}
	out := map[int64]*missedCursor{} // ids of cursors are unique in a database
	var next missedCursor
	var text, missedText string
	_, err = pgx.ForEachRow(rows, []any{
		&next.partition, &next.id, &next.next, &next.after, &text, &missedText,
	}, func() error {
		m := next
		g := c.gaps[m.partition]
		in := job.MissedInput{From: g.from, Until: g.until, Now: c.now}
		if in.Schedule, in.Missed, err = c.engine.schedules.Read(text, missedText); err == nil {
			m.decideBy(in)
		}
		out[m.id] = &m
		next.next, next.after = nil, nil // the next row must not share them
		return nil
	})
	return out, err
}

// decideBy asks job.CatchUp what the policy says about missed runs. If it fails, decide stays nil.
func (m *missedCursor) decideBy(in job.MissedInput) {
	defer func() {
		_ = recover() // a schedule that panics must not stop the node
	}()
	if decide, err := job.CatchUp(in); err == nil {
		m.decide, m.pace = decide, time.Duration(in.Missed.Pace)
	}
}

// collect notes the decisions about the runs of a job.
func (c *catchUp) collect(m *missedJob, cursor *missedCursor, decided []job.CaughtUp) {
	for i, d := range decided {
		if d.Reason == job.ReasonNone {
			c.starts.add(m, m.due[i])
			c.starts.runAt = append(c.starts.runAt, d.RunAt)
			cursor.pacedTo = store.Later(cursor.pacedTo, d.RunAt.Add(cursor.pace))
			continue
		}
		if c.skips[d.Reason] == nil {
			c.skips[d.Reason] = &missedRows{}
		}
		c.skips[d.Reason].add(m, m.due[i])
	}
}

// late lets the runs of a job start as they are, because nothing says what else becomes of them. It is a decision too:
// the next transaction must not find them again.
func (c *catchUp) late(m *missedJob) {
	for _, due := range m.due {
		c.starts.add(m, due)
		c.starts.runAt = append(c.starts.runAt, due)
	}
}

// missedRows are runs as the arrays that statements take.
type missedRows struct {
	partition    []int16
	job          pgtype.FlatArray[pgtype.UUID]
	dueAt, runAt []time.Time
}

func (r *missedRows) add(m *missedJob, due time.Time) {
	r.partition, r.dueAt = append(r.partition, m.partition), append(r.dueAt, due)
	r.job = append(r.job, pgtype.UUID{Bytes: m.id, Valid: true})
}

// outage sums up what was decided about the rows.
func (r *missedRows) outage(runs, skipped int64) job.Outage {
	return job.Outage{
		Runs: runs, Skipped: skipped,
		From: slices.MinFunc(r.dueAt, time.Time.Compare), To: slices.MaxFunc(r.dueAt, time.Time.Compare),
	}
}

const paceCursors = `
UPDATE cursor SET paced_to = ($3::timestamptz[])[array_position($2::bigint[], id)]
WHERE ctid = ANY (ARRAY(
    SELECT x.address FROM (SELECT unnest($1::smallint[]) AS partition, unnest($2::bigint[]) AS id) k, LATERAL (
        SELECT ctid AS address FROM cursor WHERE partition = k.partition AND id = k.id LIMIT 1) x))`

// write carries the decisions out.
func (c *catchUp) write(ctx context.Context, until time.Time) error {
	for reason, r := range c.skips {
		rows, err := c.tx.Query(ctx, catchUpSkip, r.partition, r.job, r.dueAt, c.now, string(reason))
		if err != nil {
			return err
		}
		var queue int32
		tag, err := pgx.ForEachRow(rows, []any{&queue}, func() error {
			store.LedgerOf(c.tx).Ended(queue, job.EndedSkipped, reason, 1)
			return nil
		})
		if err != nil {
			return err
		}
		c.out.Add(r.outage(0, tag.RowsAffected()))
	}
	if r := &c.starts; len(r.job) > 0 {
		tag, err := c.tx.Exec(ctx, catchUpStart, r.partition, r.job, r.dueAt, r.runAt, until)
		if err != nil {
			return err
		}
		c.out.Add(r.outage(tag.RowsAffected(), 0))
	}
	if p := &c.paced; len(p.cursor) > 0 {
		if _, err := c.tx.Exec(ctx, paceCursors, p.partition, p.cursor, p.to); err != nil {
			return err
		}
	}
	return nil
}
