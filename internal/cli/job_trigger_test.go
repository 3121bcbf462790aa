package cli

import (
	"bufio"
	"context"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/cli/clitest"
)

// TestTriggerWait: without a terminal, --wait prints lines while a run waits. Ctrl-C and --timeout end the waiting.
func TestTriggerWait(t *testing.T) {
	t.Parallel()
	a := clitest.New(t, New) // no node, so the run never starts
	a.Good("job", "create", "report", "--every", "1h", "--url", "https://example.com/x")
	err := a.Belfry("", "job", "trigger", "report", "--wait", "--timeout", "10ms").Failure
	require.ErrorContains(t, err, "--timeout 10ms: no longer waited for; the run continues on the server")
	require.ErrorContains(t, err, "belfry why run_")
	require.Equal(t, 1, ExitCode(err))
	for _, wrong := range [][]string{{"--timeout", "1s"}, {"--wait", "--timeout", "-1s"}, {"--wait", "--timeout", "0s"}} {
		err := a.Belfry("", append([]string{"job", "trigger", "report"}, wrong...)...).Failure
		require.ErrorContains(t, err, "--timeout limits how long --wait waits")
		require.Equal(t, 2, ExitCode(err))
	}

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	lines, w := io.Pipe()
	root := New("test")
	root.SetOut(io.Discard)
	root.SetErr(w)
	root.SetArgs([]string{"job", "trigger", "report", "--wait", "--server", a.URL, "--key", a.Key})
	ended := make(chan error, 1)
	go func() {
		ended <- root.ExecuteContext(ctx)
		_ = w.Close()
	}()
	in := bufio.NewReader(lines)
	line, err := in.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "ended: 0 of 1\n", line)
	cancel()
	_, err = io.Copy(io.Discard, in)
	require.NoError(t, err)
	require.ErrorIs(t, <-ended, errStillRuns)
}

// TestTriggerOnce: a key makes a trigger safe to repeat, and --if-idle refuses to wait.
func TestTriggerOnce(t *testing.T) {
	t.Parallel()
	a := clitest.New(t, New) // no node, so the run never starts
	a.Good("job", "create", "report", "--every", "1h", "--url", "https://example.com/x")
	trigger := []string{"job", "trigger", "report", "--if-idle", "--idempotency-key", "order-77", "-o", "name"}
	first := a.Good(trigger...)
	require.Equal(t, first, a.Good(trigger...))
	err := a.Belfry("", "job", "trigger", "report", "--if-idle").Failure
	require.ErrorContains(t, err, "the job is not idle: run_")
	require.Equal(t, 1, ExitCode(err))
	for _, wrong := range [][]string{
		{"--all", "--if-idle"}, {"a", "b", "--idempotency-key", "x"}, {"--all", "--idempotency-key", "x"},
	} {
		require.Equal(t, 2, ExitCode(a.Belfry("", append([]string{"job", "trigger"}, wrong...)...).Failure))
	}
}

func TestLastAttempt(t *testing.T) {
	t.Parallel()
	start := time.Unix(0, 0)
	end := start.Add(857 * time.Millisecond)
	v := runView{StartedAt: &start, EndedAt: &end, Attempt: 2}
	require.Equal(t, " in attempt 2, which took 857ms", v.lastAttempt())
	require.Empty(t, (&runView{EndedAt: &end}).lastAttempt(), "a skipped run has no attempt")
}
