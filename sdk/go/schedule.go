package belfry

import (
	"encoding/json"
	"time"
)

// Cron is a schedule by a cron expression in an IANA zone; "" is UTC.
func Cron(expression, zone string) Schedule {
	return Spec(ScheduleSpec{Cron: expression, Timezone: zone})
}

// Every is a schedule that repeats after a time such as 15m.
func Every(interval time.Duration) Schedule { return Spec(ScheduleSpec{Every: interval.String()}) }

// At is a schedule with one time.
func At(t time.Time) Schedule { return Spec(ScheduleSpec{At: t.UTC().Format(time.RFC3339Nano)}) }

// Spec is a schedule with all that it can have.
func Spec(s ScheduleSpec) Schedule {
	text, _ := json.Marshal(s) // texts and times can always be written
	return Schedule{union: text}
}
