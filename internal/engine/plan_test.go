package engine

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/loop"
)

// backlog is a store in which one partition always has more to plan than a transaction takes.
type backlog struct {
	Planner
	now   time.Time
	heavy int16
	calls map[int16]int // by partition
	runs  []job.Run     // what is planned

	full []uuid.UUID // the namespaces of which the last call left out what is late

	missed, caughtUp []int16
	loadedUntil      time.Time
}

func (s *backlog) NextDue(_ context.Context, partitions []int16) (
	now time.Time, next map[int16]time.Time, missed []int16, err error,
) {
	next = map[int16]time.Time{}
	for _, p := range partitions {
		next[p] = s.now
	}
	return s.now, next, s.missed, nil
}

func (s *backlog) CatchUp(_ context.Context, in job.CatchUpParams) (job.CatchUpResult, error) {
	s.missed, s.caughtUp = nil, in.Partitions
	return job.CatchUpResult{}, nil
}

func (s *backlog) Pending(_ context.Context, _ []int16, until time.Time) ([]job.Run, error) {
	s.loadedUntil = until
	return nil, nil
}

func (s *backlog) Plan(_ context.Context, in job.PlanParams) (out job.Planned, _ error) {
	for _, p := range in.Partitions {
		s.calls[p]++
		out.More = out.More || p == s.heavy
	}
	out.Runs, s.full = s.runs, in.Full
	return out, nil
}

// ownsAll owns all partitions.
type ownsAll struct{ Member }

func (ownsAll) Session() uuid.UUID { return uuid.Nil }
func (ownsAll) Owns(int16) bool    { return true }

func (ownsAll) Owned() []int16 {
	out := make([]int16, job.Partitions)
	for i := range out {
		out[i] = int16(i)
	}
	return out
}

// While the database clock is in doubt, no loop touches the store. Here there is none, so it would fail.
func TestNoLoopWorksWhileTheClockIsInDoubt(t *testing.T) {
	t.Parallel()
	e := New(Options{
		Member: ownsAll{}, Bound: &clock.Bound{},
		More: loop.Group{{Name: "more", Once: func(context.Context) (time.Duration, error) { return 0, errors.New("called") }}},
	})
	loops := e.loops()
	require.GreaterOrEqual(t, len(loops), 8)
	for _, l := range loops {
		pause, err := l.Once(t.Context())
		require.NoError(t, err, l.Name)
		require.Equal(t, doubtPause, pause, l.Name)
	}
}

// A round of plan takes a part of every partition, and the next one follows at once while there is more.
func TestABacklogDoesNotDelayOtherPartitions(t *testing.T) {
	t.Parallel()
	s := &backlog{now: time.Unix(1_700_000_000, 0), heavy: 7, calls: map[int16]int{}}
	bound := &clock.Bound{}
	bound.Set(clock.Sample{Now: s.now, Mark: s.now})
	e := New(Options{
		Planner: s, Member: ownsAll{}, Bound: bound, LookAhead: time.Minute, Log: slog.New(slog.DiscardHandler),
	})
	for round := 1; round <= 3; round++ {
		pause, err := e.planOnce(t.Context())
		require.NoError(t, err)
		require.Zero(t, pause, "there is more")
		for p := range int16(job.Partitions) {
			require.Equal(t, round, s.calls[p], "partition %d", p)
		}
	}
	s.heavy = -1
	pause, err := e.planOnce(t.Context())
	require.NoError(t, err)
	require.Equal(t, planPause, pause)
}

// While enough runs wait in memory, a backlog stays in the database. Jobs that are on time are planned nevertheless.
func TestABacklogDoesNotFillTheMemory(t *testing.T) {
	t.Parallel()
	s := &backlog{now: time.Unix(1_700_000_000, 0), calls: map[int16]int{}}
	for i := range 3 {
		s.runs = append(s.runs, job.Run{Key: job.Key{DueAt: s.now.Add(time.Duration(i) * time.Second)}, RunAt: s.now})
	}
	bound := &clock.Bound{}
	bound.Set(clock.Sample{Now: s.now, Mark: s.now})
	e := New(Options{Planner: s, Member: ownsAll{}, Bound: bound, MaxUpcoming: 3})
	plan := func() []uuid.UUID {
		_, err := e.planOnce(t.Context())
		require.NoError(t, err)
		return s.full
	}
	require.Empty(t, plan())
	require.Len(t, plan(), 1, "three runs wait")
	e.wheel.Release(e.wheel.Take(s.now.Add(time.Minute), 1, e.slots.shares(1)))
	s.runs = nil
	require.Empty(t, plan())
}

// A partition may get a gap of service while its owner stays, for example by a doubt about the clock. Then plan notices
// it, and the runs are loaded as far ahead as those of a gained partition.
func TestPlanNoticesAGapOfService(t *testing.T) {
	t.Parallel()
	s := &backlog{now: time.Unix(1_700_000_000, 0), calls: map[int16]int{}, missed: []int16{3, 200}}
	bound := &clock.Bound{}
	bound.Set(clock.Sample{Now: s.now, Mark: s.now})
	e := New(Options{Planner: s, Member: ownsAll{}, Bound: bound})
	_, err := e.overdueOnce(t.Context())
	require.NoError(t, err)
	require.Empty(t, s.caughtUp, "it loads only what is overdue")
	for range 2 {
		_, err := e.planOnce(t.Context())
		require.NoError(t, err)
	}
	_, err = e.loadOnce(t.Context())
	require.NoError(t, err)
	require.Equal(t, []int16{3, 200}, s.caughtUp)
	require.False(t, s.loadedUntil.Before(s.now.Add(e.LookAhead)))
	s.caughtUp = nil
	_, err = e.planOnce(t.Context())
	require.NoError(t, err)
	_, err = e.loadOnce(t.Context())
	require.NoError(t, err)
	require.Empty(t, s.caughtUp, "once")
}
