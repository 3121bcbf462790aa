package schedule_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/belfry-dev/belfry/internal/schedule"
)

// budget is what any single call may cost, whatever the input. The test takes the best of three, because the machine
// may be busy.
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

// since starts a measurement. The function it returns gives the CPU time of this thread since then. Wall-clock time
// would depend on how busy the machine is.
func since() func() time.Duration {
	runtime.LockOSThread()
	begin := threadTime()
	return func() time.Duration {
		defer runtime.UnlockOSThread()
		return threadTime() - begin
	}
}

func threadTime() time.Duration {
	var u syscall.Rusage
	const thread = 1 // RUSAGE_THREAD
	if err := syscall.Getrusage(thread, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// use compiles a spec and searches; it returns the time of the slowest single call.
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

// TestBombs has the most expensive inputs that were found.
func TestBombs(t *testing.T) {
	var minutes, windows, dates []string
	for i := range 60 {
		minutes = append(minutes, strconv.Itoa(i))
	}
	for i := range 999 {
		windows = append(windows, fmt.Sprintf("%02d:%02d-%02d:%02d", i/60, i%60, (i+1)/60, (i+1)%60))
		dates = append(dates, day(2026, 1, 1+2*i).Format(time.DateOnly))
	}
	hours := strings.Join(minutes[:24], ",")
	all := ";BYHOUR=" + hours + ";BYMINUTE=" + strings.Join(minutes, ",")
	calendar := []schedule.Calendar{{Windows: windows}}
	for name, spec := range map[string]schedule.Spec{
		"count of 1440 times a day": {
			RRule: "FREQ=YEARLY;BYDAY=MO,TU,WE,TH,FR,SA,SU" + all + ";COUNT=1", Anchor: "2026-01-01T00:00:00",
		},
		"large count, rare": {RRule: "FREQ=DAILY;BYMONTH=2;BYMONTHDAY=29;COUNT=5000", Anchor: "1970-01-01T00:00:00"},
		"positions that do not exist": {
			RRule:  "FREQ=MONTHLY;BYMONTHDAY=1;BYHOUR=1;BYSETPOS=2,3,4,5,6,7,8,9,10;COUNT=5000",
			Anchor: "1970-01-01T00:00:00",
		},
		"never, daily":           {RRule: "FREQ=DAILY;INTERVAL=7;BYDAY=TU"},
		"never, yearly":          {RRule: "FREQ=YEARLY;BYWEEKNO=53;BYMONTH=6;BYDAY=MO"},
		"windows side by side":   {Every: "1s", Calendars: calendar},
		"windows and 1440 times": {RRule: "FREQ=YEARLY" + all, Calendars: calendar},
		"every other day excluded": {
			Cron: "0 12 */2 * *", Calendars: []schedule.Calendar{{Dates: dates}}, StartAt: day(2026, 1, 1),
		},
		"noon excluded": {
			Cron: "0 12 * * *", Calendars: []schedule.Calendar{{Windows: []string{"11:00-13:00"}}},
		},
		"leap day on a weekday": {Cron: "0 0 29 2 */7", Calendars: []schedule.Calendar{{Weekdays: []string{"sun"}}}},
	} {
		t.Run(name, func(t *testing.T) { check(t, spec) })
	}
}

func FuzzCron(f *testing.F) {
	for _, s := range []string{
		"0 0 30 2 *", "TZ=", "TZ=UTC 0 0 * * *", "*/5 * * * *", "0 0 L-3,15W * 5#2,1L", "H(0-9)/3 H * * *",
		"* * * * H(7)", "* * * * H(0-7)", "59 23 31 12 *", "0 0 29 2 */7", "@hourly", "60 0 0 1-31/2 jan-dec sun-sat",
	} {
		f.Add(s, "America/New_York")
	}
	f.Fuzz(func(t *testing.T, text, zone string) { check(t, schedule.Spec{Cron: text, Timezone: zone}) })
}

func FuzzRRule(f *testing.F) {
	for _, s := range []string{
		"FREQ=HOURLY;INTERVAL=2;BYHOUR=1", "DTSTART:19700101T000000\nRRULE:FREQ=SECONDLY", "FREQ=DAILY;COUNT=5000",
		"FREQ=YEARLY;BYWEEKNO=53;BYDAY=MO",
		"FREQ=MONTHLY;BYDAY=-1FR;BYSETPOS=-1;BYHOUR=1,2,3", "FREQ=YEARLY;INTERVAL=1000;BYMONTH=2;BYMONTHDAY=29",
		"FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30", "FREQ=WEEKLY;BYDAY=MO,TU;UNTIL=20301231T000000Z",
	} {
		f.Add(s, "2026-01-01T09:00:00")
		f.Add(s, "")
	}
	f.Fuzz(func(t *testing.T, text, anchor string) { check(t, schedule.Spec{RRule: text, Anchor: anchor}) })
}

func FuzzJSON(f *testing.F) {
	for _, s := range []string{
		`"0 9 * * 1"`, `"2027-01-31T09:00:00Z"`, `{"at":"2026-03-08T02:30","timezone":"America/New_York"}`,
		`{"every":"15m","anchor":"2026-01-01T00:05:00Z"}`,
		`{"cron":"* * * * * *","calendars":[{"windows":["00:00-23:59"],"weekdays":["sat"],"dates":["12-25",` +
			`"2026-01-01/2030-12-31"]}],"start_at":"2026-01-01T00:00:00Z"}`,
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
