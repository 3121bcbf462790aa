package engine

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/job"
)

// fakeLeases has attempts that are leased to the node, and those that the node ended.
type fakeLeases struct {
	Completer
	leased, ended []job.Completion
	asked         int
	meanwhile     func()
}

func (f *fakeLeases) Leased(context.Context, uuid.UUID, int) ([]job.Completion, error) {
	f.asked++
	leased := slices.Clone(f.leased)
	if f.meanwhile != nil {
		f.meanwhile()
	}
	return leased, nil
}

func (f *fakeLeases) CompleteDecided(_ context.Context, done []job.Completion) ([]job.Run, int, error) {
	f.ended = append(f.ended, done...)
	return nil, 0, nil
}

func (ownsOne) Session() uuid.UUID { return uuid.Nil }

// TestFailedOver: after a failover that may have lost writes, the node once ends the attempts that it does not know and
// loads the runs of its partitions.
func TestFailedOver(t *testing.T) {
	t.Parallel()
	bound := &clock.Bound{}
	at := time.Date(2027, 1, 31, 9, 0, 0, 0, time.UTC)
	bound.Set(clock.Sample{Now: at, Mark: at})
	known := job.Completion{Key: job.Key{Partition: 1, Job: uuid.New(), DueAt: at}, Attempt: 1}
	forgotten := job.Completion{Key: job.Key{Partition: 1, Job: uuid.New(), DueAt: at}, Attempt: 1}
	f := &fakeLeases{leased: []job.Completion{known, forgotten}}
	e := New(Options{Leases: f, Completer: f, Member: ownsOne{}, Bound: bound, Log: slog.New(slog.DiscardHandler)})
	require.True(t, e.inFlight.add(job.Attempt{Key: known.Key, Number: 1}))

	e.FailedOver(job.Failover{Synchronous: true})
	require.NoError(t, e.rescueForgotten(t.Context()))
	require.Zero(t, f.asked, "nothing is lost")
	e.FailedOver(job.Failover{})
	for range 2 {
		require.NoError(t, e.rescueForgotten(t.Context()))
	}
	require.Equal(t, 2, f.asked, "what it finds has to be leased a moment later too")
	require.Equal(t, []job.Completion{forgotten}, f.ended)
	require.Equal(t, []int16{1}, e.loads.due(at.Add(time.Hour)))
}

// TestAnAttemptThatIsClaimedAgainIsNotForgotten: a failover lost a claim, and the node claims the run again while it
// delivers the first attempt. It delivers it once. If the outcome was written before the second claim, it was fenced, and
// the run is leased to a node that has no attempt of it.
func TestAnAttemptThatIsClaimedAgainIsNotForgotten(t *testing.T) {
	t.Parallel()
	a := job.Attempt{Key: job.Key{Partition: 1, Job: uuid.New()}, Number: 1}
	done := job.Completion{Key: a.Key, Attempt: 1}
	f := &fakeLeases{leased: []job.Completion{done}}
	e := New(Options{
		Leases: f, Completer: f, Member: ownsOne{}, Bound: &clock.Bound{}, Slots: 1, Log: slog.New(slog.DiscardHandler),
	})
	require.Equal(t, 1, e.handOver([]job.Attempt{a}))
	require.Zero(t, e.handOver([]job.Attempt{a}))
	require.NoError(t, e.rescueForgotten(t.Context()))
	require.Zero(t, f.asked, "its outcome is not written yet")
	e.forget(&[]job.Completion{done})
	for range 2 {
		require.NoError(t, e.rescueForgotten(t.Context()))
	}
	require.Equal(t, 2, f.asked)
	require.Equal(t, []job.Completion{done}, f.ended)
}

// TestAnAttemptThatEndsWhileItIsLookedForIsNotForgotten: its run may be live, because the target has accepted it. It may
// even have begun after the search did.
func TestAnAttemptThatEndsWhileItIsLookedForIsNotForgotten(t *testing.T) {
	t.Parallel()
	a := job.Attempt{Key: job.Key{Partition: 1, Job: uuid.New()}, Number: 1}
	accepted := job.Completion{Key: a.Key, Attempt: 1}
	f := &fakeLeases{leased: []job.Completion{accepted}}
	e := New(Options{
		Leases: f, Completer: f, Member: ownsOne{}, Bound: &clock.Bound{}, Slots: 1, Log: slog.New(slog.DiscardHandler),
	})
	f.meanwhile = func() {
		e.handOver([]job.Attempt{a})
		e.forget(&[]job.Completion{accepted})
		f.leased, f.meanwhile = nil, nil
	}
	e.FailedOver(job.Failover{})
	require.NoError(t, e.rescueForgotten(t.Context()))
	require.Empty(t, f.ended)
}
