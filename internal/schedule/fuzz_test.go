package schedule_test

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/belfry-dev/belfry/internal/schedule"
)

// budget is what any single call may cost, whatever the input. The test takes the best of three, for machines that are busy with other things.
const budget = 5 * time.Millisecond * slowdown

func check(t *testing.T, spec schedule.Spec) {
	t.Helper()
	if s, err := schedule.New(spec, "job"); err == nil {
		if again, err := schedule.New(s.Spec(), "job"); err != nil || again.Key() != s.Key() {
			t.Fatalf("%+v: compiled again it is another schedule: %v", spec, err)
		}
	}
	best := time.Hour
	for range 3 {
		if best = min(best, use(t, spec)); best <= budget {
			return
		}
	}
	t.Fatalf("%+v took %s", spec, best)
}

// since begins to measure; what it returns tells how long that is ago.
func since() func() time.Duration {
	begin := time.Now()                                      //nolint:forbidigo // measures the real cost
	return func() time.Duration { return time.Since(begin) } //nolint:forbidigo // as above
}

// use compiles and asks; it returns what the slowest single call took.
func use(t *testing.T, spec schedule.Spec) (slowest time.Duration) {
	t.Helper()
	elapsed := since()
	s, err := schedule.New(spec, "job")
	slowest = elapsed()
	if err != nil {
		var e *schedule.Error
		if !errors.As(err, &e) || e.Problem == "" || e.Field == "" {
			t.Fatalf("%+v: refused without an explanation: %v", spec, err)
		}
		return slowest
	}
	after := day(2026, 3, 1)
	for range 10 {
		elapsed = since()
		next, err := s.Next(after)
		slowest = max(slowest, elapsed())
		if err != nil {
			return slowest
		}
		if !next.After(after) {
			t.Fatalf("%+v: next of %s is %s", spec, after, next)
		}
		after = next
	}
	elapsed = since()
	s.Between(after, after.AddDate(0, 1, 0), 10)
	return max(slowest, elapsed())
}

func FuzzCron(f *testing.F) {
	for _, s := range []string{"0 0 30 2 *", "TZ=", "TZ=UTC 0 0 * * *", "*/5 * * * *", "0 0 L-3,15W * 5#2,1L", "H(0-9)/3 H * * *", "59 23 31 12 *", "0 0 29 2 */7", "@hourly", "60 0 0 1-31/2 jan-dec sun-sat"} {
		f.Add(s, "America/New_York")
	}
	f.Fuzz(func(t *testing.T, text, zone string) { check(t, schedule.Spec{Cron: text, Timezone: zone}) })
}

func FuzzRRule(f *testing.F) {
	for _, s := range []string{
		"FREQ=HOURLY;INTERVAL=2;BYHOUR=1", "DTSTART:19700101T000000\nRRULE:FREQ=SECONDLY", "FREQ=DAILY;COUNT=5000", "FREQ=YEARLY;BYWEEKNO=53;BYDAY=MO",
		"FREQ=MONTHLY;BYDAY=-1FR;BYSETPOS=-1;BYHOUR=1,2,3", "FREQ=YEARLY;INTERVAL=1000;BYMONTH=2;BYMONTHDAY=29", "FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30", "FREQ=WEEKLY;BYDAY=MO,TU;UNTIL=20301231T000000Z",
	} {
		f.Add(s, "2026-01-01T09:00:00")
		f.Add(s, "")
	}
	f.Fuzz(func(t *testing.T, text, anchor string) { check(t, schedule.Spec{RRule: text, Anchor: anchor}) })
}

func FuzzJSON(f *testing.F) {
	for _, s := range []string{
		`"0 9 * * 1"`, `"2027-01-31T09:00:00Z"`, `{"at":"2026-03-08T02:30","timezone":"America/New_York"}`, `{"every":"15m","anchor":"2026-01-01T00:05:00Z"}`,
		`{"cron":"* * * * * *","calendars":[{"windows":["00:00-23:59"],"weekdays":["sat"],"dates":["12-25","2026-01-01/2030-12-31"]}],"start_at":"2026-01-01T00:00:00Z"}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var spec schedule.Spec
		if json.Unmarshal(data, &spec) == nil {
			check(t, spec)
		}
	})
}
