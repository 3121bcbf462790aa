package schedule

import (
	"testing"
	"time"
)

var sink time.Time

func BenchmarkNext(b *testing.B) {
	from := time.Date(2026, 6, 17, 10, 11, 12, 0, time.UTC)
	ny := "America/New_York"
	for _, bm := range []struct {
		name string
		spec Spec
	}{
		{"every_15m", Spec{Every: "15m"}},
		{"quarter_hour_UTC", Spec{Cron: "*/15 * * * *"}},
		{"quarter_hour_NY", Spec{Cron: "*/15 * * * *", Timezone: ny}},
		{"hourly_NY", Spec{Cron: "0 * * * *", Timezone: ny}},
		{"daily_UTC", Spec{Cron: "30 2 * * *"}},
		{"daily_NY", Spec{Cron: "30 2 * * *", Timezone: ny}},
		{"daily_NY_second", Spec{Cron: "30 2 * * *", Timezone: ny, DST: DST{Fold: FoldSecond}}},
		{"weekdays_NY", Spec{Cron: "0 9 * * 1-5", Timezone: ny}},
		{"every_10s_NY", Spec{Cron: "*/10 * * * * *", Timezone: ny}},
		{"month_end_NY", Spec{Cron: "0 0 L * *", Timezone: ny}},
		{"second_friday_NY", Spec{Cron: "0 0 * * fri#2", Timezone: ny}},
		{"year_end_NY", Spec{Cron: "59 23 31 12 *", Timezone: ny}},
		{"leap_day_NY", Spec{Cron: "0 0 29 2 *", Timezone: ny}},
		{
			"weekdays_without_holidays_NY",
			Spec{
				Cron: "0 9 * * *", Timezone: ny,
				Calendars: []Calendar{{Weekdays: []string{"sat", "sun"}, Dates: []string{"12-25", "2026-06-18"}}},
			},
		},
		{"rrule_weekly_NY", Spec{RRule: "FREQ=WEEKLY;BYDAY=MO,WE,FR;BYHOUR=9", Timezone: ny}},
		{"rrule_last_friday_NY", Spec{RRule: "FREQ=MONTHLY;BYDAY=-1FR;BYHOUR=17", Timezone: ny}},
		{"rrule_daily_from_1970", Spec{RRule: "FREQ=DAILY;INTERVAL=3", Timezone: ny}},
		{"rrule_yearly", Spec{RRule: "FREQ=YEARLY;BYMONTH=11;BYDAY=4TH", Timezone: ny}},
	} {
		s, err := New(bm.spec, "")
		if err != nil {
			b.Fatal(bm.name, err)
		}
		b.Run(bm.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				sink, _ = s.Next(from)
			}
		})
	}
}
