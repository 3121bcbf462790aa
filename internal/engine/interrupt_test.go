package engine_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/schedule"
)

var namespace = access.DefaultNamespace

// live returns the key of the only live run.
func (b *bundle) live(t *testing.T) (k job.Key) {
	t.Helper()
	b.eventually(t, "claimed", `SELECT count(*) FROM run WHERE state = 1`, 1)
	const query = `SELECT partition, job_id, due_at, seq FROM run WHERE state = 1`
	require.NoError(t, b.pool.QueryRow(t.Context(), query).Scan(&k.Partition, &k.Job, &k.DueAt, &k.Seq))
	return k
}

// A run that is cancelled after its claim and before its run time does not start.
func TestCancelBeforeTheStart(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.engine.Lead = 2 * time.Minute
	due := b.bound.Now().Add(20 * time.Second).Truncate(time.Second) // long enough for a slow machine
	b.create(t, "claimed ahead", schedule.Spec{At: due.UTC().Format(time.RFC3339)}, nil)
	stop := b.start(t)
	k := b.live(t)
	attempt, err := b.store.CancelRun(t.Context(), job.RunParams{Namespace: namespace, Key: k, Actor: "test"})
	require.NoError(t, err)
	require.True(t, b.engine.Interrupt(k, attempt))
	require.Positive(t, b.bound.Until(due), "in time")
	stop() // waits for what was claimed
	require.Zero(t, b.target.count())
}

// A run can be cancelled through a node that does not deliver it.
func TestCancelThroughAnotherNodeInterrupts(t *testing.T) {
	t.Parallel()
	b := setup(t)
	slow := &slowTarget{release: make(chan struct{})}
	b.engine.Targets["slow"] = slow
	b.start(t)
	b.create(t, "slow", schedule.Spec{At: "2026-01-01T00:00:00Z"}, func(d *job.Definition) { d.Target.Kind = "slow" })
	_, err := b.store.CancelRun(t.Context(), job.RunParams{Namespace: namespace, Key: b.live(t), Actor: "test"})
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		slow.mu.Lock()
		defer slow.mu.Unlock()
		return slow.most == 1 && slow.now == 0
	}, time.Minute, 20*time.Millisecond, "the attempt ends before its timeout")
	b.eventually(t, "ended once", `SELECT count(*) FROM run_history WHERE ended = 3`, 1)
}

// A run that replaces another one ends the attempt of that one too.
func TestReplacedAttemptsAreInterrupted(t *testing.T) {
	t.Parallel()
	b := setup(t)
	slow := &slowTarget{release: make(chan struct{})}
	b.engine.Targets["slow"] = slow
	b.start(t)
	b.create(t, "slow", schedule.Spec{Every: "1s"}, func(d *job.Definition) {
		d.Target.Kind, d.Overlap = "slow", job.OverlapReplace
	})
	b.eventually(t, "replaced", `SELECT least(count(*), 2) FROM run_history WHERE ended = 3`, 2)
	require.Eventually(t, func() bool {
		slow.mu.Lock()
		defer slow.mu.Unlock()
		return slow.now == 1
	}, time.Minute, 20*time.Millisecond, "only the newest is still in flight")
	close(slow.release)
	b.eventually(t, "the newest succeeds", `SELECT least(count(*), 1) FROM run_history WHERE ended = 1`, 1)
}
