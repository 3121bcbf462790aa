package clock_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/clock"
)

func TestTrust(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 3, 8, 2, 30, 0, 0, time.UTC)
	// What each clock shows, as an offset from start.
	type step struct{ database, elapsed, wall, jump time.Duration }
	const s, h = time.Second, time.Hour
	for name, steps := range map[string][]step{
		"all agree":                      {{0, 0, 0, 0}, {s, s, s, 0}, {h, h, h, 0}},
		"a node whose wall clock is off": {{0, 0, -5 * h, 0}, {s, s, -5 * h, 0}},
		"its wall clock jumps":           {{0, 0, 0, 0}, {s, s, 7 * h, 0}, {2 * s, 2 * s, -7 * h, 0}},
		"a slow answer":                  {{0, 0, 0, 0}, {s, 20 * s, 20 * s, 0}},
		"a little off each time":         {{0, 0, 0, 0}, {20 * s, 0, 0, 0}, {40 * s, 0, 0, 0}},
		"an hour ahead, and it stays":    {{0, 0, 0, 0}, {h + s, s, s, h}, {h + 60*s, 60 * s, 60 * s, h}},
		"an hour ahead, then put right": {
			{0, 0, 0, 0}, {h + s, s, s, h}, {60 * s, 60 * s, 60 * s, 0}, {61 * s, 61 * s, 61 * s, 0},
		},
		"a year ahead":                    {{0, 0, 0, 0}, {8760*h + s, s, s, 8760 * h}},
		"an hour back":                    {{0, 0, 0, 0}, {-h + s, s, s, -h}},
		"it was wrong and is put right":   {{h, 0, 0, 0}, {s, s, s, 0}, {2 * s, 2 * s, 2 * s, 0}},
		"the machine slept, and knows it": {{0, 0, 0, 0}, {h, s, h, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var trust clock.Trust
			for i, step := range steps {
				got := trust.Judge(clock.Reading{
					Database: start.Add(step.database), Elapsed: step.elapsed, Wall: start.Add(step.wall),
				})
				require.Equal(t, step.jump, got, "reading %d", i)
			}
		})
	}
}

func TestBoundTellsOfAJump(t *testing.T) {
	t.Parallel()
	var b clock.Bound
	now := clock.Now()
	b.Set(now)
	require.Zero(t, b.Jump())
	b.Set(now.Add(time.Hour))
	require.InDelta(t, time.Hour, b.Jump(), float64(time.Minute))
	b.Set(now.Add(-time.Hour))
	require.InDelta(t, -time.Hour, b.Jump(), float64(time.Minute))
	require.True(t, b.Now().Before(now), "nothing is early after it went back")
	b.Set(now)
	require.Zero(t, b.Jump())
}
