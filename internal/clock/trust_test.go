package clock_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/clock"
)

// What each clock shows, as an offset from start. No mark: none.
type step struct {
	database, elapsed, wall time.Duration
	mark                    time.Duration
	doubt                   string // part of it; empty: trusted
	vouch                   bool
}

const (
	s, h, d = time.Second, time.Hour, 24 * time.Hour
	year    = 365 * d
	none    = -100 * year
)

func TestTrust(t *testing.T) {
	t.Parallel()
	for name, steps := range map[string][]step{
		// A node that runs. Renewals move the mark.
		"all agree": {
			{0, 0, 0, 0, "", false},
			{s, s, s, 0, "", false},
			{h, h, h, h - s, "", false},
		},
		"a node whose wall clock is off": {{0, 0, -5 * h, 0, "", false}, {s, s, -5 * h, 0, "", false}},
		"its wall clock jumps": {
			{0, 0, 0, 0, "", false}, {s, s, 7 * h, 0, "", false}, {2 * s, 2 * s, -7 * h, s, "", false},
		},
		"a slow answer":  {{0, 0, 0, 0, "", false}, {s, 20 * s, 20 * s, 0, "", false}},
		"a little ahead": {{0, 0, 0, 0, "", false}, {20 * s, 0, 0, 0, "", true}},
		"a little back":  {{0, 0, 0, 0, "", false}, {-20 * s, 0, 0, 0, "", true}},
		"an hour ahead, and it stays": {
			{0, 0, 0, 0, "", false},
			{h + s, s, s, 0, "1h0m0s ahead", false},
			{h + 60*s, 60 * s, 60 * s, 0, "1h0m0s ahead", false},
		},
		"an hour ahead, then put right": {
			{0, 0, 0, 0, "", false},
			{h + s, s, s, 0, "1h0m0s ahead", false},
			{60 * s, 60 * s, 60 * s, 0, "", true},
			{61 * s, 61 * s, 61 * s, 60 * s, "", false},
		},
		"a year ahead": {{0, 0, 0, 0, "", false}, {year + s, s, s, 0, "8760h0m0s ahead of the time expected", false}},
		"an hour back": {{0, 0, 0, 0, "", false}, {-h + s, s, s, 0, "1h0m0s behind the time expected", false}},
		"an outage":    {{0, 0, 0, 0, "", false}, {h, h, h, 0, "", true}},
		"a long outage, and a node whose wall clock is off": {
			{0, 0, -5 * h, 0, "", false},
			{d, d, d - 5*h, 0, "", true},
		},
		"another node trusts the new time": {
			{0, 0, 0, 0, "", false}, {h + s, s, s, 0, "1h0m0s ahead", false}, {h + 2*s, 2 * s, 2 * s, h, "", false},
		},
		"it was wrong and is put right": {
			{h, 0, 0, h, "", false},
			{s, s, s, h, "", true},
			{2 * s, 2 * s, 2 * s, s, "", false},
		},
		"the machine slept, and knows it": {{0, 0, 0, 0, "", false}, {5 * d, s, 5 * d, 0, "", true}},
		"one machine, a year ahead": {
			{0, 0, 0, 0, "", false},
			{year, s, year, 0, "8760h0m0s after the last time", false},
		},
		"one machine, a year back": {
			{0, 0, 0, 0, "", false},
			{-year, s, -year, 0, "8760h0m0s before the last time", false},
		},
		"one machine, a year ahead, and right": {
			{0, 0, 0, 0, "", false}, {year, s, year, 0, "8760h0m0s after", false}, {60 * s, 60 * s, 60 * s, 0, "", true},
		},

		// A node that starts.
		"first of all":                          {{0, 0, 0, none, "", true}},
		"first of all, and the clocks disagree": {{h, 0, 0, none, "1h0m0s ahead of this machine's", false}},
		"start after a weekend":                 {{3 * d, 0, 3 * d, 0, "", true}},
		"start after a month":                   {{30 * d, 0, 30 * d, 0, "720h0m0s after the last time", false}},
		"start after a month, confirmed": {
			{30 * d, 0, 30 * d, 0, "after", false},
			{30*d + s, s, 30*d + s, 30 * d, "", false},
		},
		"start, a year ahead":                    {{year, 0, 0, 0, "8760h0m0s ahead of this machine's", false}},
		"start, an hour back":                    {{-h, 0, 0, 0, "1h0m0s behind this machine's", false}},
		"start, an hour ahead, then put right":   {{h, 0, 0, 0, "ahead", false}, {2 * s, 2 * s, 2 * s, 0, "", false}},
		"start with a wrong wall clock, alone":   {{h, 0, 2 * h, 0, "1h0m0s behind this machine's", false}},
		"start with a wrong wall clock, in time": {{h, 0, 2 * h, h - s, "", false}},
		"start with a wrong clock, confirmed": {
			{h, 0, 0, 0, "ahead", false},
			{h + s, s, s, h, "", false},
			{h + 2*s, 2 * s, 2 * s, h, "", false},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var trust clock.Trust
			for i, step := range steps {
				got := trust.Judge(reading(step))
				if step.doubt == "" {
					require.Equal(t, clock.Verdict{Vouch: step.vouch}, got, "reading %d", i)
				} else {
					require.Contains(t, got.Doubt, step.doubt, "reading %d", i)
					require.Contains(t, got.Doubt, "belfry clock confirm")
					require.False(t, got.Vouch)
				}
			}
		})
	}
}

func reading(x step) clock.Reading {
	start := time.Date(2026, 3, 8, 2, 30, 0, 0, time.UTC)
	r := clock.Reading{Elapsed: x.elapsed, Wall: start.Add(x.wall), Sample: clock.Sample{Now: start.Add(x.database)}}
	if x.mark != none {
		r.Mark = start.Add(x.mark)
	}
	return r
}

func TestBoundInDoubt(t *testing.T) {
	t.Parallel()
	var b clock.Bound
	require.NotEmpty(t, b.Doubt(), "a clock that was never read is not trusted")
	now := clock.Now()
	set := func(at time.Time) clock.Verdict { return b.Set(clock.Sample{Now: at, Mark: now}) }
	require.Empty(t, set(now).Doubt)
	require.Empty(t, b.Doubt())
	require.Contains(t, set(now.Add(time.Hour)).Doubt, "ahead")
	require.NotEmpty(t, b.Doubt())
	require.WithinDuration(t, clock.Now(), b.Now(), time.Minute, "nothing is early by a clock that is in doubt")
	require.Contains(t, set(now.Add(-time.Hour)).Doubt, "behind")
	require.True(t, b.Now().Before(now.Add(-time.Minute)), "nothing is early after it went back")
	set(now)
	require.Empty(t, b.Doubt())
	require.WithinDuration(t, clock.Now(), b.Now(), time.Minute)

	var fresh clock.Bound
	fresh.Set(clock.Sample{Now: now.Add(time.Hour), Mark: now})
	require.NotEmpty(t, fresh.Doubt())
	require.Zero(t, fresh.Now(), "nothing is due by a clock that was never trusted")
}
