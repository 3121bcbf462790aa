package engine_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/pgtest"
	"github.com/belfry-dev/belfry/internal/schedule"
)

// wokenStore has sweeps that are gated, and reports each of them.
type wokenStore struct {
	*pgtest.Store
	begun chan job.SweepParams
	gate  chan struct{}
}

func (s *wokenStore) Sweep(ctx context.Context, in job.SweepParams) ([]job.Run, error) {
	if in.Limit == 0 {
		return nil, nil // the sweep finds nothing, so only a wake-up does
	}
	s.begun <- in
	select {
	case <-s.gate:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return s.Store.Sweep(ctx, in)
}

// Pending finds nothing that is due, so that overdue runs are not found either.
func (s *wokenStore) Pending(context.Context, []int16, time.Time) ([]job.Run, error) { return nil, nil }

func setupWoken(t *testing.T) (*bundle, *wokenStore) {
	t.Helper()
	b := setup(t)
	store := &wokenStore{b.store, make(chan job.SweepParams, 100), make(chan struct{})}
	b.engine.Planner = store
	return b, store
}

// A trigger starts when the engine is woken. Nothing else finds it here.
func TestAWakeStartsATrigger(t *testing.T) {
	t.Parallel()
	b, store := setupWoken(t)
	b.engine.WakeBack = time.Hour // the wake-up may be late
	close(store.gate)
	received := make(chan job.Attempt, 1)
	b.target.answer = func(a job.Attempt) job.Outcome { received <- a; return job.Outcome{Kind: job.Succeeded} }
	b.start(t)
	j := b.create(t, "triggered", schedule.Spec{Every: "24h"}, nil)
	key, err := b.store.TriggerJob(t.Context(), job.ChangeParams{Namespace: namespace, ID: j.ID, Actor: "test"}, nil)
	require.NoError(t, err)
	b.engine.Wake([]int16{j.Partition})
	select {
	case a := <-received:
		require.Equal(t, key.RunKey(), a.Key.RunKey())
	case <-time.After(time.Minute):
		t.Fatal("it did not start")
	}
}

// failingStore has sweeps of wake-ups that fail, and reports when each began.
type failingStore struct {
	*pgtest.Store
	begun chan time.Duration
}

func (s failingStore) Sweep(_ context.Context, in job.SweepParams) ([]job.Run, error) {
	if in.Limit == 0 {
		return nil, nil
	}
	s.begun <- clock.Elapsed()
	return nil, errors.New("broken on purpose")
}

// While the database fails, wake-ups do not shorten the pause between rounds.
func TestFailingWakesBackOff(t *testing.T) {
	t.Parallel()
	b := setup(t)
	store := failingStore{b.store, make(chan time.Duration, 100)}
	b.engine.Planner = store
	b.start(t)
	var begun []time.Duration
	for range 3 {
		b.engine.Wake([]int16{1})
		begun = append(begun, <-store.begun)
	}
	require.GreaterOrEqual(t, begun[2]-begun[0], 600*time.Millisecond, "the backoff is 200ms and then 400ms")
}

// However many wake-ups there are, they share one statement, which reads a bounded number of runs.
func TestWakesAreCollected(t *testing.T) {
	t.Parallel()
	b, store := setupWoken(t)
	b.start(t)
	b.engine.Wake([]int16{1})
	require.Equal(t, []int16{1}, (<-store.begun).Partitions, "the first does not wait for others")
	for range 10_000 {
		b.engine.Wake([]int16{2, 3})
	}
	close(store.gate)
	next := <-store.begun
	require.Equal(t, []int16{2, 3}, next.Partitions)
	require.Positive(t, next.Limit)
	require.Less(t, next.To.Sub(next.From), 10*time.Second)
	b.engine.Wake([]int16{4})
	require.Equal(t, []int16{4}, (<-store.begun).Partitions, "there was nothing left of the others")
}
