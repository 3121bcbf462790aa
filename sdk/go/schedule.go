package belfry

import (
	"encoding/json"
	"time"
)

// Schedule says when a job runs: in one line, or in settings.
type Schedule struct {
	// Text is a time, FREQ=… for an rrule, every 15m, or else a cron expression such as 0 9 * * 1-5. If it is empty, the
	// settings count.
	Text string
	ScheduleSpec
}

// Cron returns a schedule with a cron expression in an IANA time zone; "" is UTC.
func Cron(expression, zone string) Schedule {
	return Spec(ScheduleSpec{Cron: expression, Timezone: zone})
}

// Every returns a schedule that repeats at an interval such as 15 minutes.
func Every(interval time.Duration) Schedule { return Spec(ScheduleSpec{Every: interval.String()}) }

// At returns a schedule with a single time.
func At(t time.Time) Schedule { return Spec(ScheduleSpec{At: t.UTC().Format(time.RFC3339Nano)}) }

// Spec returns a schedule with any settings.
func Spec(s ScheduleSpec) Schedule { return Schedule{ScheduleSpec: s} }

// MarshalJSON implements [json.Marshaler].
func (s Schedule) MarshalJSON() ([]byte, error) {
	if s.Text != "" {
		return json.Marshal(s.Text)
	}
	return json.Marshal(s.ScheduleSpec)
}

// UnmarshalJSON implements [json.Unmarshaler].
func (s *Schedule) UnmarshalJSON(text []byte) error {
	*s = Schedule{}
	if text[0] == '"' {
		return json.Unmarshal(text, &s.Text)
	}
	return json.Unmarshal(text, &s.ScheduleSpec)
}

// HTTP returns a target that receives each run as a POST request.
func HTTP(url string) Target { return Target{Kind: "http", Config: map[string]any{"url": url}} }

// Worker returns a target for runs that workers pull: those that have this handler.
func Worker(handler string) Target {
	return Target{Kind: "worker", Config: map[string]any{"handler": handler}}
}
