package postgres

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/store"
)

// maxDeadCells is how many cells a summary counts.
const maxDeadCells = 2 * job.MaxDeadGroups

// deadCells finds the causes of each queue by jumping from one to the next in the index, and the first and the last
// failure of each.
const deadCells = `
WITH RECURSIVE cell AS (
    SELECT q.id AS queue_id, (
        SELECT d.cause FROM dead_letter d WHERE d.queue_id = q.id AND (@cause = '' OR d.cause = @cause)
        ORDER BY d.cause LIMIT 1) AS cause
    FROM queue q WHERE q.namespace_id = @namespace AND (@queue = '' OR q.name = @queue)
    UNION ALL
    SELECT c.queue_id, (
        SELECT d.cause FROM dead_letter d
        WHERE d.queue_id = c.queue_id AND d.cause > c.cause AND (@cause = '' OR d.cause = @cause)
        ORDER BY d.cause LIMIT 1)
    FROM cell c WHERE c.cause IS NOT NULL
)
SELECT c.queue_id, c.cause, n.partition, n.job_id, n.due_at, n.seq, n.reason, o.failed_at, n.failed_at
FROM (SELECT queue_id, cause FROM cell WHERE cause IS NOT NULL LIMIT @cells) c, LATERAL (
    SELECT d.* FROM dead_letter d WHERE d.queue_id = c.queue_id AND d.cause = c.cause AND ` + wantDead + `
    ORDER BY d.failed_at DESC LIMIT 1) n, LATERAL (
    SELECT d.failed_at FROM dead_letter d WHERE d.queue_id = c.queue_id AND d.cause = c.cause AND ` + wantDead + `
    ORDER BY d.failed_at LIMIT 1) o`

// deadCell is the dead letters of one queue with one cause, or one dead letter.
type deadCell struct {
	queue  int32
	last   job.DeadLetter // without message
	oldest time.Time
	group  int
}

// deadGroup is a group while its dead letters are counted.
type deadGroup struct {
	job.DeadGroup
	jobs []uuid.UUID // those that failed last
}

// step is the length of a part of the sparkline, in whole microseconds, as the database has them.
func (g *deadGroup) step() time.Duration {
	return (g.Last.FailedAt.Sub(g.OldestAt) / job.DeadSparkline).Truncate(time.Microsecond) + time.Microsecond
}

func (g *deadGroup) add(at time.Time, n int64) {
	part := int(at.Sub(g.OldestAt) / g.step())
	g.Sparkline[min(max(part, 0), job.DeadSparkline-1)] += n
	g.Count += n
}

func (g *deadGroup) addJob(id uuid.UUID) {
	if len(g.jobs) < job.MaxSinceJobs && !slices.Contains(g.jobs, id) {
		g.jobs = append(g.jobs, id)
	}
}

// deadSummary is a summary while it is made.
type deadSummary struct {
	tx     pgx.Tx
	query  job.DeadQueryBy
	args   pgx.NamedArgs
	groups []deadGroup
	index  map[any]int
	out    job.DeadSummary
}

// SummarizeDeadLetters groups dead letters. The number of rows it reads is bounded: counts stop at a limit and say so.
func (v *Views) SummarizeDeadLetters(ctx context.Context, q job.DeadQueryBy) (job.DeadSummary, error) {
	s := &deadSummary{query: q, args: deadArgs(q.Namespace, q.DeadFilter), index: map[any]int{}}
	scope := store.In(q.Namespace, store.Lists, store.NoBitmaps)
	err := v.db.Tx(ctx, scope, "summarize dead letters", func(tx pgx.Tx) error {
		s.tx = tx
		if err := s.read(ctx); err != nil {
			return err
		}
		s.rank()
		if err := s.describe(ctx); err != nil {
			return err
		}
		return s.since(ctx)
	})
	for i := range s.groups {
		s.out.Groups = append(s.out.Groups, s.groups[i].DeadGroup)
	}
	return s.out, err
}

func (s *deadSummary) read(ctx context.Context) error {
	if s.query.Job != uuid.Nil {
		return s.readRows(ctx, deadRowsOfJob, 1)
	}
	cells, err := s.cells(ctx)
	if err != nil {
		return err
	}
	if s.query.By == job.DeadByJob {
		queues := map[int32]bool{}
		for i := range cells {
			queues[cells[i].queue] = true
		}
		return s.readRows(ctx, deadRowsOfQueues, max(len(queues), 1))
	}
	for i := range cells {
		cells[i].group = s.groupOf(&cells[i])
	}
	if err := s.count(ctx, cells); err != nil {
		return err
	}
	return s.jobs(ctx, cells)
}

func (s *deadSummary) cells(ctx context.Context) ([]deadCell, error) {
	s.args["cells"] = maxDeadCells + 1
	rows, err := s.tx.Query(ctx, deadCells, s.args)
	if err != nil {
		return nil, err
	}
	cells, err := pgx.CollectRows(rows, scanCell)
	if len(cells) > maxDeadCells {
		cells, s.out.Partial = cells[:maxDeadCells], true
	}
	return cells, err
}

func scanCell(row pgx.CollectableRow) (c deadCell, err error) {
	d := &c.last
	err = row.Scan(
		&c.queue, &d.Cause, &d.Partition, &d.Job, &d.DueAt, &d.Seq, &d.Reason, &c.oldest, &d.FailedAt,
	)
	d.DueAt, d.FailedAt, c.oldest = d.DueAt.UTC(), d.FailedAt.UTC(), c.oldest.UTC()
	return c, err
}

// groupOf returns the group of a cell, which grows by the time between its failures.
func (s *deadSummary) groupOf(c *deadCell) int {
	key := map[job.DeadBy]any{
		job.DeadByCause: c.last.Cause, job.DeadByReason: c.last.Reason,
		job.DeadByQueue: c.queue, job.DeadByJob: c.last.Job,
	}[s.query.By]
	i, known := s.index[key]
	if !known {
		i = len(s.groups)
		s.index[key] = i
		s.groups = append(s.groups, deadGroup{DeadGroup: job.DeadGroup{
			Last: c.last, OldestAt: c.oldest, Sparkline: make([]int64, job.DeadSparkline),
		}})
	}
	g := &s.groups[i]
	g.OldestAt = earlier(g.OldestAt, c.oldest)
	if c.last.FailedAt.After(g.Last.FailedAt) {
		g.Last = c.last
	}
	return i
}

// sinceLetters is how many dead letters are read to find the jobs that failed last, at least 10 of each cell.
const sinceLetters = 2000

const deadJobs = `
SELECT c.n, d.job_id
FROM (SELECT unnest(@ns::integer[]) AS n, unnest(@queues::integer[]) AS queue_id,
             unnest(@causes::text[]) COLLATE "C" AS cause) c, LATERAL (
    SELECT d.job_id, d.failed_at FROM dead_letter d
    WHERE d.queue_id = c.queue_id AND d.cause = c.cause AND ` + wantDead + `
    ORDER BY d.failed_at DESC LIMIT @limit) d
ORDER BY d.failed_at DESC`

// jobs finds the jobs that failed last in the groups of cells.
func (s *deadSummary) jobs(ctx context.Context, cells []deadCell) error {
	ns, queues, causes := make([]int32, len(cells)), make([]int32, len(cells)), make([]string, len(cells))
	for i := range cells {
		ns[i], queues[i], causes[i] = int32(cells[i].group), cells[i].queue, cells[i].last.Cause
	}
	s.args["ns"], s.args["queues"], s.args["causes"], s.args["limit"] = ns, queues, causes, max(10, sinceLetters/max(len(cells), 1))
	rows, err := s.tx.Query(ctx, deadJobs, s.args)
	if err != nil {
		return err
	}
	var group int32
	var id uuid.UUID
	_, err = pgx.ForEachRow(rows, []any{&group, &id}, func() error {
		s.groups[group].addJob(id)
		return nil
	})
	return err
}
