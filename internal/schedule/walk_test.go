package schedule_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/schedule"
)

// TestAll: pages do not show, also where two occurrences share a due time at the end of a page.
func TestAll(t *testing.T) {
	t.Parallel()
	// The readings from 02:00 to 02:59 of 8 March do not exist. They are one skipped occurrence at 03:00, where another
	// one fires.
	spec := schedule.Spec{Cron: "* 0-22 * * *", Timezone: "America/New_York", DST: schedule.DST{Gap: schedule.GapSkip}}
	s, err := schedule.New(spec, "")
	require.NoError(t, err)
	gap := time.Date(2026, 3, 8, 7, 0, 0, 0, time.UTC)
	atEnd := false
	for before := 560; before < 580; before++ {
		from, to := gap.Add(-time.Duration(before)*time.Minute), gap.Add(600*time.Minute)
		var got []schedule.Occurrence
		for o := range s.All(from, to) {
			got = append(got, o)
		}
		want := s.Between(from, to, 10_000)
		require.Equal(t, want, got, before)
		shared := slices.IndexFunc(want, func(o schedule.Occurrence) bool { return o.Skip == schedule.ReasonGap })
		require.Equal(t, want[shared].Due, want[shared+1].Due)
		atEnd = atEnd || shared == 511
	}
	require.True(t, atEnd, "one of the walks has them at the end of a page")
	for range s.All(gap, gap.Add(time.Hour)) {
		break // stops without a panic
	}
}

func TestAround(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 6, 15, 12, 0, 0, 0, time.UTC)
	for name, tc := range map[string]struct {
		spec          schedule.Spec
		before, after time.Time
	}{
		"hourly, at an occurrence": {schedule.Spec{Every: "1h"}, at.Add(-time.Hour), at.Add(time.Hour)},
		"yearly": {
			schedule.Spec{Cron: "0 0 1 1 *"},
			time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
			time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC),
		},
		"one-off in the past": {schedule.Spec{At: "2020-01-01T00:00:00Z"}, time.Unix(1577836800, 0).UTC(), time.Time{}},
		"one-off in the future": {
			schedule.Spec{At: "2030-01-01T00:00:00Z"}, time.Time{}, time.Unix(1893456000, 0).UTC(),
		},
		"not on excluded days": {
			schedule.Spec{
				Cron: "0 0 * * *", Calendars: []schedule.Calendar{{Dates: []string{"2026-06-15", "2026-06-16"}}},
			},
			time.Date(2026, 6, 14, 0, 0, 0, 0, time.UTC), time.Date(2026, 6, 17, 0, 0, 0, 0, time.UTC),
		},
	} {
		s, err := schedule.New(tc.spec, "")
		require.NoError(t, err, name)
		before, after := s.Around(at)
		require.Equal(t, tc.before, before, name)
		require.Equal(t, tc.after, after, name)
	}
}
