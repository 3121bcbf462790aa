package schedule_test

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/teambition/rrule-go"
	"pgregory.net/rapid"

	"github.com/belfry-dev/belfry/internal/schedule"
)

// TestNextIsLater: for any schedule and any instant, Next is strictly later, no occurrence lies between (Next of any
// instant before is not later), and Next agrees with Between.
func TestNextIsLater(t *testing.T) {
	t.Parallel()
	zone := rapid.SampledFrom(strings.Fields("UTC America/New_York Europe/London Australia/Lord_Howe Pacific/Apia " +
		"Antarctica/Casey Antarctica/Troll America/Sao_Paulo Asia/Kathmandu Africa/Casablanca Asia/Gaza"))
	num := func(lo, hi int) *rapid.Generator[string] {
		return rapid.Custom(func(t *rapid.T) string { return strconv.Itoa(rapid.IntRange(lo, hi).Draw(t, "n")) })
	}
	expr := rapid.Custom(func(t *rapid.T) string {
		pick := func(label string, g ...*rapid.Generator[string]) string { return rapid.OneOf(g...).Draw(t, label) }
		return pick("minute", num(0, 59), rapid.SampledFrom([]string{"*", "*/15", "0,30", "H", "H/20"})) + " " +
			pick("hour", num(0, 23), rapid.SampledFrom([]string{"*", "*/6", "1-3", "22-2", "H"})) + " " +
			pick("dom", num(1, 28), rapid.SampledFrom([]string{"*", "*/2", "L", "L-2", "15W", "LW", "1,15"})) + " " +
			pick("month", rapid.SampledFrom([]string{"*", "3", "nov", "10-3", "*/5"})) + " " +
			pick("dow", num(0, 7), rapid.SampledFrom([]string{"*", "1-5", "sun#1", "5L", "fri-mon"}))
	})
	rapid.Check(t, func(t *rapid.T) {
		s, err := schedule.New(schedule.Spec{
			Cron: expr.Draw(t, "expr"), Timezone: zone.Draw(t, "zone"),
			Calendars: calendars(t),
			DST: schedule.DST{
				Gap:  rapid.SampledFrom([]schedule.Gap{"shift", "skip"}).Draw(t, "gap"),
				Fold: rapid.SampledFrom([]schedule.Fold{"first", "second", "both"}).Draw(t, "fold"),
			},
		}, "job")
		if err != nil {
			t.Skip(err) // the calendars exclude everything
		}
		after := time.Unix(rapid.Int64Range(946684800, 2240524800).Draw(t, "after"),
			rapid.Int64Range(0, 999_999_999).Draw(t, "ns"))
		if _, change := after.In(s.Zone()).ZoneBounds(); !change.IsZero() && rapid.Bool().Draw(t,
			"near a change of the clock") {
			after = change.Add(time.Duration(rapid.Int64Range(-int64(30*time.Hour),
				int64(30*time.Hour)).Draw(t, "distance")))
		}
		next, err := s.Next(after)
		if err != nil {
			// A calendar may admit only occurrences that a gap shifts out of its window. In a zone without further
			// changes of the clock, nothing fires then.
			for _, o := range s.Between(after, after.AddDate(2, 0, 0), 50_000) {
				if o.Skip == "" {
					t.Fatalf("%v, but %s fires", err, o.Due)
				}
			}
			return
		}
		if !next.After(after) {
			t.Fatalf("%s is not after %s", next, after)
		}
		between := after.Add(time.Duration(rapid.Int64Range(0, int64(next.Sub(after))-1).Draw(t, "part")))
		if again, err := s.Next(between); err != nil || !again.Equal(next) {
			t.Fatalf("after %s: %s, but after %s, which is earlier: %s (%v)", between, again, after, next, err)
		}
		var fired []time.Time
		after = later(after, next.AddDate(0, 0, -3)) // Between is called for the last days only
		for _, o := range s.Between(after, next, 5000) {
			if o.Skip == "" {
				fired = append(fired, o.Due)
			}
		}
		if len(fired) != 1 || !fired[0].Equal(next) {
			t.Fatalf("Between lists %v, Next says %s", fired, next)
		}
	})
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// calendars draws windows that begin and end around changes of the clock.
func calendars(t *rapid.T) []schedule.Calendar {
	if rapid.Bool().Draw(t, "no calendar") {
		return nil
	}
	at := rapid.SampledFrom(strings.Fields("00:00 00:30 01:00 01:30 02:00 02:30 03:00 03:30 04:00 22:00"))
	a, b := at.Draw(t, "window from"), at.Draw(t, "window to")
	if a == b {
		b = "12:00"
	}
	return []schedule.Calendar{{
		Windows:  []string{a + "-" + b},
		Weekdays: rapid.SampledFrom([][]string{nil, {"mon"}, {"sat"}}).Draw(t, "weekdays"),
	}}
}

// TestRRuleAgreesWithAnotherImplementation compares with teambition/rrule-go, a port of dateutil that walks each rule
// from its start.
func TestRRuleAgreesWithAnotherImplementation(t *testing.T) {
	t.Parallel()
	list := func(t *rapid.T, label string, lo, hi int, negative bool) string {
		xs := rapid.SliceOfNDistinct(rapid.IntRange(lo, hi), 1, 3, rapid.ID).Draw(t, label)
		parts := make([]string, len(xs))
		for i, x := range xs {
			parts[i] = strconv.Itoa(x)
			if negative && rapid.Bool().Draw(t, "minus") {
				parts[i] = "-" + parts[i]
			}
		}
		return strings.Join(parts, ",")
	}
	days := func(t *rapid.T, numbered bool) string {
		xs := rapid.SliceOfNDistinct(rapid.SampledFrom(strings.Fields("MO TU WE TH FR SA SU")), 1, 4,
			rapid.ID).Draw(t, "days")
		for i := range xs {
			if numbered {
				xs[i] = rapid.SampledFrom([]string{"1", "2", "-1", "-2", "+3"}).Draw(t, "nth") + xs[i]
			}
		}
		return strings.Join(xs, ",")
	}
	rapid.Check(t, func(t *rapid.T) {
		freq := rapid.SampledFrom([]string{"DAILY", "WEEKLY", "MONTHLY", "YEARLY"}).Draw(t, "freq")
		text := "FREQ=" + freq + ";INTERVAL=" + strconv.Itoa(rapid.IntRange(1, 5).Draw(t, "interval"))
		maybe := func(label string) bool { return rapid.Bool().Draw(t, label) }
		if maybe("month?") {
			text += ";BYMONTH=" + list(t, "months", 1, 12, false)
		}
		if freq != "WEEKLY" && maybe("monthday?") {
			text += ";BYMONTHDAY=" + list(t, "monthdays", 1, 31, true)
		}
		weekno := freq == "YEARLY" && rapid.IntRange(0, 4).Draw(t, "weekno?") == 0
		if weekno {
			// Leave out the weeks around New Year. The other implementation puts 2 January 2011 into week 53 (it is in
			// 52), and ignores that the last days of a year may be in week -53 of the next.
			text += ";BYWEEKNO=" + list(t, "weeknos", 2, 51, false)
		}
		if weekno || maybe("day?") {
			text += ";BYDAY=" + days(t, !weekno && (freq == "MONTHLY" || freq == "YEARLY") && maybe("numbered?"))
			// If the start is within a week, the other implementation counts positions from the start. RFC 5545 counts
			// them in the whole week.
			if freq != "WEEKLY" && maybe("setpos?") {
				text += ";BYSETPOS=" + list(t, "setpos", 1, 3, true)
			}
		}
		if freq == "YEARLY" && maybe("yearday?") {
			text += ";BYYEARDAY=" + list(t, "yeardays", 1, 199, true)
		}
		if maybe("hour?") {
			text += ";BYHOUR=" + list(t, "hours", 0, 23, false)
		}
		if maybe("wkst?") {
			text += ";WKST=" + rapid.SampledFrom([]string{"MO", "SU", "WE"}).Draw(t, "wkst")
		}
		if maybe("count?") {
			text += ";COUNT=" + strconv.Itoa(rapid.IntRange(1, 60).Draw(t, "count"))
		}
		start := time.Unix(rapid.Int64Range(946684800, 1700000000).Draw(t, "start"), 0).UTC()
		horizon := start.AddDate(12, 0, 0)
		compareRRule(t, text, start, horizon)
	})
}

func compareRRule(t *rapid.T, text string, start, horizon time.Time) {
	// UNTIL keeps the other implementation from walking to the year 9999.
	option, err := rrule.StrToROption(text)
	if err != nil {
		t.Fatal(text, err)
	}
	option.Dtstart = start
	if option.Count == 0 {
		option.Until = horizon
	}
	other, err := rrule.NewRRule(*option)
	if err != nil {
		t.Fatal(text, err)
	}
	var want []time.Time
	for next := other.Iterator(); len(want) < 80; {
		at, ok := next()
		if !ok || at.After(horizon) {
			break
		}
		want = append(want, at)
	}
	s, err := schedule.New(schedule.Spec{RRule: text, Anchor: start.Format("2006-01-02T15:04:05")}, "")
	if err != nil && len(want) == 0 {
		return // rejected: it never occurs, or not within 12 years
	}
	if err != nil {
		t.Fatal(text, err)
	}
	at := start.Add(-time.Second)
	for i, w := range want {
		if at, err = s.Next(at); err != nil || !at.Equal(w) {
			t.Fatalf("%s from %s: occurrence %d is %s (%v), want %s", text, start, i, at, err, w)
		}
	}
	if len(want) < 80 {
		if at, err = s.Next(at); err == nil && !at.After(horizon) {
			t.Fatalf("%s from %s: extra occurrence %s after %d", text, start, at, len(want))
		}
		require.True(t, err == nil || errors.Is(err, schedule.ErrNoMore))
	}
}
