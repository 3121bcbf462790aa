package postgres_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
)

// dead inserts n dead letters of 60 jobs with some causes, over the last hours, one second apart.
func (b *bulk) dead(n, queues, causes int) {
	b.t.Helper()
	b.exec(`INSERT INTO queue (id, namespace_id, name) OVERRIDING SYSTEM VALUE
		SELECT g, `+bulkNamespace+`, 'queue-' || g FROM generate_series(1, $1::integer) g ON CONFLICT DO NOTHING`, queues)
	b.exec(fmt.Sprintf(`INSERT INTO dead_letter
		(partition, job_id, due_at, seq, queue_id, failed_at, attempt, reason, message, status, cause)
		SELECT partition, id, now() - l * interval '1 s', 0, 1 + l %% $2::integer, now() - l * interval '1 s', 3,
		       CASE WHEN l %% $3::integer < 2 THEN 'rejected' ELSE 'attempts' END, 'message', 500,
		       CASE WHEN l %% $3::integer < 2 THEN 'rejected' ELSE 'attempts' END || '-500-' || l %% $3::integer
		FROM generate_series(1, $1::integer) l JOIN (`+bulkIDs+`) i ON g = 1 + l %% 60
		ON CONFLICT DO NOTHING`, 60), n, queues, causes)
}

func bulkUUID() uuid.UUID { return uuid.MustParse(strings.Trim(bulkNamespace, "'")) }

// lastDead returns the first entry of the list. On a busy machine, pages before it may be empty.
func (b *bulk) lastDead(f job.DeadFilter) job.DeadLetter {
	b.t.Helper()
	q := job.DeadQuery{Namespace: bulkUUID(), DeadFilter: f, Limit: 1}
	for {
		page, err := b.store.DeadLetters(b.t.Context(), q)
		require.NoError(b.t, err)
		if len(page.Letters) > 0 {
			return page.Letters[0]
		}
		require.NotNil(b.t, page.Next)
		q.After = *page.Next
	}
}

// TestSummaryCountsWhatTheListHas: for random filters, each group has as many dead letters as the filter and its key
// select in a plain count, and the groups add up.
func TestSummaryCountsWhatTheListHas(t *testing.T) {
	t.Parallel()
	b := setupBulk(t, nil)
	b.dead(3000, 3, 7)
	ctx, now := t.Context(), b.now()
	ids := make([]uuid.UUID, 0, 60)
	rows, err := b.pool.Query(ctx, `SELECT DISTINCT job_id FROM dead_letter`)
	require.NoError(t, err)
	for rows.Next() {
		var id uuid.UUID
		require.NoError(t, rows.Scan(&id))
		ids = append(ids, id)
	}
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 7))
		f := job.DeadFilter{}
		if r.IntN(3) == 0 {
			f.Job = ids[r.IntN(len(ids))]
		}
		if r.IntN(3) == 0 {
			f.Queue = fmt.Sprintf("queue-%d", 1+r.IntN(4))
		}
		if r.IntN(3) == 0 {
			f.Reason = []job.Reason{"rejected", "attempts", "lost"}[r.IntN(3)]
		}
		if r.IntN(3) == 0 {
			f.Cause = []string{"rejected-500-1", "attempts-500-4"}[r.IntN(2)]
		}
		if r.IntN(3) == 0 {
			f.FailedFrom = now.Add(-time.Duration(r.IntN(3000)) * time.Second)
			f.FailedBefore = f.FailedFrom.Add(time.Duration(r.IntN(2000)) * time.Second)
		}
		for _, by := range []job.DeadBy{job.DeadByCause, job.DeadByJob, job.DeadByReason, job.DeadByQueue} {
			q := job.DeadQueryBy{Namespace: bulkUUID(), By: by, DeadFilter: f}
			s, err := b.store.SummarizeDeadLetters(ctx, q)
			require.NoError(t, err)
			all, _, err := b.store.CountDeadLetters(ctx, bulkUUID(), f)
			require.NoError(t, err)
			require.Equal(t, all, s.Total, "seed %d by %s: %+v", seed, by, f)
			require.False(t, s.Partial)
			require.False(t, s.More)
			for i, g := range s.Groups {
				one := f
				switch by {
				case job.DeadByCause:
					one.Cause = g.Last.Cause
				case job.DeadByJob:
					one.Job = g.Last.Job
				case job.DeadByReason:
					one.Reason = g.Last.Reason
				case job.DeadByQueue:
					one.Queue = g.Last.Queue
				}
				counted, _, err := b.store.CountDeadLetters(ctx, bulkUUID(), one)
				require.NoError(t, err)
				require.Equal(t, counted, g.Count, "seed %d by %s: %+v", seed, by, one)
				require.Equal(t, b.lastDead(one).FailedAt, g.Last.FailedAt)
				sum := int64(0)
				for _, n := range g.Sparkline {
					sum += n
				}
				require.Equal(t, g.Count, sum)
				require.Positive(t, g.Sparkline[0], "the first failure")
				if g.Last.FailedAt.Sub(g.OldestAt) > time.Second {
					require.Positive(t, g.Sparkline[job.DeadSparkline-1], "the last failure")
				}
				require.True(t, i == 0 || s.Groups[i-1].Count >= g.Count, "the largest first")
			}
		}
	}
}

// TestSummaryIsBounded: however many dead letters and causes there are, it counts some of each and says so.
func TestSummaryIsBounded(t *testing.T) {
	t.Parallel()
	r := &recording{}
	b := setupBulk(t, r)
	b.dead(130_000, 2, 3)
	var s job.DeadSummary
	var err error
	summarize := func(by job.DeadBy) func() {
		return func() {
			s, err = b.store.SummarizeDeadLetters(t.Context(), job.DeadQueryBy{Namespace: bulkUUID(), By: by})
			require.NoError(t, err)
		}
	}
	sent := r.during(summarize(job.DeadByCause))
	require.True(t, s.More)
	require.False(t, s.Partial, "all causes are there")
	require.Len(t, s.Groups, 3)
	require.LessOrEqual(t, s.Total, int64(job.MaxDeadSummary))
	require.Greater(t, s.Total, int64(job.MaxDeadSummary*9/10))
	summarize(job.DeadByJob)()
	require.True(t, s.Partial)
	require.Len(t, s.Groups, 60)
	counted, more, err := b.store.CountDeadLetters(t.Context(), bulkUUID(), job.DeadFilter{})
	require.NoError(t, err)
	require.True(t, more)
	require.EqualValues(t, job.MaxDeadCount, counted)

	filter := job.DeadFilter{Cause: "attempts-500-2"}
	query := job.DeadQuery{Namespace: bulkUUID(), DeadFilter: filter, Limit: 10}
	sent = append(sent, r.during(func() {
		_, err := b.store.DeadLetters(t.Context(), query)
		require.NoError(t, err)
		_, _, err = b.store.CountDeadLetters(t.Context(), query.Namespace, filter)
		require.NoError(t, err)
		_, err = b.store.BeginOperation(t.Context(), job.OperationParams{
			Namespace: query.Namespace, Kind: job.Discard, Filter: filter, Rate: 10, Actor: "ann",
		})
		require.NoError(t, err)
		worked, err := b.store.WorkOperation(t.Context())
		require.NoError(t, err)
		require.True(t, worked)
	})...)
	for _, statistics := range []string{"never analysed", "analysed"} {
		ways := slices.DeleteFunc(b.explain(deadStatements(sent), "force_custom_plan"), func(way string) bool {
			// Of what was found, which is bounded. PostgreSQL 18 may skip queue_id in the index of causes instead.
			return strings.HasPrefix(way, "sort of") || way == "dead_letter by cause failed_at" || way == "merge join"
		})
		require.Equal(t, []string{
			"dead_letter by partition job_id due_at seq", "dead_letter by queue_id",
			"dead_letter by queue_id cause failed_at", "job by partition id", "queue", "run_history by job_id",
		}, ways, statistics)
		b.exec(`ANALYZE dead_letter`)
	}
	b.exec(`UPDATE dead_letter SET cause = 'attempts-500-' || md5(due_at::text) WHERE failed_at > now() - interval '1 h'`)
	summarize(job.DeadByCause)()
	require.True(t, s.Partial)
	require.Len(t, s.Groups, job.MaxDeadGroups)
}

// deadStatements returns the statements that read dead letters, with the settings of their transactions.
func deadStatements(sent []statement) (out []statement) {
	for _, s := range sent {
		if strings.Contains(s.sql, "set_config") || strings.HasPrefix(strings.TrimSpace(s.sql), "SELECT") &&
			strings.Contains(s.sql, "dead_letter") || strings.Contains(s.sql, "run_history") ||
			strings.Contains(s.sql, "RECURSIVE") {
			out = append(out, s)
		}
	}
	return out
}
