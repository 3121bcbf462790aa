package job_test

import (
	"strings"
	"testing"
	"time"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/schedule"
)

func BenchmarkPlan(b *testing.B) {
	ny := "America/New_York"
	hour := time.Hour
	for _, bm := range []struct {
		name   string
		spec   schedule.Spec
		policy job.MissedPolicy
		outage time.Duration
	}{
		{"one_off", schedule.Spec{At: "2026-06-15T12:00:00Z"}, "once", 0},
		{"one_off_NY", schedule.Spec{At: "2026-06-15T08:00:00", Timezone: ny}, "once", 0},
		{"hourly_UTC", schedule.Spec{Cron: "0 * * * *"}, "once", 0},
		{"hourly_NY", schedule.Spec{Cron: "0 * * * *", Timezone: ny}, "once", 0},
		{"daily_NY", schedule.Spec{Cron: "0 8 * * *", Timezone: ny}, "once", 0},
		{
			"weekdays_calendar_NY",
			schedule.Spec{
				Cron: "0 8 * * *", Timezone: ny, Calendars: []schedule.Calendar{{Weekdays: []string{"sat", "sun"}}},
			},
			"once", 0,
		},
		{"each_second_60s", schedule.Spec{Every: "1s"}, "once", 0},
		{"hourly_NY_once_after_24h", schedule.Spec{Cron: "0 * * * *", Timezone: ny}, "once", 24 * hour},
		{"minutely_NY_all_after_24h", schedule.Spec{Cron: "* * * * *", Timezone: ny}, "all", 24 * hour},
		{"each_second_all_after_year_first_chunk", schedule.Spec{Every: "1s"}, "all", 365 * 24 * hour},
		{
			"each_second_cron_NY_all_after_year_first_chunk",
			schedule.Spec{Cron: "* * * * * *", Timezone: ny},
			"all",
			365 * 24 * hour,
		},
		{
			"each_second_cron_NY_all_10000_after_7d_last_chunk",
			schedule.Spec{Cron: "* * * * * *", Timezone: ny},
			"all", 3 * hour,
		},
	} {
		in := job.PlanInput{
			Schedule: compile(b, bm.spec), Missed: job.Missed{Policy: bm.policy}.WithDefaults(), Now: noon,
			Until: at(time.Minute), NextDue: at(-bm.outage), MissedUntil: at(-job.MissedGrace),
		}
		if bm.outage == 3*hour {
			in.Missed.Max, in.Missed.CatchUpWindow = job.MaxMissed, job.MaxCatchUpWindow
		}
		b.Run(bm.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := job.Plan(in); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkCause(b *testing.B) {
	message := `502 Bad Gateway: {"error":"upstream 10.0.0.7:443 did not reply in 30s","id":"9f1b2c3d"} ` +
		strings.Repeat("x y ", 200)
	for b.Loop() {
		job.Cause(job.ReasonAttempts, 502, message)
	}
}
