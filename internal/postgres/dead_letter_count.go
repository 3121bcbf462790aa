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

// deadCounts counts the newest dead letters of cells, by part of the sparkline of their group.
const deadCounts = `
SELECT c.n, date_bin(c.step, d.failed_at, c.origin) AS part, count(*)
FROM (SELECT unnest(@ns::integer[]) AS n, unnest(@queues::integer[]) AS queue_id,
             unnest(@causes::text[]) COLLATE "C" AS cause,
             unnest(@steps::interval[]) AS step, unnest(@origins::timestamptz[]) AS origin) c, LATERAL (
    SELECT d.failed_at FROM dead_letter d
    WHERE d.queue_id = c.queue_id AND d.cause = c.cause AND ` + wantDead + `
    ORDER BY d.failed_at DESC LIMIT @limit) d
GROUP BY c.n, part`

// cellCount is how many dead letters a cell has, by part of its sparkline, the oldest first.
type cellCount struct {
	at   []time.Time
	n    []int64
	sum  int64
	more bool
}

func (c *cellCount) add(at time.Time, n int64) {
	c.at, c.n, c.sum = append(c.at, at), append(c.n, n), c.sum+n
}

// cut leaves the newest dead letters.
func (c *cellCount) cut(limit int64) {
	if c.sum > limit {
		c.n[0], c.sum, c.more = c.n[0]-(c.sum-limit), limit, true
	}
}

// deadShare is how many dead letters of each cell are counted first. The cells that have more share what is left of
// job.MaxDeadSummary.
const deadShare = 1000

func (s *deadSummary) count(ctx context.Context, cells []deadCell) error {
	if len(cells) == 0 {
		return nil
	}
	share := min(deadShare, job.MaxDeadSummary/int64(len(cells)))
	counted, err := s.countCells(ctx, cells, share)
	if err != nil {
		return err
	}
	var large []deadCell
	var first []cellCount // of those
	left := int64(job.MaxDeadSummary)
	for i := range cells {
		if counted[i].more {
			large, first = append(large, cells[i]), append(first, counted[i])
			continue
		}
		left -= counted[i].sum
		s.add(&cells[i], &counted[i])
	}
	if len(large) == 0 {
		return nil
	}
	if more := left / int64(len(large)); more > share {
		if first, err = s.countCells(ctx, large, more); err != nil {
			return err
		}
	}
	for i := range large {
		s.add(&large[i], &first[i])
	}
	return nil
}

// add adds the dead letters of a cell to its group.
func (s *deadSummary) add(c *deadCell, counted *cellCount) {
	g := &s.groups[c.group]
	for i, at := range counted.at {
		g.add(at, counted.n[i])
	}
	g.More = g.More || counted.more
}

// countCells counts the newest dead letters of each cell.
func (s *deadSummary) countCells(ctx context.Context, cells []deadCell, limit int64) ([]cellCount, error) {
	ns, queues, causes := make([]int32, len(cells)), make([]int32, len(cells)), make([]string, len(cells))
	steps, origins := make([]time.Duration, len(cells)), make([]time.Time, len(cells))
	for i := range cells {
		g := &s.groups[cells[i].group]
		ns[i], queues[i], causes[i], steps[i], origins[i] = int32(i), cells[i].queue, cells[i].last.Cause, g.step(), g.OldestAt
	}
	s.args["ns"], s.args["queues"], s.args["causes"] = ns, queues, causes
	s.args["steps"], s.args["origins"], s.args["limit"] = steps, origins, limit+1
	rows, err := s.tx.Query(ctx, deadCounts, s.args)
	if err != nil {
		return nil, err
	}
	counted := make([]cellCount, len(cells))
	var i int32
	var at time.Time
	var n int64
	_, err = pgx.ForEachRow(rows, []any{&i, &at, &n}, func() error {
		counted[i].add(at, n)
		return nil
	})
	for i := range counted {
		counted[i].cut(limit)
	}
	return counted, err
}

// maxDeadRows is how many dead letters are read one by one, to group them by job or those of one job.
const maxDeadRows = 20_000

const deadRow = `d.queue_id, d.cause, d.partition, d.job_id, d.due_at, d.seq, d.reason, d.failed_at, d.failed_at`

const deadRowsOfJob = `
SELECT ` + deadRow + ` FROM dead_letter d
WHERE d.partition = @partition AND d.job_id = @job AND ` + ofQueue + ` AND ` + wantDead + `
LIMIT @limit`

const deadRowsOfQueues = `
SELECT ` + deadRow + ` FROM queue q, LATERAL (
    SELECT * FROM dead_letter d WHERE d.queue_id = q.id AND ` + wantDead + `
    ORDER BY d.failed_at DESC LIMIT @limit) d
WHERE q.namespace_id = @namespace AND (@queue = '' OR q.name = @queue)`

// readRows groups dead letters that it reads one by one, the newest of each queue.
func (s *deadSummary) readRows(ctx context.Context, sql string, queues int) error {
	limit := maxDeadRows / queues
	s.args["limit"] = limit + 1
	rows, err := s.tx.Query(ctx, sql, s.args)
	if err != nil {
		return err
	}
	letters, err := pgx.CollectRows(rows, scanCell)
	if err != nil {
		return err
	}
	perQueue := map[int32]int{}
	for i := range letters {
		if perQueue[letters[i].queue]++; perQueue[letters[i].queue] > limit {
			s.out.Partial = true
		}
		letters[i].group = s.groupOf(&letters[i])
	}
	for i := range letters {
		g := &s.groups[letters[i].group]
		g.add(letters[i].last.FailedAt, 1)
		g.addJob(letters[i].last.Job)
		g.More = s.out.Partial
	}
	return nil
}

const countDeadUpTo = `SELECT count(*) FROM (SELECT 1 ` + fromDead + ` LIMIT @limit) d`

// CountDeadLetters counts the dead letters that a filter selects, up to a limit, and reports whether there are more.
func (v *Views) CountDeadLetters(
	ctx context.Context, namespace uuid.UUID, f job.DeadFilter,
) (count int64, more bool, err error) {
	args := deadArgs(namespace, f)
	args["limit"] = job.MaxDeadCount + 1
	err = v.db.Query(ctx, store.In(namespace, store.Lists, store.NoBitmaps), func(rows pgx.Rows) (err error) {
		count, err = pgx.CollectExactlyOneRow(rows, pgx.RowTo[int64])
		return err
	}, countDeadUpTo, args)
	if err != nil {
		return 0, false, fmt.Errorf("count dead letters: %w", err)
	}
	return min(count, job.MaxDeadCount), count > job.MaxDeadCount, nil
}
