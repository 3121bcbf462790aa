package schedule_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/belfry-dev/belfry/internal/schedule"
)

// TestLimits: what a schedule may have at most is accepted, and one more is rejected. TestBombs shows that it takes
// little time up to there.
func TestLimits(t *testing.T) {
	t.Parallel()
	// numbers lists n numbers: 0, 1, 2 and so on.
	numbers := func(first, n int) string {
		all := make([]string, n)
		for i := range all {
			all[i] = fmt.Sprint(first + i)
		}
		return strings.Join(all, ",")
	}
	for name, c := range map[string]struct {
		most int
		spec func(n int) schedule.Spec
	}{
		"COUNT": {5000, func(n int) schedule.Spec {
			return schedule.Spec{RRule: fmt.Sprintf("FREQ=DAILY;COUNT=%d", n), Anchor: "2026-01-01T00:00:00"}
		}},
		"INTERVAL": {1000, func(n int) schedule.Spec {
			return schedule.Spec{RRule: fmt.Sprintf("FREQ=DAILY;INTERVAL=%d", n), Anchor: "2026-01-01T00:00:00"}
		}},
		"BYSETPOS": {32, func(n int) schedule.Spec {
			return schedule.Spec{RRule: "FREQ=YEARLY;BYDAY=MO;BYSETPOS=" + numbers(1, n)}
		}},
		"times of a day, by 1440": {1, func(n int) schedule.Spec {
			return schedule.Spec{
				RRule: "FREQ=DAILY;BYHOUR=" + numbers(0, 24) + ";BYMINUTE=" + numbers(0, 60) + ";BYSECOND=" + numbers(0, n),
			}
		}},
		"characters of a cron expression": {256, func(n int) schedule.Spec {
			const rest = "0 0 * * *"
			return schedule.Spec{Cron: strings.Repeat("0,", (n-len(rest))/2) + strings.Repeat("1", (n-len(rest))%2) + rest}
		}},
		"days of every": {3660, func(n int) schedule.Spec { return schedule.Spec{Every: fmt.Sprintf("%dd", n)} }},
		"calendars": {16, func(n int) schedule.Spec {
			return schedule.Spec{
				Cron: "0 0 * * *", Calendars: slices.Repeat([]schedule.Calendar{{Weekdays: []string{"sun"}}}, n),
			}
		}},
		"entries of calendars": {1000, func(n int) schedule.Spec {
			return schedule.Spec{
				Cron: "0 0 * * *", Calendars: []schedule.Calendar{{Dates: slices.Repeat([]string{"2026-01-01"}, n)}},
			}
		}},
	} {
		if _, err := schedule.New(c.spec(c.most), "job"); err != nil {
			t.Errorf("%d %s: %v", c.most, name, err)
		}
		var refused *schedule.Error
		if _, err := schedule.New(c.spec(c.most+1), "job"); !errors.As(err, &refused) {
			t.Errorf("%d %s: %v", c.most+1, name, err)
		}
	}
	for _, every := range []string{"0s", "999ms", "-1s"} {
		if _, err := schedule.New(schedule.Spec{Every: every}, "job"); err == nil {
			t.Errorf("every %s is accepted", every)
		}
	}
}
