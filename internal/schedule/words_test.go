package schedule_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/belfry-dev/belfry/internal/schedule"
)

func TestWords(t *testing.T) {
	t.Parallel()
	for _, c := range [][2]string{
		{"@hourly", "every hour"},
		{"0 * * * *", "every hour"},
		{"0 2 * * *", "at 02:00 every day"},
		{"@daily", "at 00:00 every day"},
		{"30 9,17 * * *", "at 09:30 and 17:30 every day"},
		{"0 8,10,12,14 * * *", "at 08:00, 10:00, 12:00 and 14:00 every day"},
		{"0 8,10,12,14,16 * * *", "at minute 0 of hours 8 to 16 in steps of 2"},
		{"*/15 * * * *", "every 15 minutes"},
		{"0,15,30,45 * * * *", "every 15 minutes"},
		{"7-59/15 * * * *", "at minutes 7, 22, 37 and 52 of every hour"},
		{"3-59/5 * * * *", "every 5 minutes from minute 3 of the hour"},
		{"3-59/5 9-17 * * *", "every 5 minutes from minute 3 of the hour, from 09:00 to 17:59"},
		{"H H * * *", "at 08:16 every day"},
		{"H/15 * * * *", "at minutes 1, 16, 31 and 46 of every hour"},
		{"* * * * *", "every minute"},
		{"* 9 * * *", "every minute from 09:00 to 09:59"},
		{"*/15 9-17 * * 1-5", "every 15 minutes from 09:00 to 17:59, Monday to Friday"},
		{"5 9-17 * * mon-fri", "at minute 5 of every hour from 09:00 to 17:59, Monday to Friday"},
		{"0 9-17 * * 1-5", "every hour from 09:00 to 17:00, Monday to Friday"},
		{"5 * * * *", "at minute 5 of every hour"},
		{"5,10-20,50 * * * *", "at minutes 5, 10 to 20 and 50 of every hour"},
		{"0 */6 * * *", "at minute 0 of every 6th hour from 00:00"},
		{"5 1-23/2 * * *", "at minute 5 of hours 1 to 23 in steps of 2"},
		{"*/10 22-2 * * *", "every 10 minutes from 22:00 to 02:59"},
		{"*/10 22-2 * * fri", "every 10 minutes in hours 0 to 2, 22 and 23 on Friday"},
		{"0 22-2 * * *", "every hour from 22:00 to 02:00"},
		{"0 0 * * 0", "at 00:00 on Sunday"},
		{"0 0 * * 6,0", "at 00:00 on Saturday and Sunday"},
		{"0 0 * * fri-mon", "at 00:00, Friday to Monday"},
		{"0 9 * * 1,3,5", "at 09:00 on Monday, Wednesday and Friday"},
		{"0 0 1 * *", "at 00:00 on day 1 of the month"},
		{"0 0 1,15 * *", "at 00:00 on days 1 and 15 of the month"},
		{"0 0 1-7 * *", "at 00:00 on days 1 to 7 of the month"},
		{"0 0 */2 * *", "at 00:00 on days 1 to 31 in steps of 2 of the month"},
		{"0 0 L * *", "at 00:00 on the last day of the month"},
		{"0 0 L-2 * *", "at 00:00 on the 3rd last day of the month"},
		{"0 0 15W * *", "at 00:00 on the weekday nearest to day 15 of the month"},
		{"0 0 LW * *", "at 00:00 on the last weekday of the month"},
		{"0 0 * * fri#2", "at 00:00 on the second Friday of the month"},
		{"0 0 * * 5L", "at 00:00 on the last Friday of the month"},
		{"0 0 * * mon,fri#1", "at 00:00 on Monday and the first Friday of the month"},
		{"0 0 1 * mon", "at 00:00 on day 1 of the month, and on Monday"},
		{"0 0 */2 * 1-5", "at 00:00 on days 1 to 31 in steps of 2 of the month, only if it is Monday to Friday"},
		{"0 0 1-31 * mon", "at 00:00 every day"},
		{"@yearly", "at 00:00 on 1 January"},
		{"0 0 29 2 *", "at 00:00 on 29 February"},
		{"0 0 1 1,4,7,10 *", "at 00:00 on day 1 of January, April, July and October"},
		{"0 6 * 10-3 *", "at 06:00 every day in October to March"},
		{"*/5 * * 12 *", "every 5 minutes in December"},
		{"0 6 * 6-8 1-5", "at 06:00, Monday to Friday in June to August"},
		{"0 0 13 6 fri", "at 00:00 on 13 June, and on Friday in June"},
		{"30 0 12 * * *", "at 12:00:30 every day"},
		{"*/10 * * * * *", "every 10 seconds"},
		{"* * * * * *", "every second"},
		{"15 * * * * *", "at second 15 of every minute"},
		{"0,30 0-4 9-17 * * *", "every 30 seconds of minutes 0 to 4 of every hour from 09:00 to 17:59"},
		{"*/20 5 * * * *", "every 20 seconds of minute 5 of every hour"},
		{
			"1,2,7 3,9,11,40 1,5,6,20 * * *",
			"at seconds 1, 2 and 7 of minutes 3, 9, 11 and 40 of hours 1, 5, 6 and 20",
		},
		{"every 15m", "every 15 minutes"},
		{"every 1h", "every hour"},
		{"every 1s", "every second"},
		{"every 90m", "every 90 minutes"},
		{"every 150m", "every 2 hours 30 minutes"},
		{"every 24h", "every 24 hours"},
		{"every 7d", "every 7 days"},
		{"2027-01-31T09:00:00Z", "once at 2027-01-31 09:00 UTC"},
		{"2027-01-31T09:00:05.5Z", "once at 2027-01-31 09:00:05.5 UTC"},
		{"FREQ=DAILY;BYHOUR=9", "at 09:00 every day"},
		{"FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR;BYHOUR=9;BYMINUTE=30", "at 09:30, Monday to Friday"},
		{"FREQ=MONTHLY;BYDAY=-1FR;BYHOUR=17", "at 17:00 on the last Friday of the month"},
		{"FREQ=MONTHLY;BYMONTHDAY=-1", "at 00:00 on the last day of the month"},
		{"FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1", "at 00:00, Monday to Friday, only the last of each month"},
		{"FREQ=YEARLY;BYMONTH=11;BYDAY=4TH", "at 00:00 on the fourth Thursday of November"},
		{"FREQ=YEARLY;BYDAY=20MO", "at 00:00 on the 20th Monday of the year"},
		{"FREQ=YEARLY;BYYEARDAY=100,-1", "at 00:00 on the 100th and last day of the year"},
		{"FREQ=YEARLY;BYWEEKNO=20;BYDAY=MO", "at 00:00 on Monday, only in the 20th week of the year"},
		{
			"DTSTART:20260105T090000 RRULE:FREQ=WEEKLY;INTERVAL=2",
			"at 09:00 on Monday, every 2nd week, from 2026-01-05 09:00",
		},
		{"DTSTART:20260105T090000 RRULE:FREQ=DAILY;INTERVAL=3", "at 09:00 every 3rd day, from 2026-01-05 09:00"},
		{
			"DTSTART:20260105T090000 RRULE:FREQ=DAILY;COUNT=5",
			"at 09:00 every day, from 2026-01-05 09:00, until 2026-01-09 09:00",
		},
		{
			"DTSTART:20260105T090000 RRULE:FREQ=MONTHLY;INTERVAL=3;UNTIL=20271231",
			"at 09:00 on day 5 of the month, every 3rd month, from 2026-01-05 09:00, until 2027-12-31 23:59:59",
		},
		{"FREQ=DAILY;UNTIL=20271231T120000Z", "at 00:00 every day, until 2027-12-31 12:00 UTC"},
	} {
		spec, err := schedule.Parse(c[0])
		require.NoError(t, err, c[0])
		s, err := schedule.New(spec, "job")
		require.NoError(t, err, c[0])
		require.Equal(t, c[1], s.Words(), c[0])
	}
}

func TestWordsOfWholeSpecs(t *testing.T) {
	t.Parallel()
	const berlin = "Europe/Berlin"
	day := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		want string
		spec schedule.Spec
	}{
		{
			"at 02:00 every day, Europe/Berlin",
			schedule.Spec{Cron: "0 2 * * *", Timezone: berlin},
		},
		{
			"at 02:30 every day, Europe/Berlin, at clock changes: gap skip and fold first",
			schedule.Spec{Cron: "30 2 * * *", Timezone: berlin, DST: schedule.DST{Gap: "skip"}},
		},
		{
			"every 15 minutes from 09:00 to 17:59, Monday to Friday, Europe/Berlin",
			schedule.Spec{Cron: "*/15 9-17 * * 1-5", Timezone: berlin},
		},
		{
			"every 15 minutes from 09:00 to 17:59, Monday to Friday, Europe/Berlin, at clock changes: gap shift " +
				"and fold first",
			schedule.Spec{Cron: "0,15,30,45 9-17 * * 1-5", Timezone: berlin},
		},
		{
			"at minute 0 of every 6th hour from 00:00, Europe/Berlin",
			schedule.Spec{Cron: "0 */6 * * *", Timezone: berlin},
		},
		{
			"at 00:00, 06:00, 12:00 and 18:00 every day, Europe/Berlin",
			schedule.Spec{Cron: "0 0,6,12,18 * * *", Timezone: berlin},
		},
		{
			"at minute 5 of every hour, Europe/Berlin, at clock changes: gap shift and fold first",
			schedule.Spec{Cron: "5 0-23 * * *", Timezone: berlin},
		},
		{
			"at 02:00 every day, from 2026-01-01 00:00 UTC, before 2027-01-01 00:00 UTC",
			schedule.Spec{Cron: "0 2 * * *", StartAt: day, EndAt: day.AddDate(1, 0, 0)},
		},
		{
			"at 02:00 every day, Europe/Berlin, from 2026-01-01 01:00 +01:00",
			schedule.Spec{Cron: "0 2 * * *", Timezone: berlin, StartAt: day},
		},
		{
			"at 02:00 every day, each up to 5 minutes later",
			schedule.Spec{Cron: "0 2 * * *", Jitter: "5m"},
		},
		{
			"at 02:00 every day, each up to 1.5s later",
			schedule.Spec{Cron: "0 2 * * *", Jitter: "1500ms"},
		},
		{
			"every 30 minutes counted from 2026-01-01 00:10 UTC",
			schedule.Spec{Every: "30m", Anchor: "2026-01-01T00:10:00Z"},
		},
		{
			"every 30 minutes, except Saturday (Asia/Kathmandu)",
			schedule.Spec{
				Every: "30m", Timezone: "Asia/Kathmandu",
				Calendars: []schedule.Calendar{{Weekdays: []string{"sat"}}},
			},
		},
		{
			"every 30 minutes",
			schedule.Spec{Every: "30m", Timezone: berlin},
		},
		{
			"once at 2027-01-31 09:00, Europe/Berlin",
			schedule.Spec{At: "2027-01-31T09:00:00", Timezone: berlin},
		},
		{
			"once at 2027-01-31 10:00 +01:00",
			schedule.Spec{At: "2027-01-31T09:00:00Z", Timezone: berlin},
		},
		{
			"at 09:00 every day, Europe/Berlin, except Saturday and Sunday, 25 December, 2026-08-01 to " +
				"2026-08-15, 2026-09-01, 22:00 to 06:00 and 12:00 to 13:00",
			schedule.Spec{
				Cron: "0 9 * * *", Timezone: berlin,
				Calendars: []schedule.Calendar{{
					Weekdays: []string{"sun", "sat"}, Dates: []string{"12-25", "2026-08-01/2026-08-15", "2026-09-01"},
				}, {Windows: []string{"22:00-06:00", "12:00-13:00"}}},
			},
		},
		{
			"at 00:00 on Sunday, every 2nd week, weeks begin on Sunday, from 2026-01-04 00:00, Europe/Berlin",
			schedule.Spec{RRule: "FREQ=WEEKLY;INTERVAL=2;WKST=SU;BYDAY=SU", Anchor: "2026-01-04T00:00:00", Timezone: berlin},
		},
	} {
		s, err := schedule.New(c.spec, "job")
		require.NoError(t, err, c.want)
		require.Equal(t, c.want, s.Words())
	}
	var many []string
	for i := range 20 {
		many = append(many, day.AddDate(0, 0, 2*i).Format(time.DateOnly))
	}
	s, err := schedule.New(schedule.Spec{Cron: "0 2 * * *", Calendars: []schedule.Calendar{{Dates: many}}}, "")
	require.NoError(t, err)
	require.True(t, strings.HasSuffix(s.Words(), "2026-01-13, 2026-01-15 and 12 more"), s.Words())
}

// TestEqualWordsAreEqualOccurrences: whatever the words leave out decides nothing. Schedules are drawn from few values
// and written in several ways, so that different specs often have equal words.
func TestEqualWordsAreEqualOccurrences(t *testing.T) {
	t.Parallel()
	type sample struct {
		spec  schedule.Spec
		fires []string
	}
	seen := map[string]sample{}
	shared := 0
	check := func(t *rapid.T) {
		spec := specForWords(t)
		s, err := schedule.New(spec, rapid.SampledFrom([]string{"a", "b"}).Draw(t, "spread"))
		if err != nil {
			return // it never occurs
		}
		words := s.Words()
		if words == "" || len(words) > 1000 {
			t.Fatalf("%+v: %q", spec, words)
		}
		is := sample{spec, fires(s)}
		was, ok := seen[words]
		if !ok {
			seen[words] = is
			return
		}
		if fmt.Sprint(was.spec) != fmt.Sprint(is.spec) {
			shared++
		}
		if !slices.Equal(was.fires, is.fires) {
			t.Fatalf("%q means %+v and %+v", words, was.spec, is.spec)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		for range 20 {
			check(t)
		}
	})
	require.NotZero(t, shared, "no two specs had equal words: the test compares nothing")
}

// fires lists occurrences of days around clock changes, of a leap day, and of a year's end.
func fires(s *schedule.Schedule) (out []string) {
	for _, day := range []string{
		"2026-03-07", "2026-03-28", "2026-04-04", "2026-10-03", "2026-10-24", "2026-10-31", "2028-02-28", "2026-12-30",
	} {
		from, _ := time.Parse(time.DateOnly, day)
		for _, o := range s.Between(from, from.AddDate(0, 0, 3), 300) {
			out = append(out, o.Due.UTC().Format(time.RFC3339)+string(o.Skip))
		}
	}
	// The next ones of a rare schedule, as far apart as they are.
	at, _ := time.Parse(time.DateOnly, "2026-02-01")
	for range 25 {
		next, err := s.Next(at)
		if err != nil {
			break
		}
		out = append(out, next.UTC().Format(time.RFC3339Nano))
		at = next
	}
	return out
}

// specForWords draws a spec.
func specForWords(t *rapid.T) schedule.Spec {
	pick := func(label, values string) string { return rapid.SampledFrom(strings.Split(values, "|")).Draw(t, label) }
	spec := schedule.Spec{Timezone: pick("zone", "|UTC|Europe/Berlin|Australia/Lord_Howe|Asia/Kathmandu")}
	switch pick("kind", "cron|cron|cron|rrule|every|at") {
	case "cron":
		spec.Cron = pick("second", "|||0 |30 |*/20 |0-59/20 |* ") +
			pick("minute", "0|5|*|0-59|*/15|0,15,30,45|H|H/5|5,10|0-10|20-40/5|H(0-4)/2|50-4") + " " +
			pick("hour", "*|0-23|*/6|0,6,12,18|2|2,3|9-17|22-2|H|1-23/2|2-10/2|5,2,1-3") + " " +
			pick("dom", "*|*|*|1|1,15|L|L-2|15W|LW|*/2|1-31|1-31/2|31") + " " +
			pick("month", "*|*|1-12|3|mar|10-3|1,4,7,10|*/3") + " " +
			pick("dow", "*|*|*|1-5|mon-fri|0|7|sun|fri-mon|0-6|5#1|fri#1|5L|1,5#2|*/2")
	case "rrule":
		spec.RRule = "FREQ=" + pick("freq", "DAILY|WEEKLY|MONTHLY|YEARLY") + pick("interval", "||;INTERVAL=2|;INTERVAL=3") +
			pick("days", "||;BYDAY=MO|;BYDAY=MO,TU,WE,TH,FR|;BYDAY=1FR|;BYDAY=-1FR|;BYDAY=-2MO,SU|;BYMONTHDAY=1,15|"+
				";BYMONTHDAY=-1|;BYYEARDAY=60,-1|;BYWEEKNO=13;BYDAY=SU") +
			pick("month", "|||;BYMONTH=3|;BYMONTH=3,10") + pick("hour", "|;BYHOUR=2|;BYHOUR=2,9|;BYHOUR=0,1,2,22,23") +
			pick("minute", "|;BYMINUTE=0,30") + pick("setpos", "|||;BYSETPOS=-1|;BYSETPOS=1,-2") +
			pick("wkst", "||;WKST=SU") + pick("end", "||;COUNT=9|;UNTIL=20261025|;UNTIL=20261025T003000Z")
		spec.Anchor = pick("anchor", "||2026-01-05T00:00:00|2026-01-06T02:30:00")
	case "every":
		spec.Every = pick("every", "15m|900s|1h|60m|7h|24h|1d|36h|90s")
		spec.Anchor = pick("anchor", "||1970-01-01T00:00:00Z|2026-01-01T00:05:00Z|2026-01-01T01:05:00+01:00")
	case "at":
		spec.At = pick("at", "2026-03-29T02:30:00|2026-03-29 02:30|2026-10-25T02:30:00|2026-10-25T02:30:00Z|"+
			"2026-10-25T03:30:00+01:00")
	}
	spec.DST = schedule.DST{
		Gap: schedule.Gap(pick("gap", "|||shift|skip")), Fold: schedule.Fold(pick("fold", "|||first|second|both")),
	}
	if c := pick("calendar", "||||weekend|window|night|dates"); c != "" {
		spec.Calendars = []schedule.Calendar{map[string]schedule.Calendar{
			"weekend": {Weekdays: []string{"sun", "sat"}}, "window": {Windows: []string{"02:00-03:00"}},
			"night": {Windows: []string{"22:00-02:00"}, Dates: []string{"12-31"}},
			"dates": {Dates: []string{"2026-03-29", "2026-10-24/2026-10-25"}},
		}[c]}
	}
	at := time.Date(2026, 3, 29, 0, 30, 0, 0, time.UTC)
	if pick("bounded", "||||start|end") == "start" {
		spec.StartAt = at
	} else if pick("ends", "||||end") == "end" {
		spec.EndAt = at
	}
	spec.Jitter = pick("jitter", "|||30s")
	return spec
}
