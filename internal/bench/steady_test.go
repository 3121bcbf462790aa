package bench

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/schedule"
)

// TestSteadySchedulesAreEven: each second of the period has the same number of jobs, and the schedules agree with the
// computed due times.
func TestSteadySchedulesAreEven(t *testing.T) {
	t.Parallel()
	from := time.Date(2026, 3, 1, 12, 0, 0, 1, time.UTC)
	for _, o := range []Options{
		{Jobs: 10_000, Rate: 100},
		{Jobs: 10_000, Rate: 100, Schedules: 1000},
		{Jobs: 10_000, Rate: 333},
		{Jobs: 50, Rate: 50},
	} {
		t.Run(fmt.Sprintf("%d at %d on %d", o.Jobs, o.Rate, o.Schedules), func(t *testing.T) {
			t.Parallel()
			l := newSteadySchedules(o)
			require.InEpsilon(t, o.Rate, l.rate(o.Jobs), 0.02)
			perSecond := map[time.Time]int{}
			for _, e := range l.expected(from, from.Add(time.Duration(l.period)*time.Second)) {
				perSecond[e.DueAt]++
			}
			require.Len(t, perSecond, l.period)
			for at, n := range perSecond {
				require.Equal(t, l.count/l.period, n, at)
			}
			keys := map[string]bool{}
			for i, c := range l.cursors(from) {
				s, err := schedule.New(c.Schedule, "")
				require.NoError(t, err)
				next, err := s.Next(from.Add(-time.Nanosecond))
				require.NoError(t, err)
				require.True(t, next.Equal(c.Next), "schedule %d: %s and %s", i, next, c.Next)
				keys[fmt.Sprint(s.Key(), c.Missed)] = true
			}
			require.Len(t, keys, l.count, "distinct")
		})
	}
}
