package oracle_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/oracle"
)

// changeCase is one expression over one change of the clock. The expected
// instants were worked out by hand from the zone's published rule.
type changeCase struct {
	expr string
	dst  oracle.DST
	want []string
}

var (
	shiftFirst = oracle.DST{Gap: oracle.GapShift, Fold: oracle.FoldFirst}
	skipFirst  = oracle.DST{Gap: oracle.GapSkip, Fold: oracle.FoldFirst}
	second     = oracle.DST{Gap: oracle.GapShift, Fold: oracle.FoldSecond}
	both       = oracle.DST{Gap: oracle.GapShift, Fold: oracle.FoldBoth}
)

func check(t *testing.T, zone, from, to string, cases []changeCase) {
	t.Helper()
	loc, err := time.LoadLocation(zone)
	require.NoError(t, err)
	clock := oracle.NewClock(loc, instant(t, from), instant(t, to))
	for _, c := range cases {
		cron, err := oracle.Parse(c.expr)
		require.NoError(t, err)
		var got []string
		for _, at := range cron.On(clock, c.dst, instant(t, from), instant(t, to)) {
			got = append(got, at.Format(time.RFC3339))
		}
		require.Equal(t, c.want, got, "%s in %s, %v", c.expr, zone, c.dst)
	}
}

func instant(t *testing.T, text string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339Nano, text)
	require.NoError(t, err)
	return at
}

// 02:00 EST → 03:00 EDT at 07:00Z.
func TestNewYorkSpring(t *testing.T) {
	t.Parallel()
	before, at, after := "2026-03-07T07:30:00Z", "2026-03-08T07:00:00Z", "2026-03-09T06:30:00Z"
	check(t, "America/New_York", "2026-03-07T00:00:00Z", "2026-03-10T00:00:00Z", []changeCase{
		{"30 2 * * *", shiftFirst, []string{before, at, after}},
		{"30 2 * * *", skipFirst, []string{before, after}},
		{"0 3 * * *", shiftFirst, []string{"2026-03-07T08:00:00Z", at, "2026-03-09T07:00:00Z"}},
		{"0 3 * * *", skipFirst, []string{"2026-03-07T08:00:00Z", at, "2026-03-09T07:00:00Z"}},
		// 02:00, 02:30 and 03:00 are one occurrence, not three.
		{"0,30 2 8 3 *", shiftFirst, []string{at}},
		{"0 2,3 8 3 *", shiftFirst, []string{at}},
		{"59 1 8 3 *", shiftFirst, []string{"2026-03-08T06:59:00Z"}},
		{"15 0 2 8 3 *", shiftFirst, []string{at}},
		// A star in the seconds does not make it elapsed: minute and hour are fixed.
		{"*/20 30 2 8 3 *", shiftFirst, []string{at}},
		{"30 2 * * 0#2", shiftFirst, []string{at}},
		{"30 2 * * SUN#1", shiftFirst, nil},
		{"*/30 2 8 3 *", shiftFirst, nil},
		{"*/30 2 * * *", shiftFirst, []string{
			"2026-03-07T07:00:00Z", "2026-03-07T07:30:00Z", "2026-03-09T06:00:00Z", "2026-03-09T06:30:00Z",
		}},
	})
	check(t, "America/New_York", "2026-03-08T05:30:00Z", "2026-03-08T09:00:00Z", []changeCase{
		{"@hourly", shiftFirst, []string{
			"2026-03-08T06:00:00Z", "2026-03-08T07:00:00Z", "2026-03-08T08:00:00Z", "2026-03-08T09:00:00Z",
		}},
		{"0 0-23 * * *", skipFirst, []string{
			"2026-03-08T06:00:00Z", "2026-03-08T07:00:00Z", "2026-03-08T08:00:00Z", "2026-03-08T09:00:00Z",
		}},
	})
}

// 02:00 EDT → 01:00 EST at 06:00Z: 01:00–01:59 happen twice.
func TestNewYorkAutumn(t *testing.T) {
	t.Parallel()
	next := "2026-11-02T06:30:00Z"
	check(t, "America/New_York", "2026-10-31T12:00:00Z", "2026-11-02T12:00:00Z", []changeCase{
		{"30 1 * * *", shiftFirst, []string{"2026-11-01T05:30:00Z", next}},
		{"30 1 * * *", second, []string{"2026-11-01T06:30:00Z", next}},
		{"30 1 * * *", both, []string{"2026-11-01T05:30:00Z", "2026-11-01T06:30:00Z", next}},
		{"0 1 1 11 *", second, []string{"2026-11-01T06:00:00Z"}},
		{"0 2 1 11 *", both, []string{"2026-11-01T07:00:00Z"}},
		{"59 0 1 11 *", both, []string{"2026-11-01T04:59:00Z"}},
		{"0 0-2 1 11 *", shiftFirst, []string{
			"2026-11-01T04:00:00Z", "2026-11-01T05:00:00Z", "2026-11-01T07:00:00Z",
		}},
		{"0,40 30 1 1 11 *", both, []string{
			"2026-11-01T05:30:00Z", "2026-11-01T05:30:40Z", "2026-11-01T06:30:00Z", "2026-11-01T06:30:40Z",
		}},
		// Elapsed: both passes whatever the option.
		{"*/30 1 1 11 *", shiftFirst, []string{
			"2026-11-01T05:00:00Z", "2026-11-01T05:30:00Z", "2026-11-01T06:00:00Z", "2026-11-01T06:30:00Z",
		}},
	})
	// A window that holds only one of the two passes still knows the other.
	check(t, "America/New_York", "2026-11-01T06:00:00Z", "2026-11-01T06:59:00Z", []changeCase{
		{"30 1 * * *", shiftFirst, nil},
		{"30 1 * * *", second, []string{"2026-11-01T06:30:00Z"}},
	})
	check(t, "America/New_York", "2026-11-01T05:00:00Z", "2026-11-01T05:59:00Z", []changeCase{
		{"30 1 * * *", shiftFirst, []string{"2026-11-01T05:30:00Z"}},
		{"30 1 * * *", second, nil},
	})
}

// Both changes at 01:00Z: 01:00 → 02:00 and 02:00 → 01:00.
func TestLondon(t *testing.T) {
	t.Parallel()
	check(t, "Europe/London", "2026-03-28T12:00:00Z", "2026-03-30T12:00:00Z", []changeCase{
		{"30 1 * * 0L", shiftFirst, []string{"2026-03-29T01:00:00Z"}},
		{"30 1 * * SUN#L", shiftFirst, []string{"2026-03-29T01:00:00Z"}},
		{"30 1 * * 7L", skipFirst, nil},
		{"30 1 * * *", shiftFirst, []string{"2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"}},
	})
	check(t, "Europe/London", "2026-10-24T12:00:00Z", "2026-10-26T12:00:00Z", []changeCase{
		{"30 1 * * sunL", shiftFirst, []string{"2026-10-25T00:30:00Z"}},
		{"30 1 * * sunL", second, []string{"2026-10-25T01:30:00Z"}},
		{"30 1 * * *", both, []string{"2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z", "2026-10-26T01:30:00Z"}},
	})
}

// Half an hour: 02:00 +11 → 01:30 +10:30, and 02:00 +10:30 → 02:30 +11.
func TestLordHowe(t *testing.T) {
	t.Parallel()
	check(t, "Australia/Lord_Howe", "2026-04-04T12:00:00Z", "2026-04-05T12:00:00Z", []changeCase{
		{"45 1 * * *", shiftFirst, []string{"2026-04-04T14:45:00Z"}},
		{"45 1 * * *", second, []string{"2026-04-04T15:15:00Z"}},
		{"30 1 * * *", both, []string{"2026-04-04T14:30:00Z", "2026-04-04T15:00:00Z"}},
		{"15 1 * * *", both, []string{"2026-04-04T14:15:00Z"}},
		{"0 2 * * *", both, []string{"2026-04-04T15:30:00Z"}},
	})
	check(t, "Australia/Lord_Howe", "2026-10-03T12:00:00Z", "2026-10-04T12:00:00Z", []changeCase{
		{"0 2 * * *", shiftFirst, []string{"2026-10-03T15:30:00Z"}},
		{"15 2 * * *", shiftFirst, []string{"2026-10-03T15:30:00Z"}},
		{"15 2 * * *", skipFirst, nil},
		{"30 2 * * *", skipFirst, []string{"2026-10-03T15:30:00Z"}},
		{"30 1 * * *", shiftFirst, []string{"2026-10-03T15:00:00Z"}},
	})
}

// The whole of 30 December 2011 left out: 24 h is not daylight saving.
func TestApia(t *testing.T) {
	t.Parallel()
	check(t, "Pacific/Apia", "2011-12-29T00:00:00Z", "2012-01-01T00:00:00Z", []changeCase{
		{"0 12 * * *", shiftFirst, []string{"2011-12-29T22:00:00Z", "2011-12-30T22:00:00Z", "2011-12-31T22:00:00Z"}},
		{"0 0 * * *", shiftFirst, []string{"2011-12-29T10:00:00Z", "2011-12-30T10:00:00Z", "2011-12-31T10:00:00Z"}},
		{"0 12 30 12 *", shiftFirst, nil},
		{"0 0 * * FRI", shiftFirst, nil},
		{"0 0 L 12 *", shiftFirst, []string{"2011-12-30T10:00:00Z"}},
	})
}

// Three hours, the longest gap that is shifted: 04:00 +8 → 07:00 +11. And three
// hours back, over midnight: 5 March 02:00 +11 → 4 March 23:00 +8.
func TestCasey(t *testing.T) {
	t.Parallel()
	check(t, "Antarctica/Casey", "2018-10-06T00:00:00Z", "2018-10-08T00:00:00Z", []changeCase{
		{"30 5 * * *", shiftFirst, []string{"2018-10-06T20:00:00Z", "2018-10-07T18:30:00Z"}},
		{"30 5 * * *", skipFirst, []string{"2018-10-07T18:30:00Z"}},
		{"0 7 * * *", shiftFirst, []string{"2018-10-06T20:00:00Z", "2018-10-07T20:00:00Z"}},
	})
	check(t, "Antarctica/Casey", "2010-03-04T00:00:00Z", "2010-03-05T12:00:00Z", []changeCase{
		{"30 23 * * *", shiftFirst, []string{"2010-03-04T12:30:00Z"}},
		{"30 23 * * *", second, []string{"2010-03-04T15:30:00Z"}},
		{"0 0 5 3 *", both, []string{"2010-03-04T13:00:00Z", "2010-03-04T16:00:00Z"}},
		{"0 0 5 3 *", second, []string{"2010-03-04T16:00:00Z"}},
		{"0 2 * * *", both, []string{"2010-03-04T18:00:00Z"}},
	})
}

// The gap is at midnight: 4 November begins at 01:00. The fold repeats the last
// hour of 17 February.
func TestSaoPaulo(t *testing.T) {
	t.Parallel()
	check(t, "America/Sao_Paulo", "2018-11-03T00:00:00Z", "2018-11-05T12:00:00Z", []changeCase{
		{"@daily", shiftFirst, []string{"2018-11-03T03:00:00Z", "2018-11-04T03:00:00Z", "2018-11-05T02:00:00Z"}},
		{"@daily", skipFirst, []string{"2018-11-03T03:00:00Z", "2018-11-05T02:00:00Z"}},
		{"@weekly", shiftFirst, []string{"2018-11-04T03:00:00Z"}},
		{"59 23 3 11 *", shiftFirst, []string{"2018-11-04T02:59:00Z"}},
	})
	check(t, "America/Sao_Paulo", "2018-02-17T12:00:00Z", "2018-02-18T12:00:00Z", []changeCase{
		{"30 23 17 2 *", shiftFirst, []string{"2018-02-18T01:30:00Z"}},
		{"30 23 17 2 *", second, []string{"2018-02-18T02:30:00Z"}},
		{"0 0 18 2 *", both, []string{"2018-02-18T03:00:00Z"}},
	})
}

// Two hours at 01:00Z: 01:00 → 03:00 and 03:00 → 01:00.
func TestTroll(t *testing.T) {
	t.Parallel()
	check(t, "Antarctica/Troll", "2026-03-28T12:00:00Z", "2026-03-29T12:00:00Z", []changeCase{
		{"30 1 * * *", shiftFirst, []string{"2026-03-29T01:00:00Z"}},
		{"30 2 * * *", shiftFirst, []string{"2026-03-29T01:00:00Z"}},
		{"30 1,2 * * *", shiftFirst, []string{"2026-03-29T01:00:00Z"}},
		{"30 3 * * *", shiftFirst, []string{"2026-03-29T01:30:00Z"}},
	})
	check(t, "Antarctica/Troll", "2026-10-24T12:00:00Z", "2026-10-25T12:00:00Z", []changeCase{
		{"30 2 * * *", shiftFirst, []string{"2026-10-25T00:30:00Z"}},
		{"30 2 * * *", second, []string{"2026-10-25T02:30:00Z"}},
		{"30 1,2 * * *", both, []string{
			"2026-10-24T23:30:00Z", "2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z", "2026-10-25T02:30:00Z",
		}},
	})
}

func TestZonesWithoutChange(t *testing.T) {
	t.Parallel()
	check(t, "Asia/Kathmandu", "2026-03-07T00:00:00Z", "2026-03-09T00:00:00Z", []changeCase{
		{"0 9 * * *", shiftFirst, []string{"2026-03-07T03:15:00Z", "2026-03-08T03:15:00Z"}},
		{"0 0 8 3 *", both, []string{"2026-03-07T18:15:00Z"}},
	})
	check(t, "Asia/Tokyo", "2026-03-07T00:00:00Z", "2026-03-09T00:00:00Z", []changeCase{
		{"30 2 * * *", shiftFirst, []string{"2026-03-07T17:30:00Z", "2026-03-08T17:30:00Z"}},
	})
}

// Until 1972 Monrovia was 44 min 30 s behind: the walk must go by seconds.
func TestOffsetWithSeconds(t *testing.T) {
	t.Parallel()
	check(t, "Africa/Monrovia", "1972-01-06T00:00:00Z", "1972-01-08T00:00:00Z", []changeCase{
		{"0 0 * * *", shiftFirst, []string{"1972-01-06T00:44:30Z", "1972-01-07T00:44:30Z", "1972-01-08T00:00:00Z"}},
		{"0 0 * * *", skipFirst, []string{"1972-01-06T00:44:30Z", "1972-01-08T00:00:00Z"}},
		{"44 0 7 1 *", shiftFirst, []string{"1972-01-07T00:44:30Z"}},
		{"30 44 0 7 1 *", skipFirst, []string{"1972-01-07T00:44:30Z"}},
	})
}

func TestWindowBounds(t *testing.T) {
	t.Parallel()
	check(t, "UTC", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z", []changeCase{
		{"0 0 * * *", shiftFirst, []string{"2026-01-02T00:00:00Z"}},
	})
	check(t, "UTC", "2025-12-31T23:59:59.5Z", "2026-01-01T23:59:59.5Z", []changeCase{
		{"0 0 * * *", shiftFirst, []string{"2026-01-01T00:00:00Z"}},
	})
	check(t, "UTC", "2026-01-01T00:00:00.5Z", "2026-01-01T23:59:59.999Z", []changeCase{
		{"0 0 * * *", shiftFirst, nil},
		{"59 59 23 * * *", shiftFirst, []string{"2026-01-01T23:59:59Z"}},
	})
}
