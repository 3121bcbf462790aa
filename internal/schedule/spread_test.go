package schedule_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/schedule"
)

func TestSpreadReplacesMinuteZero(t *testing.T) {
	t.Parallel()
	for cron, want := range map[string]string{
		"0 * * * *": "H * * * *", "00 2 * * MON": "H 2 * * MON", "30 0 2 * * *": "30 H 2 * * *",
		"@hourly": "H * * * *", "@DAILY": "H 0 * * *", "@weekly": "H 0 * * 0",
		"5 * * * *": "", "0,30 * * * *": "", "*/15 * * * *": "", "H 2 * * *": "", "": "", "0": "",
	} {
		spec, ok := schedule.Spec{Cron: cron, Timezone: "Europe/Berlin"}.Spread()
		if want == "" {
			require.False(t, ok, cron)
			require.Equal(t, cron, spec.Cron)
			continue
		}
		require.True(t, ok, cron)
		require.Equal(t, schedule.Spec{Cron: want, Timezone: "Europe/Berlin"}, spec)
		at, err := schedule.New(spec, "a")
		require.NoError(t, err)
		next, err := at.Next(time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC))
		require.NoError(t, err)
		require.NotZero(t, next.Minute(), "the hash of a is another minute")
	}
}
