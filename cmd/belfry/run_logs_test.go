package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/pgtest"
)

// TestRunLogs: what there is, then with -f what comes, through the next attempt to the end.
func TestRunLogs(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	a := apiOn(t, pool)
	store := pgtest.NewStore(pool)
	ctx := t.Context()
	a.good("job", "create", "backup", "--every", "1h", "--target", "noop")
	a.good("job", "trigger", "backup")
	o := job.Output{Namespace: access.DefaultNamespace, Attempt: 1, Text: "one\n", Total: 104}
	require.NoError(t, pool.QueryRow(ctx, `UPDATE run SET state = 1, attempt = 1, claimed_at = now() WHERE seq > 0 RETURNING partition, job_id, due_at, seq`).
		Scan(&o.Key.Partition, &o.Key.Job, &o.Key.DueAt, &o.Key.Seq))
	id := job.FormatRunID(o.Key)
	require.Empty(t, a.good("run", "logs", id))
	n, err := store.WriteOutputs(ctx, []job.Output{o})
	require.NoError(t, err)
	require.Equal(t, 1, n)
	s := a.belfry("", "run", "logs", id)
	require.NoError(t, s.failure)
	require.Equal(t, "one\n", s.out)
	require.Contains(t, s.err, "100 bytes before this are gone")
	require.Contains(t, a.good("run", "logs", id, "-o", "json"), `"live": true`)

	done := make(chan said, 1)
	go func() { done <- a.belfry("", "run", "logs", "-f", id) }()
	complete := func(attempt int16, out job.Outcome) {
		_, fenced, err := store.CompleteDecided(ctx, []job.Completion{{Key: o.Key, Attempt: attempt, Outcome: out}})
		require.NoError(t, err)
		require.Zero(t, fenced)
	}
	complete(1, job.Outcome{Kind: job.Failed, Retryable: true, Output: "one\ntwo\n", OutputTotal: 108})
	_, err = pool.Exec(ctx, `UPDATE run SET state = 1, attempt = 2, claimed_at = now()`)
	require.NoError(t, err)
	complete(2, job.Outcome{Kind: job.Succeeded, Output: "three\n", OutputTotal: 6})
	select {
	case s := <-done:
		require.NoError(t, s.failure)
		// How much of the first attempt it saw depends on when it asked first.
		require.Regexp(t, `^(one\ntwo\n)?three\n$`, s.out)
	case <-time.After(time.Minute):
		t.Fatal("it does not end")
	}
	require.Equal(t, "one\ntwo\n", a.good("run", "logs", "--attempt", "1", id))
}
