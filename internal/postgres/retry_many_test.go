package postgres_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
)

// TestManyRetriesTakeOneStatement: a target that is busy defers many runs at once, and that must not cost the database a
// statement for each. Each run has what was decided about it, and not about its neighbour in the statement.
func TestManyRetriesTakeOneStatement(t *testing.T) {
	t.Parallel()
	r := &recording{}
	b := setupBulk(t, r)
	b.shared(120)
	b.exec(`UPDATE job SET policy = '{"retry":{"max_attempts":5,"backoff":"none"}}'`)
	b.pending(1)
	outcome := func(i int) job.Outcome {
		if i%2 == 0 {
			wait := time.Duration(i+1) * time.Minute
			return job.Outcome{Kind: job.Deferred, Message: fmt.Sprint("busy ", i), RetryAfter: wait}
		}
		return job.Outcome{Kind: job.Failed, Retryable: true, Message: fmt.Sprint("failed ", i)}
	}
	decide := func(done []job.Completion) (retries []job.Run, statements int) {
		sent := r.during(func() {
			var fenced int
			var err error
			retries, fenced, err = b.store.CompleteDecided(t.Context(), done)
			require.NoError(t, err)
			require.Zero(t, fenced)
		})
		return retries, len(sent)
	}
	keys := b.keys(120)
	few := b.claim(keys[:10])
	many := b.claim(keys[10:])
	all := map[job.RunKey]job.Outcome{}
	for _, done := range [][]job.Completion{few, many} {
		for i := range done {
			done[i].Outcome = outcome(len(all))
			all[done[i].Key.RunKey()] = done[i].Outcome
		}
	}
	from := b.now()
	first, statements := decide(few)
	second, more := decide(many)
	require.Equal(t, statements, more, "statements for 10 runs and for 110")

	require.Len(t, append(first, second...), 120)
	to := b.now()
	for _, run := range append(first, second...) {
		o := all[run.RunKey()]
		var reason, failure string
		var at time.Time
		require.NoError(t, b.pool.QueryRow(t.Context(), `
SELECT coalesce(deferred_reason, ''), coalesce(attempts -> 0 ->> 'message', ''), run_at FROM run
WHERE job_id = $1 AND state = 0 AND session_id IS NULL AND attempt = 1 AND coalesce(free_attempts, 0) = $2`,
			run.Job, run.FreeAttempts).Scan(&reason, &failure, &at))
		require.Equal(t, at, run.RunAt)
		require.Equal(t, o.Message, reason+failure)
		require.Equal(t, o.Kind == job.Deferred, failure == "")
		require.Equal(t, o.Kind == job.Deferred, run.FreeAttempts == 1)
		if o.Kind == job.Deferred {
			require.WithinRange(t, at.Add(-o.RetryAfter), from, to)
		}
	}
}
