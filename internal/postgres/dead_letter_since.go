package postgres

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/store"
)

// rank puts the largest groups first, and leaves out those that are too many.
func (s *deadSummary) rank() {
	slices.SortStableFunc(s.groups, func(a, b deadGroup) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), b.Last.FailedAt.Compare(a.Last.FailedAt), a.Last.DueAt.Compare(b.Last.DueAt))
	})
	for i := range s.groups {
		s.out.Total += s.groups[i].Count
		s.out.More = s.out.More || s.groups[i].More
	}
	s.out.More = s.out.More || s.out.Partial
	if len(s.groups) > job.MaxDeadGroups {
		s.groups, s.out.Partial = s.groups[:job.MaxDeadGroups], true
	}
}

const deadByKeys = selectDead + `
    SELECT d.* FROM (
        SELECT unnest(@partitions::smallint[]) AS partition, unnest(@jobs::uuid[]) AS job_id,
               unnest(@dues::timestamptz[]) AS due_at, unnest(@seqs::smallint[]) AS seq) k, LATERAL (
        SELECT ` + deadColumns + ` FROM dead_letter d
        WHERE d.partition = k.partition AND d.job_id = k.job_id AND d.due_at = k.due_at AND d.seq = k.seq LIMIT 1) d
) d`

// describe reads the last failure of each group. One that was redriven or discarded just now keeps what its index says.
func (s *deadSummary) describe(ctx context.Context) error {
	keys := make([]job.Key, len(s.groups))
	for i := range s.groups {
		keys[i] = s.groups[i].Last.Key
	}
	k := store.SplitKeys(keys)
	rows, err := s.tx.Query(ctx, deadByKeys, pgx.NamedArgs{
		"partitions": k.Partition, "jobs": k.Job, "dues": k.DueAt, "seqs": k.Seq,
	})
	if err != nil {
		return err
	}
	letters, err := pgx.CollectRows(rows, scanDead)
	found := map[job.Key]job.DeadLetter{}
	for _, d := range letters {
		found[d.Key] = d
	}
	for i := range s.groups {
		if d, ok := found[s.groups[i].Last.Key]; ok {
			s.groups[i].Last = d
		}
	}
	return err
}

// sinceRuns is how many runs of history are read to say what happened since the last failures.
const sinceRuns = 10_000

// The newest runs by due time of some jobs, which ended on the day of a failure or later: the index of history has no
// end. The condition on the time of the failure comes after the limit, which bounds what is read.
const deadSince = `
SELECT k.n, count(*) FILTER (WHERE h.ended = 1 /* succeeded */ AND h.ended_at > k.since),
       count(*) FILTER (WHERE h.ended = 2 /* failed */ AND h.ended_at > k.since), count(*) = @limit
FROM (SELECT unnest(@ns::integer[]) AS n, unnest(@jobs::uuid[]) AS job_id,
             unnest(@since::timestamptz[]) AS since) k
LEFT JOIN LATERAL (
    SELECT h.ended, h.ended_at FROM run_history h
    WHERE h.job_id = k.job_id AND h.ended_at >= @first AND h.ended_at >= date_trunc('day', k.since, 'UTC')
    ORDER BY h.due_at DESC LIMIT @limit) h ON true
GROUP BY k.n, k.job_id`

// since counts how runs of the same jobs ended after the last failure of the largest groups.
func (s *deadSummary) since(ctx context.Context) error {
	var now time.Time
	if err := s.tx.QueryRow(ctx, `SELECT now()`).Scan(&now); err != nil {
		return err
	}
	var ns []int32
	var jobs []uuid.UUID
	var since []time.Time
	first := now
	for i := range s.groups[:min(len(s.groups), job.MaxDeadSince)] {
		g := &s.groups[i]
		from := store.Later(g.Last.FailedAt, now.Add(-job.DeadSinceRange)).UTC()
		g.Since = &job.DeadSince{From: from, Jobs: len(g.jobs)}
		for _, k := range g.jobs {
			ns, jobs, since = append(ns, int32(i)), append(jobs, k), append(since, from)
		}
		first = earlier(first, from)
	}
	if len(jobs) == 0 {
		return nil
	}
	rows, err := s.tx.Query(ctx, deadSince, pgx.NamedArgs{
		"ns": ns, "jobs": jobs, "since": since, "first": first.Truncate(24 * time.Hour), "limit": sinceRuns / len(jobs),
	})
	if err != nil {
		return err
	}
	var i int32
	var succeeded, failed int64
	var full bool
	_, err = pgx.ForEachRow(rows, []any{&i, &succeeded, &failed, &full}, func() error {
		d := s.groups[i].Since
		d.Succeeded, d.Failed, d.More = d.Succeeded+succeeded, d.Failed+failed, d.More || full
		return nil
	})
	return err
}
