package schedule_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/schedule"
)

// TestRefused has the text of each error, which users read.
func TestRefused(t *testing.T) {
	t.Parallel()
	many := make([]string, 1001)
	for i := range many {
		many[i] = "2026-12-25"
	}
	for want, spec := range map[string]schedule.Spec{
		`schedule: 0 of at, every, cron and rrule are set; set exactly one`: {},
		`schedule: 2 of at, every, cron and rrule are set; set exactly one`: {Cron: "@daily", Every: "1h"},
		`cron: "0 0 30 2 *" never occurs; check that such a date exists (February has no day 30) and lies before ` +
			`the end`: {Cron: "0 0 30 2 *"},
		`cron: "61 * * * *": minute "61": "61" is not 0 to 59`:                         {Cron: "61 * * * *"},
		`cron: "* 1- * * *": hour "1-": a value is missing; it takes 0 to 23`:          {Cron: "* 1- * * *"},
		`cron: "1,,2 * * * *": minute "1,,2": a value is missing; it takes 0 to 59`:    {Cron: "1,,2 * * * *"},
		`cron: "*/0 * * * *": minute "*/0": the step "0" is not a number from 1 to 60`: {Cron: "*/0 * * * *"},
		`cron: "0 0 32 * *": day-of-month "32": "32" is not 1 to 31, L, L-n, nW or LW`: {Cron: "0 0 32 * *"},
		`cron: "0 0 * foo *": month "foo": "foo" is not 1 to 12, a name (jan … dec)`:   {Cron: "0 0 * foo *"},
		`cron: "0 0 * * 5#6": day-of-week "5#6": "5#6" is not 0 to 7, a name (sun … sat), n#1 to n#5 or nL`: {
			Cron: "0 0 * * 5#6",
		},
		`cron: "* * *": 3 fields; write 5 (minute hour day-of-month month day-of-week) or 6 (second first); ` +
			`for years use start_at and end_at`: {Cron: "* * *"},
		`cron: "TZ=": a time zone inside the expression is not supported; put it into timezone`: {Cron: "TZ="},
		`cron: "@reboot": unknown macro; use @hourly, @daily, @weekly, @monthly or @yearly; ` +
			`for @every use every`: {Cron: "@reboot"},
		`cron: "H(9-3) * * * *": minute "h(9-3)": "9-3" is not a range for H`: {Cron: "H(9-3) * * * *"},
		`cron: "H+1 * * * *": minute "h+1": "+1" after H is not understood; write H, H(a-b), H/step or H(a-b)/step`: {
			Cron: "H+1 * * * *",
		},
		`every: "100ms" is out of range; use 1s to 3660d`:                          {Every: "100ms"},
		`every: "1500ms" has a fraction of a second; use whole seconds`:            {Every: "1500ms"},
		`every: "soon" is not a duration; write for example 90s, 15m, 1h30m or 7d`: {Every: "soon"},
		`anchor: "noon" is not a time in whole seconds with an offset; write for example 2026-01-01T00:00:00Z`: {
			Every: "1h", Anchor: "noon",
		},
		`anchor: only every and rrule have an anchor; remove it, or use start_at`: {
			Cron: "@daily", Anchor: "2026-01-01T00:00:00Z",
		},
		`at: "2026-01-01T00:00:00" has no offset and there is no timezone; add Z or an offset such as +02:00, ` +
			`or set timezone`: {
			At: "2026-01-01T00:00:00",
		},
		`at: "2026-13-01T00:00:00Z" is not an ISO-8601 time; write for example 2027-01-31T09:00:00Z, ` +
			`or 2027-01-31T09:00:00 with a timezone`: {
			At: "2026-13-01T00:00:00Z",
		},
		`at: the year is out of range; use 1970 to 2199`: {At: "9999-01-01T00:00:00Z"},
		`timezone: unknown time zone "Mars/Olympus"; use an IANA name such as Europe/Berlin, America/New_York or UTC`: {
			Cron: "@daily", Timezone: "Mars/Olympus",
		},
		`timezone: unknown time zone "Local"; use an IANA name such as Europe/Berlin, America/New_York or UTC`: {
			Cron: "@daily", Timezone: "Local",
		},
		`dst.gap: unknown value "jump"; use shift or skip`:          {Cron: "@daily", DST: schedule.DST{Gap: "jump"}},
		`dst.fold: unknown value "last"; use first, second or both`: {Cron: "@daily", DST: schedule.DST{Fold: "last"}},
		`end_at: it is not after start_at; swap or move them`: {
			Cron: "@daily", StartAt: day(2026, 2, 1), EndAt: day(2026, 1, 1),
		},
		`end_at: no occurrence falls before it; move end_at or start_at, or change the cron`: {
			Cron: "@yearly", StartAt: day(2026, 2, 1), EndAt: day(2026, 3, 1),
		},
		`jitter: "2d" is not a duration from 0 to 24h; write for example 30s or 5m`: {Cron: "@daily", Jitter: "2d"},
		`calendars: they exclude every occurrence of the schedule; exclude less`: {
			Cron: "0 12 * * *", Calendars: []schedule.Calendar{{Windows: []string{"11:00-13:00"}}},
			StartAt: day(2026, 1, 1),
		},
		`calendars: all seven weekdays are excluded; leave at least one`: {
			Cron: "@daily", Calendars: []schedule.Calendar{{Weekdays: strings.Fields("mon tue wed thu fri sat sun")}},
		},
		`calendars[0].weekdays: "monday" is not a weekday; write mon, tue, wed, thu, fri, sat or sun`: {
			Cron: "@daily", Calendars: []schedule.Calendar{{Weekdays: []string{"monday"}}},
		},
		`calendars[1].dates: "25.12." is not a date; write 2026-12-25, 2026-12-24/2027-01-01, ` +
			`or 12-25 for every year`: {
			Cron: "@daily", Calendars: []schedule.Calendar{{}, {Dates: []string{"25.12."}}},
		},
		`calendars[0].windows: "8-9" is not a window of the day; write 22:00-06:00`: {
			Cron: "@daily", Calendars: []schedule.Calendar{{Windows: []string{"8-9"}}},
		},
		`calendars: more than 1000 entries; write ranges of dates, or leave out what is past`: {
			Cron: "@daily", Calendars: []schedule.Calendar{{Dates: many}},
		},
		`timezone: unknown time zone "localtime"; use an IANA name such as Europe/Berlin, America/New_York or UTC`: {
			Cron: "@daily", Timezone: "localtime",
		},
		`timezone: unknown time zone "right/UTC"; use an IANA name such as Europe/Berlin, America/New_York or UTC`: {
			Cron: "@daily", Timezone: "right/UTC",
		},
		`cron: "0 0 L-31 * *": day-of-month "l-31": write L, LW or L-1 to L-30`: {Cron: "0 0 L-31 * *"},
		`every: "30500w3d85773.709551616s" is not a duration; write for example 90s, 15m, 1h30m or 7d`: {
			Every: "30500w3d85773.709551616s",
		},
		`at: "2026-03-08T02:30:00" does not exist in America/New_York, where the clock is put forward then; ` +
			`choose another time, or dst.gap shift`: {
			At: "2026-03-08T02:30:00", Timezone: "America/New_York", DST: schedule.DST{Gap: "skip"},
		},
		`end_at: the year is out of range; use 1970 to 2199`: {Cron: "@daily", EndAt: day(1960, 1, 1)},
		`calendars: the windows exclude the whole day; leave some of it`: {
			Cron:      "@daily",
			Calendars: []schedule.Calendar{{Windows: []string{"00:00-12:00"}}, {Windows: []string{"12:00-24:00"}}},
		},
		`rrule: "FREQ=DAILY": "RRULE:FREQ=WEEKLY" is not taken; only DTSTART and one RRULE are, ` +
			`exclude dates with calendars`: {
			RRule: "RRULE:FREQ=DAILY\nRRULE:FREQ=WEEKLY",
		},
		`rrule: "FREQ=WEEKLY;INTERVAL=2;BYSETPOS=1": BYSETPOS needs another BY… part to choose from`: {
			RRule: "FREQ=WEEKLY;INTERVAL=2;BYSETPOS=1",
		},
		`rrule: "FREQ=DAILY;BYHOUR=1;BYSETPOS=2": BYSETPOS names no position that exists: ` +
			`there are at most 1 times to choose from`: {
			RRule: "FREQ=DAILY;BYHOUR=1;BYSETPOS=2",
		},
		`rrule: "FREQ=HOURLY;INTERVAL=2;BYHOUR=1": FREQ="HOURLY": rules faster than DAILY are not supported; ` +
			`use every or cron`: {
			RRule: "FREQ=HOURLY;INTERVAL=2;BYHOUR=1",
		},
		`rrule: "FREQ=SECONDLY": FREQ="SECONDLY": rules faster than DAILY are not supported; use every or cron`: {
			RRule: "DTSTART:19700101T000000\nRRULE:FREQ=SECONDLY",
		},
		`rrule: "FREQ=DAILY;COUNT=5": COUNT needs a start to count from; set anchor, ` +
			`or begin with DTSTART:20260131T090000`: {
			RRule: "FREQ=DAILY;COUNT=5",
		},
		`rrule: "FREQ=DAILY;BYEASTER=0": BYEASTER="0": this part is not known`: {RRule: "FREQ=DAILY;BYEASTER=0"},
		`rrule: "FREQ=DAILY;INTERVAL=5000": INTERVAL="5000": "5000" is not 1 to 1000`: {
			RRule: "FREQ=DAILY;INTERVAL=5000",
		},
		`rrule: "FREQ=WEEKLY;BYDAY=1MO": a number before a weekday needs FREQ=MONTHLY or YEARLY, and no BYWEEKNO`: {
			RRule: "FREQ=WEEKLY;BYDAY=1MO",
		},
		`rrule: "FREQ=YEARLY;BYWEEKNO=20": BYWEEKNO needs BYDAY, to say which days of the week`: {
			RRule: "FREQ=YEARLY;BYWEEKNO=20",
		},
		`rrule: "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30" never occurs; ` +
			`check that such a date exists (February has no day 30) and lies before the end`: {
			RRule: "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30",
		},
		`rrule: "DTSTART;VALUE=DATE:20260101 FREQ=DAILY": DTSTART names a zone other than timezone, ` +
			`or a form that is not taken; write DTSTART:20260131T090000 and put the zone into timezone`: {
			RRule: "DTSTART;VALUE=DATE:20260101 FREQ=DAILY",
		},
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			_, err := schedule.New(spec, "")
			require.EqualError(t, err, want)
			var e *schedule.Error
			require.ErrorAs(t, err, &e)
		})
	}
}

func TestJSON(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		in, out string
		want    schedule.Spec
	}{
		{`"0 9 * * 1"`, `{"cron":"0 9 * * 1"}`, schedule.Spec{Cron: "0 9 * * 1"}},
		{`"@daily"`, `{"cron":"@daily"}`, schedule.Spec{Cron: "@daily"}},
		{`"2027-01-31T09:00:00Z"`, `{"at":"2027-01-31T09:00:00Z"}`, schedule.Spec{At: "2027-01-31T09:00:00Z"}},
		{`"@every 15m"`, `{"every":"15m"}`, schedule.Spec{Every: "15m"}},
		{`"FREQ=DAILY"`, `{"rrule":"FREQ=DAILY"}`, schedule.Spec{RRule: "FREQ=DAILY"}},
		{
			`{"cron":"0 9 * * 1","timezone":"America/New_York","dst":{"gap":"skip","fold":"both"},` +
				`"start_at":"2026-01-01T00:00:00Z","end_at":"2027-01-01T00:00:00Z","jitter":"5m",` +
				`"calendars":[{"dates":["12-25"],"weekdays":["sat"],"windows":["22:00-06:00"]}]}`,
			"",
			schedule.Spec{
				Cron: "0 9 * * 1", Timezone: "America/New_York", DST: schedule.DST{Gap: "skip", Fold: "both"},
				StartAt: day(2026, 1, 1), EndAt: day(2027, 1, 1), Jitter: "5m",
				Calendars: []schedule.Calendar{{
					Dates: []string{"12-25"}, Weekdays: []string{"sat"}, Windows: []string{"22:00-06:00"},
				}},
			},
		},
		{
			`{"every":"15m","anchor":"2026-01-01T00:05:00Z"}`, "",
			schedule.Spec{Every: "15m", Anchor: "2026-01-01T00:05:00Z"},
		},
	} {
		var got schedule.Spec
		require.NoError(t, json.Unmarshal([]byte(tc.in), &got), tc.in)
		require.Equal(t, tc.want, got)
		b, err := json.Marshal(got)
		require.NoError(t, err)
		if tc.out == "" {
			tc.out = tc.in
		}
		require.JSONEq(t, tc.out, string(b))
		_, err = schedule.New(got, "")
		require.NoError(t, err)
	}
	for in, want := range map[string]string{
		`{"crom":"@daily"}`: `schedule: unknown field "crom"; the fields of a schedule are at, every, anchor, ` +
			`cron, rrule, timezone, dst, start_at, end_at, jitter, calendars (dates, weekdays, windows)`,
		`{"cron":5}`: `cron: a JSON number is where a string or a list belongs; put it in quotes, ` +
			`or see the guide to schedules`,
		`""`: `schedule: it is empty; write for example "0 9 * * 1-5", "every 15m" or "2027-01-31T09:00:00Z"`,
		`{"start_at":"noon"}`: `start_at or end_at: "noon" is not a time with an offset; ` +
			`write for example 2026-01-31T09:00:00Z`,
	} {
		var s schedule.Spec
		require.EqualError(t, json.Unmarshal([]byte(in), &s), want, in)
	}
}

func TestBetween(t *testing.T) {
	t.Parallel()
	ny := "America/New_York"
	type row struct {
		due     string
		skip    schedule.Reason
		mark    schedule.Mark
		nominal string
	}
	for _, tc := range []struct {
		name string
		spec schedule.Spec
		from int // day of the month before the change
		in   string
		want []row
	}{
		{"shifted", schedule.Spec{Cron: "30 2 * * *", Timezone: ny}, 7, "2026-03", []row{
			{"2026-03-08T03:00:00-04:00", "", schedule.MarkShifted, "2026-03-08T02:30:00"},
			{"2026-03-09T02:30:00-04:00", "", "", ""},
		}},
		{"skipped", schedule.Spec{
			Cron: "30 2 * * *", Timezone: ny, DST: schedule.DST{Gap: "skip"},
		}, 7, "2026-03", []row{
			{"2026-03-08T03:00:00-04:00", schedule.ReasonGap, "", "2026-03-08T02:30:00"},
			{"2026-03-09T02:30:00-04:00", "", "", ""},
		}},
		{"skipped beside one that fires there", schedule.Spec{
			Cron: "0 2,3 * * *", Timezone: ny, DST: schedule.DST{Gap: "skip"},
		}, 7, "2026-03", []row{
			{"2026-03-08T03:00:00-04:00", schedule.ReasonGap, "", "2026-03-08T02:00:00"},
			{"2026-03-08T03:00:00-04:00", "", "", ""},
			{"2026-03-09T02:00:00-04:00", "", "", ""},
			{"2026-03-09T03:00:00-04:00", "", "", ""},
		}},
		{"elapsed with a fixed hour", schedule.Spec{Cron: "*/30 2 * * *", Timezone: ny}, 7, "2026-03", []row{
			{"2026-03-08T03:00:00-04:00", schedule.ReasonGap, "", "2026-03-08T02:00:00"},
			{"2026-03-09T02:00:00-04:00", "", "", ""},
			{"2026-03-09T02:30:00-04:00", "", "", ""},
		}},
		{"passes", schedule.Spec{
			Cron: "30 1 * * *", Timezone: ny, DST: schedule.DST{Fold: "both"},
		}, 0, "2026-11", []row{
			{"2026-11-01T01:30:00-04:00", "", schedule.MarkFirstPass, ""},
			{"2026-11-01T01:30:00-05:00", "", schedule.MarkSecondPass, ""},
			{"2026-11-02T01:30:00-05:00", "", "", ""},
		}},
		{"every twelfth hour loses midnight", schedule.Spec{
			Cron: "0 */12 * * *", Timezone: "America/Santiago",
		}, 5, "2026-09", []row{
			{"2026-09-06T01:00:00-03:00", schedule.ReasonGap, "", "2026-09-06T00:00:00"},
			{"2026-09-06T12:00:00-03:00", "", "", ""},
			{"2026-09-07T00:00:00-03:00", "", "", ""},
			{"2026-09-07T12:00:00-03:00", "", "", ""},
		}},
		{"calendar", schedule.Spec{
			Cron: "0 9 * * *", Timezone: ny, Calendars: []schedule.Calendar{{Weekdays: []string{"sun"}}},
		}, 7, "2026-03", []row{
			{"2026-03-08T09:00:00-04:00", schedule.ReasonCalendar, "", ""}, {"2026-03-09T09:00:00-04:00", "", "", ""},
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := compile(t, tc.spec)
			y, m := 2026, map[string]int{"2026-03": 3, "2026-09": 9, "2026-11": 11}[tc.in]
			from := day(y, 1, tc.from).AddDate(0, m-1, 0).Add(20 * 60 * 60 * 1e9)
			var got []row
			for _, o := range s.Between(from, from.AddDate(0, 0, 2), 100) {
				got = append(got, row{o.Due.Format("2006-01-02T15:04:05Z07:00"), o.Skip, o.Mark, o.Nominal})
			}
			require.Equal(t, tc.want, got)
			require.Len(t, s.Between(from, from.AddDate(9, 0, 0), 7), 7, "the limit holds")
		})
	}
}
