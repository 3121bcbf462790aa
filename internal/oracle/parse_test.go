package oracle_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/oracle"
)

// datesIn lists the days of a month on which an expression occurs, in UTC.
func datesIn(t *testing.T, expr string, year int, month time.Month) []int {
	t.Helper()
	cron, err := oracle.Parse(expr)
	require.NoError(t, err)
	from := time.Date(year, month, 1, 0, 0, 0, 0, time.UTC).Add(-time.Second)
	to := time.Date(year, month+1, 1, 0, 0, 0, 0, time.UTC).Add(-time.Second)
	var days []int
	for _, at := range cron.Between(time.UTC, shiftFirst, from, to) {
		days = append(days, at.Day())
	}
	return days
}

func TestDates(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		expr  string
		year  int
		month time.Month
		want  []int
	}{
		{"0 0 L * *", 2026, time.February, []int{28}},
		{"0 0 L * *", 2028, time.February, []int{29}},
		{"0 0 l-3 * *", 2026, time.April, []int{27}},
		{"0 0 L-30 * *", 2026, time.February, nil},
		{"0 0 L-30 * *", 2026, time.March, []int{1}},
		{"0 0 15W * *", 2026, time.August, []int{14}},   // Saturday
		{"0 0 15w * *", 2026, time.November, []int{16}}, // Sunday
		{"0 0 15W * *", 2026, time.July, []int{15}},     // Wednesday
		{"0 0 1W * *", 2026, time.August, []int{3}},     // Saturday the 1st
		{"0 0 1W * *", 2026, time.November, []int{2}},   // Sunday the 1st
		{"0 0 31W * *", 2026, time.May, []int{29}},      // Sunday the last
		{"0 0 28W * *", 2026, time.February, []int{27}}, // Saturday the last
		{"0 0 30W * *", 2026, time.February, nil},
		{"0 0 31W * *", 2026, time.April, nil},
		{"0 0 LW * *", 2026, time.May, []int{29}},
		{"0 0 LW * *", 2026, time.April, []int{30}},
		{"0 0 1,L * *", 2026, time.April, []int{1, 30}},
		{"0 0 * * 0#2", 2026, time.March, []int{8}},
		{"0 0 * * sun#5", 2026, time.March, []int{29}},
		{"0 0 * * MON#5", 2026, time.February, nil},
		{"0 0 * * 5L", 2026, time.February, []int{27}},
		{"0 0 * * fril", 2026, time.February, []int{27}},
		{"0 0 ? * 7#L", 2026, time.March, []int{29}},
		{"0 0 * * MON#1,FRI#L", 2026, time.March, []int{2, 27}},
		// Either: the 13th, and each Friday.
		{"0 0 13 * FRI", 2026, time.March, []int{6, 13, 20, 27}},
		{"0 0 13 * FRI", 2026, time.April, []int{3, 10, 13, 17, 24}},
		// Both: a field that starts with a star only restricts the other.
		{"0 0 */2 * MON", 2026, time.March, []int{9, 23}},
		{"0 0 1-7 * */7", 2026, time.March, []int{1}},
		{"0 0 ? * FRI", 2026, time.March, []int{6, 13, 20, 27}},
		{"0 0 13 * ?", 2026, time.March, []int{13}},
		// The star must come first.
		{"0 0 1,*/10 * MON", 2026, time.March, []int{1, 2, 9, 11, 16, 21, 23, 30, 31}},
		{"0 0 30-2 * *", 2026, time.March, []int{1, 2, 30, 31}},
		{"0 0 28-4/3 * *", 2026, time.March, []int{3, 28, 31}},
		{"0 0 1 NOV-FEB *", 2026, time.January, []int{1}},
		{"0 0 1 NOV-FEB *", 2026, time.March, nil},
		{"0 0 1 nov-feb/2 *", 2026, time.January, []int{1}},
		{"0 0 1 nov-feb/2 *", 2026, time.February, nil},
		{"0 0 * * FRI-MON", 2026, time.February, []int{1, 2, 6, 7, 8, 9, 13, 14, 15, 16, 20, 21, 22, 23, 27, 28}},
		{"0 0 * * 5-7", 2026, time.February, []int{1, 6, 7, 8, 13, 14, 15, 20, 21, 22, 27, 28}},
		{"0 0 * * 7", 2026, time.February, []int{1, 8, 15, 22}},
		{"0 0 * * 5-7/2", 2026, time.February, []int{1, 6, 8, 13, 15, 20, 22, 27}},
		{"0 0 20/4 * *", 2026, time.February, []int{20, 24, 28}},
		{"@monthly", 2026, time.February, []int{1}},
		{"@yearly", 2026, time.February, nil},
		{"@annually", 2026, time.January, []int{1}},
		{"@weekly", 2026, time.February, []int{1, 8, 15, 22}},
	} {
		require.Equal(t, c.want, datesIn(t, c.expr, c.year, c.month), "%s in %d-%d", c.expr, c.year, c.month)
	}
}

func TestTimes(t *testing.T) {
	t.Parallel()
	from := time.Date(2026, time.May, 5, 0, 0, 0, 0, time.UTC).Add(-time.Second)
	for expr, want := range map[string][]string{
		"0 22-2 * * *":     {"00:00:00", "01:00:00", "02:00:00", "22:00:00", "23:00:00"},
		"0 22-2/2 * * *":   {"00:00:00", "02:00:00", "22:00:00"},
		"50-10/10 7 * * *": {"07:00:00", "07:10:00", "07:50:00"},
		"5 */12 * * *":     {"00:05:00", "12:05:00"},
		"40/10 7 * * *":    {"07:40:00", "07:50:00"},
		"1,2-4/2,9 7 * * *": {
			"07:01:00", "07:02:00", "07:04:00", "07:09:00",
		},
		"*/25 0 7 * * *": {"07:00:00", "07:00:25", "07:00:50"},
		"30 0 7 * * *":   {"07:00:30"},
		"@midnight":      {"00:00:00"},
	} {
		cron, err := oracle.Parse(expr)
		require.NoError(t, err)
		var got []string
		for _, at := range cron.Between(time.UTC, shiftFirst, from, from.Add(24*time.Hour)) {
			got = append(got, at.Format(time.TimeOnly))
		}
		require.Equal(t, want, got, expr)
	}
}

func TestElapsed(t *testing.T) {
	t.Parallel()
	for expr, want := range map[string]bool{
		"* * * * *": true, "*/15 2 * * *": true, "30 */6 * * *": true, "@hourly": true,
		"30 2 * * *": false, "*/20 30 2 * * *": false, "0 0-23 * * *": false, "0,*/2 2 * * *": false, "@daily": false,
	} {
		cron, err := oracle.Parse(expr)
		require.NoError(t, err)
		require.Equal(t, want, cron.Elapsed(), expr)
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for _, expr := range []string{
		"", "* * * *", "* * * * * * *", "@never", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * 32 * *", "* * * 0 *",
		"* * * 13 *", "* * * * 8", "? * * * *", "*/0 * * * *", "*/-1 * * * *", "+1 * * * *", "1- * * * *", "a * * * *",
		", * * * *", "* * L-31 * *", "* * 32W * *", "* * W * *", "* * * * L", "* * * * 1#6", "* * * * 1#0",
		"* * * * 1#",
		"* * ?/2 * *", "* * * sun *", "* * * * jan",
	} {
		_, err := oracle.Parse(expr)
		require.Error(t, err, expr)
	}
}

func TestEvery(t *testing.T) {
	t.Parallel()
	anchor := instant(t, "2026-01-01T00:00:10Z")
	until := anchor.Add(time.Minute)
	at := func(seconds int) time.Time { return anchor.Add(time.Duration(seconds) * time.Second) }
	require.Equal(t, []time.Time{at(0), at(25), at(50)},
		oracle.Every(anchor, 25*time.Second, anchor.Add(-time.Hour), until))
	require.Equal(t, []time.Time{at(30), at(60)}, oracle.Every(anchor, 30*time.Second, anchor, until))
	require.Empty(t, oracle.Every(anchor, time.Hour, anchor, until))
	require.Empty(t, oracle.Every(anchor, 0, anchor.Add(-time.Hour), until))
}

func TestAt(t *testing.T) {
	t.Parallel()
	at := instant(t, "2026-01-01T00:00:10Z")
	require.Equal(t, []time.Time{at}, oracle.At(at, at.Add(-time.Second), at))
	require.Empty(t, oracle.At(at, at, at.Add(time.Hour)))
	require.Empty(t, oracle.At(at, at.Add(-time.Hour), at.Add(-time.Second)))
}
