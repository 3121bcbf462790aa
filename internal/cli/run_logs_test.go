package cli

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/cli/clitest"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/pgtest"
)

// TestRunLogs checks what run logs prints, and that -f follows through the next attempt to the end.
func TestRunLogs(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	a := clitest.On(t, New, pool)
	store := pgtest.NewStore(pool)
	ctx := t.Context()
	a.Good("job", "create", "backup", "--every", "1h", "--target", "noop")
	a.Good("job", "trigger", "backup")
	o := job.Output{Namespace: access.DefaultNamespace, Session: uuid.New(), Attempt: 1, Text: "one\n", Total: 104}
	require.NoError(t, pool.QueryRow(ctx, `
UPDATE run SET state = 1, attempt = 1, session_id = $1, claimed_at = now() WHERE seq > 0
RETURNING partition, job_id, due_at, seq`, o.Session).
		Scan(&o.Key.Partition, &o.Key.Job, &o.Key.DueAt, &o.Key.Seq))
	id := job.FormatRunID(o.Key)
	require.Empty(t, a.Good("run", "logs", id))
	n, err := store.WriteOutputs(ctx, []job.Output{o})
	require.NoError(t, err)
	require.Equal(t, 1, n)
	s := a.Belfry("", "run", "logs", id)
	require.NoError(t, s.Failure)
	require.Equal(t, "one\n", s.Out)
	require.Contains(t, s.Err, "100 bytes before this are gone")
	require.Contains(t, a.Good("run", "logs", id, "-o", "json"), `"live": true`)

	done := make(chan clitest.Output, 1)
	go func() { done <- a.Belfry("", "run", "logs", "-f", id) }()
	complete := func(attempt int16, out job.Outcome) {
		_, fenced, err := store.CompleteDecided(ctx, []job.Completion{
			{Key: o.Key, Session: o.Session, Attempt: attempt, Outcome: out},
		})
		require.NoError(t, err)
		require.Zero(t, fenced)
	}
	complete(1, job.Outcome{Kind: job.Failed, Retryable: true, Output: "one\ntwo\n", OutputTotal: 108})
	_, err = pool.Exec(ctx, `UPDATE run SET state = 1, attempt = 2, session_id = $1, claimed_at = now()`, o.Session)
	require.NoError(t, err)
	complete(2, job.Outcome{Kind: job.Succeeded, Output: "three\n", OutputTotal: 6})
	select {
	case s := <-done:
		require.NoError(t, s.Failure)
		// How much of the first attempt it printed depends on when it started.
		require.Regexp(t, `^(one\ntwo\n)?three\n$`, s.Out)
	case <-time.After(time.Minute):
		t.Fatal("it does not end")
	}
	require.Equal(t, "one\ntwo\n", a.Good("run", "logs", "--attempt", "1", id))
}
