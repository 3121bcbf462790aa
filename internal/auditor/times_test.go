package auditor

import (
	"encoding/json"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/ledger"
	"github.com/belfry-dev/belfry/internal/schedule"
)

func versionOf(t *testing.T, spec schedule.Spec, from time.Time) ledger.Version {
	t.Helper()
	text, err := json.Marshal(map[string]any{"schedule": spec})
	require.NoError(t, err)
	v, err := NewVersion(1, from, text)
	require.NoError(t, err)
	return v
}

// TestTimesOfBothKinds: the oracle and the product agree on random windows, also around start_at and end_at, and what
// the oracle does not know is computed by the product.
func TestTimesOfBothKinds(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 10, 20, 7, 0, 0, 500, time.UTC)
	for _, test := range []struct {
		spec   schedule.Spec
		oracle bool
	}{
		{schedule.Spec{Cron: "30 2 * * *", Timezone: "Europe/Berlin"}, true},
		{schedule.Spec{Cron: "*/5 * * * * *", StartAt: start, EndAt: start.Add(3 * time.Hour)}, true},
		{schedule.Spec{Cron: "@hourly", Timezone: "Asia/Kolkata"}, true},
		{schedule.Spec{Every: "7m", Anchor: "2027-01-01T00:00:11Z"}, true},
		{schedule.Spec{Every: "1d", StartAt: start}, true},
		{schedule.Spec{At: "2026-10-25T00:30:00.123456789Z"}, true},
		{schedule.Spec{At: "2026-10-25T02:30:00", Timezone: "Europe/Berlin"}, false},
		{schedule.Spec{Cron: "H * * * *"}, false},
		{schedule.Spec{Cron: "0 * * * *", Calendars: []schedule.Calendar{{Weekdays: []string{"sat"}}}}, false},
		{schedule.Spec{RRule: "FREQ=DAILY", Anchor: "2026-01-01T00:00:00"}, false},
	} {
		ours, theirs, id := NewTimes(false), NewTimes(true), uuid.New()
		v := versionOf(t, test.spec, start)
		found := 0
		for range 200 {
			from := start.Add(time.Duration(rand.Int64N(int64(10 * 24 * time.Hour)))).Add(-5 * 24 * time.Hour)
			w := Window{from, from.Add(time.Duration(rand.Int64N(int64(72 * time.Hour))))}
			want, byOracle, err := ours.Due(v.Spec, id, w)
			require.NoError(t, err)
			require.False(t, byOracle)
			got, byOracle, err := theirs.Due(v.Spec, id, w)
			require.NoError(t, err)
			require.Equal(t, test.oracle, byOracle, "%+v", test.spec)
			require.Len(t, got, len(want), "%+v %+v", test.spec, w)
			for i := range want {
				require.True(t, want[i].Equal(got[i]), "%s %s", want[i], got[i])
			}
			found += len(got)
		}
		require.Positive(t, found)
	}
}

// TestVersionsShareALife: each version decides what is due while it is in force, and a one-off also what had passed when
// it was saved.
func TestVersionsShareALife(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 10, 20, 12, 0, 0, 0, time.UTC)
	minutely, hourly := schedule.Spec{Every: "1m"}, schedule.Spec{Every: "1h"}
	j := &Job{Life: ledger.Life{
		ID: uuid.New(), Now: at.Add(3 * time.Hour), State: 1,
		Versions: []ledger.Version{
			versionOf(t, minutely, at), versionOf(t, hourly, at.Add(time.Hour)),
			versionOf(t, schedule.Spec{At: at.Add(-time.Minute).Format(time.RFC3339)}, at.Add(2*time.Hour+time.Second)),
		},
	}}
	e, err := j.Expect(NewTimes(true), Window{at.Add(-24 * time.Hour), at.Add(24 * time.Hour)})
	require.NoError(t, err)
	require.Equal(t, 1+60+1, e.Len())
	require.Equal(t, at.Add(-time.Minute), e.all[0].due)
	require.Equal(t, at.Add(2*time.Hour), e.all[61].due)

	part := e.Part(5, func(int) int { return 7 })
	require.Equal(t, 5, part.Len())
	require.Equal(t, e.all[7:12], part.all)
	require.True(t, part.Window.From.Before(part.all[0].due))
	require.Same(t, e, e.Part(100, nil))

	j.State = 0
	_, err = j.Expect(NewTimes(false), Window{at, at.Add(time.Hour)})
	require.ErrorIs(t, err, errUnknownEnd)
	j.Versions[0].Spec = json.RawMessage(`{"cron":"?"}`)
	j.DeletedAt = at.Add(time.Hour)
	_, err = j.Expect(NewTimes(false), Window{at, at.Add(time.Hour)})
	require.Error(t, err)
}
