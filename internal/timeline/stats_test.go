package timeline_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/timeline"
)

func TestStats(t *testing.T) {
	t.Parallel()
	f := base()
	f.To = f.Now
	for h, status := range map[int]job.RunStatus{
		1: job.StatusSucceeded, 2: job.StatusFailed, 3: job.StatusSucceeded, 5: job.StatusSucceeded, 6: job.StatusRunning,
	} {
		f.Entries = append(f.Entries, ran(h, status))
	}
	f.Versions[0].Skips = []job.Skip{{From: ran(4, "").DueAt, To: ran(4, "").DueAt, Reason: job.ReasonMissed}}
	s := timeline.Build(f).Stats(func(time.Time) time.Duration { return 0 })
	require.EqualValues(t, 4, s.Runs())
	require.EqualValues(t, 1, s.Missed)
	require.EqualValues(t, 1, s.Live)
	rate, ok := s.SuccessRate()
	require.True(t, ok)
	require.InDelta(t, 0.75, rate, 0)
	require.Equal(t, timeline.State(job.StatusSucceeded), s.StreakState)
	require.EqualValues(t, 2, s.Streak, "what is missed or live between does not end it")
	require.Equal(t, ran(5, job.StatusSucceeded).EndedAt, s.LastSuccess)
	require.Equal(t, ran(2, job.StatusFailed).EndedAt, s.LastFailure)
	require.Equal(t, []time.Duration{time.Second, time.Second, time.Second, time.Second}, s.Durations)
	require.Len(t, s.Lateness, 5)
}

func TestPercentile(t *testing.T) {
	t.Parallel()
	_, ok := timeline.Percentile(nil, 50)
	require.False(t, ok)
	all := make([]time.Duration, 100)
	for i := range all {
		all[i] = time.Duration(i + 1)
	}
	for p, want := range map[int]time.Duration{0: 1, 1: 1, 50: 50, 95: 95, 100: 100} {
		got, _ := timeline.Percentile(all, p)
		require.Equal(t, want, got)
	}
	got, _ := timeline.Percentile(all[:1], 95)
	require.EqualValues(t, 1, got)
}
