package schedule_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/schedule"
)

func TestClockChanges(t *testing.T) {
	t.Parallel()
	changes := func(zone, from string) (out []schedule.ClockChangeLine) {
		s, err := schedule.New(schedule.Spec{Cron: "0 2 * * *", Timezone: zone}, "")
		require.NoError(t, err)
		at, err := time.Parse(time.RFC3339, from)
		require.NoError(t, err)
		for _, c := range s.ClockChanges(at, 2) {
			require.NotEqual(t, c.Before, c.After)
			out = append(out, c.JSON())
		}
		return out
	}
	utc := func(s string) time.Time {
		at, err := time.Parse(time.RFC3339, s)
		require.NoError(t, err)
		return at
	}
	spring := schedule.ClockChangeLine{
		At: utc("2026-03-29T01:00:00Z"), Local: "2026-03-29T03:00:00+02:00", Before: "+01:00", After: "+02:00",
	}
	autumn := schedule.ClockChangeLine{
		At: utc("2026-10-25T01:00:00Z"), Local: "2026-10-25T02:00:00+01:00", Before: "+02:00", After: "+01:00",
	}
	require.Equal(t, []schedule.ClockChangeLine{spring, autumn}, changes("Europe/Berlin", "2026-01-01T00:00:00Z"))
	require.Equal(t, autumn, changes("Europe/Berlin", "2026-03-29T01:00:00Z")[0])
	require.Equal(t, spring, changes("Europe/Berlin", "2026-03-29T00:59:59Z")[0])
	// After the end of the zone's table the rule goes on, also over the ends of leap years.
	far := changes("Europe/Berlin", "2048-12-31T12:00:00Z")
	require.Len(t, far, 2)
	require.Equal(t, "2049-03-28T03:00:00+02:00", far[0].Local)
	require.Empty(t, changes("UTC", "2026-01-01T00:00:00Z"))
	require.Empty(t, changes("Asia/Kolkata", "2026-01-01T00:00:00Z"))
}
