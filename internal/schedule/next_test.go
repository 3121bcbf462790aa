package schedule_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/schedule"
)

func compile(t testing.TB, spec schedule.Spec) *schedule.Schedule {
	t.Helper()
	s, err := schedule.New(spec, "job-1")
	require.NoError(t, err)
	return s
}

// instants lists the next n occurrences as RFC 3339 in the schedule's zone.
func instants(t testing.TB, s *schedule.Schedule, after string, n int) []string {
	t.Helper()
	at, err := time.Parse(time.RFC3339, after)
	require.NoError(t, err)
	var out []string
	for range n {
		next, err := s.Next(at)
		if err != nil {
			require.ErrorIs(t, err, schedule.ErrNoMore)
			return append(out, "end")
		}
		require.True(t, next.After(at), "%s is not after %s", next, at)
		out = append(out, next.Format(time.RFC3339))
		at = next
	}
	return out
}

func TestNext(t *testing.T) {
	t.Parallel()
	ny := "America/New_York"
	for _, tc := range []struct {
		name  string
		spec  schedule.Spec
		after string
		want  []string
	}{
		{
			"at instant",
			schedule.Spec{At: "2026-05-01T10:00:00+02:00"},
			"2026-01-01T00:00:00Z",
			[]string{"2026-05-01T08:00:00Z", "end"},
		},
		{"at is strictly later", schedule.Spec{At: "2026-05-01T08:00:00Z"}, "2026-05-01T08:00:00Z", []string{"end"}},
		{
			"at reading in a gap",
			schedule.Spec{At: "2026-03-08T02:30:00", Timezone: ny},
			"2026-01-01T00:00:00Z",
			[]string{"2026-03-08T03:00:00-04:00", "end"},
		},
		{
			"at reading in a fold, both",
			schedule.Spec{At: "2026-11-01T01:30", Timezone: ny, DST: schedule.DST{Fold: schedule.FoldBoth}},
			"2026-01-01T00:00:00Z",
			[]string{"2026-11-01T01:30:00-04:00", "2026-11-01T01:30:00-05:00", "end"},
		},
		{
			"at far away",
			schedule.Spec{At: "2150-01-01T00:00:00Z"},
			"1980-01-01T00:00:00Z",
			[]string{"2150-01-01T00:00:00Z", "end"},
		},
		{
			"every on the UTC grid",
			schedule.Spec{Every: "15m"},
			"2026-01-01T00:07:00Z",
			[]string{"2026-01-01T00:15:00Z", "2026-01-01T00:30:00Z"},
		},
		{
			"every with anchor",
			schedule.Spec{Every: "1d12h", Anchor: "2026-01-01T01:00:00Z"},
			"2025-12-29T00:00:00Z",
			[]string{"2025-12-29T01:00:00Z", "2025-12-30T13:00:00Z", "2026-01-01T01:00:00Z"},
		},
		{
			"every before 1970",
			schedule.Spec{Every: "1h"},
			"1969-12-31T22:30:00Z",
			[]string{"1969-12-31T23:00:00Z", "1970-01-01T00:00:00Z", "1970-01-01T01:00:00Z"},
		},
		{
			"sub-second after",
			schedule.Spec{Cron: "* * * * * *"},
			"2026-01-01T00:00:00.5Z",
			[]string{"2026-01-01T00:00:01Z", "2026-01-01T00:00:02Z"},
		},
		{
			"gap shift",
			schedule.Spec{Cron: "30 2 * * *", Timezone: ny},
			"2026-03-07T00:00:00Z",
			[]string{"2026-03-07T02:30:00-05:00", "2026-03-08T03:00:00-04:00", "2026-03-09T02:30:00-04:00"},
		},
		{
			"gap skip",
			schedule.Spec{Cron: "30 2 * * *", Timezone: ny, DST: schedule.DST{Gap: schedule.GapSkip}},
			"2026-03-07T00:00:00Z",
			[]string{"2026-03-07T02:30:00-05:00", "2026-03-09T02:30:00-04:00"},
		},
		{
			"gap shift is one occurrence",
			schedule.Spec{Cron: "0,30 2,3 * * *", Timezone: ny},
			"2026-03-08T06:00:00Z",
			[]string{"2026-03-08T03:00:00-04:00", "2026-03-08T03:30:00-04:00", "2026-03-09T02:00:00-04:00"},
		},
		{
			"fold first",
			schedule.Spec{Cron: "30 1 * * *", Timezone: ny},
			"2026-11-01T00:00:00Z",
			[]string{"2026-11-01T01:30:00-04:00", "2026-11-02T01:30:00-05:00"},
		},
		{
			"fold second",
			schedule.Spec{Cron: "30 1 * * *", Timezone: ny, DST: schedule.DST{Fold: schedule.FoldSecond}},
			"2026-11-01T00:00:00Z",
			[]string{"2026-11-01T01:30:00-05:00", "2026-11-02T01:30:00-05:00"},
		},
		{
			"fold both in order",
			schedule.Spec{Cron: "0,30 1 * * *", Timezone: ny, DST: schedule.DST{Fold: schedule.FoldBoth}},
			"2026-11-01T00:00:00Z",
			[]string{
				"2026-11-01T01:00:00-04:00", "2026-11-01T01:30:00-04:00", "2026-11-01T01:00:00-05:00",
				"2026-11-01T01:30:00-05:00",
			},
		},
		{
			"second pass of a yearly reading",
			schedule.Spec{Cron: "30 1 1 11 *", Timezone: ny, DST: schedule.DST{Fold: schedule.FoldBoth}},
			"2026-11-01T05:45:00Z",
			[]string{"2026-11-01T01:30:00-05:00", "2027-11-01T01:30:00-04:00"},
		},
		{
			"elapsed through a gap",
			schedule.Spec{Cron: "*/30 * * * *", Timezone: ny},
			"2026-03-08T06:00:00Z",
			[]string{"2026-03-08T01:30:00-05:00", "2026-03-08T03:00:00-04:00", "2026-03-08T03:30:00-04:00"},
		},
		{
			"elapsed through a fold",
			schedule.Spec{Cron: "0 * * * *", Timezone: ny},
			"2026-11-01T04:00:00Z",
			[]string{"2026-11-01T01:00:00-04:00", "2026-11-01T01:00:00-05:00", "2026-11-01T02:00:00-05:00"},
		},
		{
			"a removed day is not shifted",
			schedule.Spec{Cron: "0 9 * * *", Timezone: "Pacific/Apia"},
			"2011-12-29T20:00:00Z",
			[]string{"2011-12-31T09:00:00+14:00"},
		},
		{
			"midnight gap",
			schedule.Spec{Cron: "0 0 * * *", Timezone: "America/Sao_Paulo"},
			"2018-11-03T12:00:00Z",
			[]string{"2018-11-04T01:00:00-02:00", "2018-11-05T00:00:00-02:00"},
		},
		{
			"last day of a leap year past the zone's table",
			schedule.Spec{Cron: "0 12 * * *", Timezone: ny},
			"2040-12-31T01:00:00Z",
			[]string{"2040-12-31T12:00:00-05:00", "2041-01-01T12:00:00-05:00"},
		},
		{
			"last day",
			schedule.Spec{Cron: "0 0 L * *"},
			"2028-01-31T12:00:00Z",
			[]string{"2028-02-29T00:00:00Z", "2028-03-31T00:00:00Z"},
		},
		{
			"last day minus three",
			schedule.Spec{Cron: "0 0 L-3 2 *"},
			"2026-01-01T00:00:00Z",
			[]string{"2026-02-25T00:00:00Z"},
		},
		{
			"nearest weekday",
			schedule.Spec{Cron: "0 0 1W,15W * *"},
			"2026-07-31T12:00:00Z",
			[]string{"2026-08-03T00:00:00Z", "2026-08-14T00:00:00Z", "2026-09-01T00:00:00Z"},
		},
		{
			"last weekday",
			schedule.Spec{Cron: "0 0 LW * *"},
			"2026-05-01T00:00:00Z",
			[]string{"2026-05-29T00:00:00Z", "2026-06-30T00:00:00Z"},
		},
		{
			"second friday, last friday",
			schedule.Spec{Cron: "0 0 * * fri#2,5L"},
			"2026-11-01T00:00:00Z",
			[]string{"2026-11-13T00:00:00Z", "2026-11-27T00:00:00Z"},
		},
		{
			"fifth monday",
			schedule.Spec{Cron: "0 0 * * MON#5"},
			"2026-10-01T00:00:00Z",
			[]string{"2026-11-30T00:00:00Z", "2027-03-29T00:00:00Z"},
		},
		{
			"either day",
			schedule.Spec{Cron: "0 0 13 * fri"},
			"2026-11-01T00:00:00Z",
			[]string{"2026-11-06T00:00:00Z", "2026-11-13T00:00:00Z", "2026-11-20T00:00:00Z"},
		},
		{
			"both days, star with step",
			schedule.Spec{Cron: "0 0 */2 * mon"},
			"2026-11-01T00:00:00Z",
			[]string{"2026-11-09T00:00:00Z", "2026-11-23T00:00:00Z"},
		},
		{
			"wrapped ranges",
			schedule.Spec{Cron: "0 22-2/2 * nov-jan fri-mon"},
			"2026-11-02T01:00:00Z",
			[]string{"2026-11-02T02:00:00Z", "2026-11-02T22:00:00Z", "2026-11-06T00:00:00Z"},
		},
		{
			"leap day on a monday",
			schedule.Spec{Cron: "0 0 29 2 */7"},
			"2032-03-01T00:00:00Z",
			[]string{"2060-02-29T00:00:00Z"},
		},
		{
			"start and end",
			schedule.Spec{Cron: "0 0 * * *", StartAt: day(2026, 5, 3), EndAt: day(2026, 5, 5)},
			"2026-01-01T00:00:00Z",
			[]string{"2026-05-03T00:00:00Z", "2026-05-04T00:00:00Z", "end"},
		},
		{
			"calendar",
			schedule.Spec{
				Cron: "0 9 * * *", Timezone: ny,
				Calendars: []schedule.Calendar{{
					Dates: []string{"12-25", "2026-12-29/2026-12-31"}, Weekdays: []string{"sat", "sun"},
				}},
			},
			"2026-12-24T15:00:00Z",
			[]string{"2026-12-28T09:00:00-05:00", "2027-01-01T09:00:00-05:00"},
		},
		{
			"calendar window over midnight and a gap",
			schedule.Spec{
				Every: "1h", Timezone: ny, Calendars: []schedule.Calendar{{Windows: []string{"22:00-03:00"}}},
			},
			"2026-03-08T02:30:00Z",
			[]string{"2026-03-08T03:00:00-04:00", "2026-03-08T04:00:00-04:00"},
		},
		{
			"calendar window over a fold",
			schedule.Spec{
				Every: "1h", Timezone: ny, Calendars: []schedule.Calendar{{Windows: []string{"22:00-01:30"}}},
			},
			"2026-11-01T02:30:00Z",
			[]string{"2026-11-01T02:00:00-05:00"},
		},
		{
			"calendar window inside a fold",
			schedule.Spec{
				Cron: "*/20 * * * *", Timezone: ny, Calendars: []schedule.Calendar{{Windows: []string{"01:30-04:00"}}},
			},
			"2026-11-01T05:20:00Z",
			[]string{"2026-11-01T01:00:00-05:00", "2026-11-01T01:20:00-05:00", "2026-11-01T04:00:00-05:00"},
		},
		{
			"calendar window that ends in a gap",
			schedule.Spec{
				Every: "1s", Timezone: "Antarctica/Troll",
				Calendars: []schedule.Calendar{{Windows: []string{"22:00-01:30"}}},
			},
			"2026-03-28T21:59:59Z",
			[]string{"2026-03-29T03:00:00+02:00"},
		},
		{
			"calendar of past decades",
			schedule.Spec{
				Cron: "0 9 * * *",
				Calendars: []schedule.Calendar{
					{Dates: []string{"1970-01-01/2019-12-31"}}, {Dates: []string{"2020-01-01/2025-12-31"}},
				},
			},
			"2025-01-01T00:00:00Z",
			[]string{"2026-01-01T09:00:00Z"},
		},
		{
			"at from the beginning of time",
			schedule.Spec{At: "2027-01-01T00:00:00Z"},
			"0001-01-01T00:00:00Z",
			[]string{"2027-01-01T00:00:00Z", "end"},
		},
		{
			"rrule whose count ends after decades",
			schedule.Spec{RRule: "FREQ=YEARLY;COUNT=52", Anchor: "1975-06-01T00:00:00"},
			"2025-07-01T00:00:00Z",
			[]string{"2026-06-01T00:00:00Z", "end"},
		},
		{
			"rrule rarer than the horizon",
			schedule.Spec{RRule: "FREQ=YEARLY;INTERVAL=60", Anchor: "1970-01-01T00:00:00"},
			"1971-01-01T00:00:00Z",
			[]string{"2030-01-01T00:00:00Z", "2090-01-01T00:00:00Z", "2150-01-01T00:00:00Z", "end"},
		},
		{
			"rrule until an instant in the second pass",
			schedule.Spec{RRule: "FREQ=DAILY;BYHOUR=1;BYMINUTE=30;UNTIL=20261101T061500Z", Timezone: ny},
			"2026-10-31T12:00:00Z",
			[]string{"2026-11-01T01:30:00-04:00", "end"},
		},
		{
			"rrule until an instant in the first pass",
			schedule.Spec{
				RRule: "FREQ=DAILY;BYHOUR=1;BYMINUTE=30;UNTIL=20261101T054500Z", Timezone: ny,
				DST: schedule.DST{Fold: schedule.FoldSecond},
			},
			"2026-10-31T12:00:00Z",
			[]string{"end"},
		},
		{
			"rrule biweekly",
			schedule.Spec{RRule: "FREQ=WEEKLY;INTERVAL=2;BYDAY=TU,TH", Anchor: "2026-01-06T09:00:00", Timezone: ny},
			"2026-03-01T00:00:00Z",
			[]string{"2026-03-03T09:00:00-05:00", "2026-03-05T09:00:00-05:00", "2026-03-17T09:00:00-04:00"},
		},
		{
			"rrule in a gap",
			schedule.Spec{RRule: "DTSTART:20260301T023000\nRRULE:FREQ=DAILY;COUNT=9", Timezone: ny},
			"2026-03-07T12:00:00Z",
			[]string{"2026-03-08T03:00:00-04:00", "2026-03-09T02:30:00-04:00", "end"},
		},
		{
			"rrule last workday",
			schedule.Spec{RRule: "FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1;BYHOUR=17"},
			"2026-05-01T00:00:00Z",
			[]string{"2026-05-29T17:00:00Z", "2026-06-30T17:00:00Z"},
		},
		{
			"rrule last ISO week",
			schedule.Spec{RRule: "FREQ=YEARLY;BYWEEKNO=-1;BYDAY=MO"},
			"2020-01-01T00:00:00Z",
			[]string{"2020-12-28T00:00:00Z", "2021-12-27T00:00:00Z"},
		},
		{
			"rrule week 52 in January",
			schedule.Spec{RRule: "FREQ=YEARLY;BYWEEKNO=52;BYDAY=SU;BYMONTH=1"},
			"2010-01-01T00:00:00Z",
			[]string{"2011-01-02T00:00:00Z", "2012-01-01T00:00:00Z"},
		},
		{
			"rrule far start",
			schedule.Spec{RRule: "FREQ=YEARLY", Anchor: "2120-02-03T04:05:06"},
			"2026-05-01T00:00:00Z",
			[]string{"2120-02-03T04:05:06Z", "2121-02-03T04:05:06Z"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, instants(t, compile(t, tc.spec), tc.after, len(tc.want)))
		})
	}
}

func day(y int, m time.Month, d int) time.Time { return time.Date(y, m, d, 0, 0, 0, 0, time.UTC) }

func TestSpread(t *testing.T) {
	t.Parallel()
	seen := map[string]int{}
	for i := range 600 {
		s, err := schedule.New(schedule.Spec{Cron: "H H(1-3) * * *"}, string(rune('a'+i%26))+string(rune('a'+i/26)))
		require.NoError(t, err)
		next, err := s.Next(day(2026, 1, 1))
		require.NoError(t, err)
		require.Contains(t, []int{1, 2, 3}, next.Hour())
		seen[next.Format("15:04")]++
	}
	require.Greater(t, len(seen), 100, "600 jobs must spread over the 180 minutes")

	a, b := compile(t, schedule.Spec{Cron: "H/15 * * * *"}), compile(t, schedule.Spec{Cron: "h/15 * * * *"})
	require.Equal(t, a.Key(), b.Key())
	first, _ := a.Next(day(2026, 1, 1))
	second, _ := a.Next(first)
	require.Equal(t, 15*time.Minute, second.Sub(first))
}

func TestRunAt(t *testing.T) {
	t.Parallel()
	s := compile(t, schedule.Spec{Cron: "0 0 * * *", Jitter: "10m"})
	due := day(2026, 1, 1)
	moments := map[time.Time]bool{}
	for i := range 200 {
		at := s.RunAt(due, string(rune('A'+i)))
		require.Equal(t, at, s.RunAt(due, string(rune('A'+i))))
		require.False(t, at.Before(due))
		require.Less(t, at.Sub(due), 10*time.Minute)
		moments[at] = true
	}
	require.Greater(t, len(moments), 190)
	require.Equal(t, due, compile(t, schedule.Spec{Cron: "0 0 * * *"}).RunAt(due, "x"))
}

func TestKey(t *testing.T) {
	t.Parallel()
	key := func(s schedule.Spec) string { return compile(t, s).Key() }
	for _, same := range [][2]schedule.Spec{
		{{Cron: "@daily"}, {Cron: " 0  0 * * * "}},
		{{Cron: "0 0 * * MON"}, {Cron: "0 0 0 * * mon", Timezone: "UTC"}},
		{{Cron: "*/5 * * * *", DST: schedule.DST{Fold: schedule.FoldSecond}}, {Cron: "*/5 * * * *", Jitter: "5s"}},
		{{Cron: "0 0 * * *", StartAt: day(2026, 1, 1)}, {Cron: "0 0 * * *", EndAt: day(2036, 1, 1)}},
		{{Cron: "00 09 * * 1"}, {Cron: "0 9 * * 1"}},
		{{Cron: "*/15 * * * *"}, {Cron: "0,15,30,45 0-23 * * *", DST: schedule.DST{Gap: "skip", Fold: "both"}}},
		{{RRule: "FREQ=DAILY;BYHOUR=9"}, {RRule: "BYHOUR=9;FREQ=DAILY"}},
		{
			{Cron: "@daily", Calendars: []schedule.Calendar{{Weekdays: []string{"SUN", "sat"}}}},
			{
				Cron:      "@daily",
				Calendars: []schedule.Calendar{{Weekdays: []string{"sat"}}, {}, {Weekdays: []string{"sun"}}},
			},
		},
		{{Every: "60m"}, {Every: "1h", Anchor: "2026-01-01T05:00:00Z", Timezone: "Asia/Tokyo"}},
		{{At: "2026-01-01T00:00:00Z"}, {At: "2026-01-01T01:00:00+01:00"}},
	} {
		require.Equal(t, key(same[0]), key(same[1]), "%+v %+v", same[0], same[1])
	}
	for _, other := range [][2]schedule.Spec{
		{{Cron: "0 0 * * *"}, {Cron: "0 0 * * *", Timezone: "Asia/Tokyo"}},
		{{Cron: "0 0 * * *"}, {Cron: "0 0 * * *", DST: schedule.DST{Gap: schedule.GapSkip}}},
		{{Cron: "* * * * *"}, {Cron: "0-59 0-23 * * *"}},
		{{Cron: "0 0 */2 * 1"}, {Cron: "0 0 1-31/2 * 1"}},
		{{Every: "1h"}, {Every: "1h", Anchor: "2026-01-01T05:00:01Z"}},
		{{Cron: "0 0 * * *"}, {Cron: "0 0 * * *", Calendars: []schedule.Calendar{{Weekdays: []string{"sun"}}}}},
	} {
		require.NotEqual(t, key(other[0]), key(other[1]), "%+v %+v", other[0], other[1])
	}
}

func TestNextDoesNotAllocate(t *testing.T) {
	s := compile(t, schedule.Spec{
		Cron: "30 2 * * 1-5", Timezone: "America/New_York", Calendars: []schedule.Calendar{{Dates: []string{"12-25"}}},
	})
	from := day(2026, 12, 24)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		if _, err := s.Next(from); err != nil {
			t.Fatal(err)
		}
	}))
}
