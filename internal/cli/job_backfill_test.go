package cli

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// --wait waits until the runs of a backfill have ended, and prints how they ended.
func TestBackfillAndRedriveAreWaitedFor(t *testing.T) {
	t.Parallel()
	n := newWhyNode(t)
	n.Good("job", "create", "good", "--every", "1h", "--url", n.target+"/ok", "--overlap", "allow")
	n.Good("job", "create", "bad", "--every", "1h", "--url", n.target+"/rejects", "--overlap", "allow")
	n.Good("job", "create", "slow", "--every", "1h", "--url", n.target+"/hangs", "--overlap", "allow",
		"--timeout", "10m")
	day := []string{"--from", "2026-01-01", "--to", "2026-01-02", "--pace", "1ms"}
	backfill := func(name string, more ...string) []string {
		return append(append([]string{"job", "backfill", name}, day...), more...)
	}
	require.Equal(t, "would backfill 24 runs of good, due from 2026-01-01 00:00:00 to 2026-01-01 23:00:00 UTC\n",
		n.Good(backfill("good", "--dry-run")...))
	require.Equal(t, "backfilled 24 runs of good: 24 succeeded\n", n.Good(backfill("good", "--wait")...))
	require.Equal(t, "backfills 0 runs of good; 24 ran already, or are to run (--again)\n",
		n.Good(backfill("good", "--wait")...))
	s := n.Belfry("", backfill("bad", "--wait", "-o", "json")...)
	require.ErrorContains(t, s.Failure, "24 runs failed; belfry dlq list --job bad lists them")
	require.Contains(t, s.Out, `"failed": 24`)

	// Redrive is an operation of the server.
	require.Equal(t, "redrive: finished, 24 of 24 done, 0 failed\n",
		n.Good("dlq", "redrive", "--job", "bad", "--rate", "1000"))
	require.Equal(t, "no dead letters: there is nothing to discard\n", n.Good("dlq", "discard", "--job", "good"))
	require.Contains(t, n.Belfry("", "dlq", "list", "--job", "good").Err, "no dead letters")
	require.ErrorContains(t, n.Belfry("", "dlq", "list", "--job", "nobody").Failure,
		"there is no job nobody in your namespace")

	// Ctrl-C ends the waiting, and the command says so.
	ctx, cancel := context.WithCancel(t.Context())
	var errs bytes.Buffer
	root := New("test")
	root.SetOut(&errs)
	root.SetErr(&errs)
	root.SetArgs(append(backfill("slow", "--wait"), "--server", n.URL, "--key", n.Key))
	ended := make(chan error, 1)
	go func() { ended <- root.ExecuteContext(ctx) }()
	require.Eventually(t, func() bool {
		return strings.Count(n.Good("job", "runs", "slow", "--state", "running", "--limit", "0"), "slow@") == 24
	}, time.Minute, 50*time.Millisecond)
	cancel()
	err := <-ended
	require.ErrorContains(t, err, "no longer waited for; the runs go on at the server")
	require.Equal(t, 1, ExitCode(err))
	close(n.release)
}
