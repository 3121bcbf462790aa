package postgres

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/belfry-dev/belfry/internal/job"
)

// planBound decides how much of what is due one transaction plans. A transaction that wrote all of it would not end
// before statement_timeout where many jobs share a schedule, and would then fail again for ever.
//
// It takes whole due times of cursors until the next one has more jobs than runs are left. A cursor whose jobs are more
// than max is planned alone: one due time, for max jobs in the order of their ids. The cursor keeps the id of the
// last one, and the next transaction continues after it.
//
// A transaction also visits a bounded number of occurrences, because its connection is idle meanwhile.
type planBound struct {
	engine     *Engine
	tx         pgx.Tx
	now, until time.Time
	restored   time.Time   // see job.PlanInput
	max        int         // runs
	cursors    int         // maximum
	full       []uuid.UUID // namespaces with as many live runs as they may have
	batch      *planBatch
	out        *job.Planned
}

const (
	// planVisits is how many occurrences one transaction visits between two statements. They take about 0.2 s, and
	// PostgreSQL ends a connection that is idle in its transaction for 5 s.
	planVisits = 500_000
	// visitsPerRun is how many visited occurrences take as long as one run.
	visitsPerRun = 100
)

// decide calls job.Plan for cursors until the bound is reached. Namespaces for which less was planned come first.
// Late cursors of a namespace come last, because those that are not late would become late behind them.
func (p *planBound) decide(ctx context.Context, cursors []dueCursor) error {
	cursors = p.setFullAside(cursors)
	p.engine.planned.order(cursors)
	slices.SortStableFunc(cursors, func(x, y dueCursor) int {
		if c := cmp.Compare(x.turn, y.turn); c != 0 {
			return c
		}
		if late := p.late(&x); late != p.late(&y) {
			if late {
				return 1
			}
			return -1
		}
		return x.next.Compare(y.next)
	})
	cursors = cursors[:min(len(cursors), p.cursors)]
	jobs, err := p.countJobs(ctx, cursors)
	if err != nil {
		return err
	}
	left, visits := p.max, planVisits
	for i := range cursors {
		c := &cursors[i]
		alone := c.after != nil || i < len(jobs) && jobs[i] > p.max
		if i >= len(jobs) || visits <= 0 || len(p.batch.moved.cursor) > 0 && (alone || jobs[i] > left) {
			p.engine.planned.stopBefore(c)
			p.out.More = true
			return nil
		}
		p.out.Cursors++
		in := job.PlanInput{
			Now: p.now, Until: p.until, RestoredUntil: p.restored,
			Limit: min(visits, job.PlanLimit), Results: min(max(1, left/max(1, jobs[i])), job.PlanResults),
		}
		if alone {
			in.Results = 1
		}
		result, err := p.engine.planCursor(c, &in)
		visits -= result.Visited
		p.engine.planned.add(c.namespace, 1+min(jobs[i], p.max)*len(result.Due)+result.Visited/visitsPerRun)
		if err != nil {
			p.breakCursor(c, err, job.RetryBroken(c.brokenAt, p.now, p.until))
			continue
		}
		p.out.More = p.out.More || result.More
		if alone {
			p.out.More = true
			return p.addPart(ctx, c, &result, jobs[i])
		}
		p.batch.add(c, &result)
		left -= jobs[i] * len(result.Due)
	}
	return nil
}

func (p *planBound) late(c *dueCursor) bool { return c.next.Before(p.now.Add(-job.MissedGrace)) }

// breakCursor sets a cursor aside: one that fails must not stop the others.
func (p *planBound) breakCursor(c *dueCursor, err error, retryAt time.Time) {
	err = fmt.Errorf("cursor %d of partition %d: %w", c.id, c.partition, err)
	p.out.Broken = append(p.out.Broken, err)
	p.batch.addBroken(c.partition, c.id, retryAt, err)
}

// countJobs returns how many active jobs the first cursors have. It stops counting when there are more than max in all:
// the cursors that it leaves out are for the next transaction. Other transactions may add jobs until the runs are
// written, which makes the transaction a little larger.
func (p *planBound) countJobs(ctx context.Context, cursors []dueCursor) ([]int, error) {
	partitions, ids, after := make([]int16, len(cursors)), make([]int64, len(cursors)), make([]uuid.UUID, len(cursors))
	for i, c := range cursors {
		partitions[i], ids[i] = c.partition, c.id
		if c.after != nil {
			after[i] = *c.after
		}
	}
	rows, err := p.tx.Query(ctx, planCountJobs, partitions, ids, after, p.max+1)
	if err != nil {
		return nil, err
	}
	jobs, sum, last := make([]int, len(cursors)), 0, 0
	var i, n int
	_, err = pgx.ForEachRow(rows, []any{&i, &n}, func() error {
		jobs[i], sum, last = n, sum+n, max(last, i)
		return nil
	})
	if sum > p.max {
		jobs = jobs[:max(1, last)] // the last one may have more
	}
	return jobs, err
}

// addPart adds a cursor that is planned alone: the rest of its jobs, or the next max of them.
func (p *planBound) addPart(ctx context.Context, c *dueCursor, r *job.PlanResult, jobs int) error {
	b := p.batch
	if c.after != nil {
		b.after = *c.after
	}
	if jobs <= p.max {
		b.add(c, r)
		return nil
	}
	if len(r.Due) == 0 && !r.Ended { // no run, and no job to finish
		b.add(c, r)
		return nil
	}
	err := p.tx.QueryRow(ctx, planJobAt, c.partition, c.id, b.after, p.max-1).Scan(&b.upTo)
	if err != nil {
		return fmt.Errorf("find job %d of cursor %d: %w", p.max, c.id, err)
	}
	if r.Ended { // these jobs get no run after this one
		b.end(c.partition, c.id, r)
	}
	if len(r.Due) == 0 {
		return nil // the cursor moves when few jobs are left
	}
	b.addResults(c.partition, c.id, r)
	due := &r.Due[0]
	to := cursorPlace{next: &due.DueAt, after: &b.upTo, origin: &due.Origin}
	if due.Origin == job.FromMissed {
		to.pacedTo = due.RunAt
	}
	b.move(c, to)
	return nil
}
