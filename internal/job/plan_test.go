package job_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/schedule"
)

// noon is a Monday.
var noon = time.Date(2026, 6, 15, 12, 0, 0, 0, time.UTC)

func at(d time.Duration) time.Time { return noon.Add(d) }

func compile(t require.TestingT, spec schedule.Spec) *schedule.Schedule {
	s, err := schedule.New(spec, "spread")
	require.NoError(t, err)
	return s
}

func plan(t require.TestingT, in job.PlanInput) job.PlanResult {
	in.Missed = in.Missed.WithDefaults()
	if in.Until.IsZero() {
		in.Until = in.Now.Add(time.Minute)
	}
	if in.MissedUntil.IsZero() { // a node serves the partition since now
		in.MissedUntil = in.Now.Add(-job.MissedGrace)
	}
	r, err := job.Plan(in)
	require.NoError(t, err)
	decided := len(r.Due)
	for _, s := range r.Skips {
		decided += int(s.Count)
	}
	require.GreaterOrEqual(t, r.Visited, decided)
	r.Visited = 0
	return r
}

func onTime(d ...time.Duration) (out []job.DueTime) {
	for _, d := range d {
		out = append(out, job.DueTime{DueAt: at(d), RunAt: at(d), Origin: job.FromSchedule})
	}
	return out
}

func caughtUp(due, run time.Duration) job.DueTime {
	return job.DueTime{DueAt: at(due), RunAt: at(run), Origin: job.FromMissed}
}

func skipped(why job.Reason, n int64, from, to time.Duration) job.Skip {
	return job.Skip{From: at(from), To: at(to), Count: n, Reason: why}
}

const (
	sec  = time.Second
	mins = time.Minute
)

func TestPlan(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		every   string
		missed  job.Missed
		next    time.Duration // since noon, as all below
		now     time.Duration
		due     []job.DueTime
		skips   []job.Skip
		nextDue time.Duration
	}{
		"what is due within the look-ahead runs at its time": {
			every: "20s", next: 20 * sec, now: sec, due: onTime(20*sec, 40*sec, 60*sec), nextDue: 80 * sec,
		},
		"what is due at the end of the look-ahead is within it": {
			every: "1m", next: mins, now: 0, due: onTime(mins), nextDue: 2 * mins,
		},
		"what is due later stays": {
			every: "1h", next: 60 * mins, now: 0, nextDue: 60 * mins,
		},
		"what is late by the grace is not missed": {
			every: "1h", missed: job.Missed{Policy: "skip"}, next: 0, now: job.MissedGrace, due: onTime(0),
			nextDue: 60 * mins,
		},
		"what is late by more than the grace is missed": {
			every: "1h", missed: job.Missed{Policy: "skip"}, next: 0, now: job.MissedGrace + 1,
			skips: []job.Skip{skipped("missed", 1, 0, 0)}, nextDue: 60 * mins,
		},
		"skip: all missed ones are skipped as missed, however old": {
			every: "10m", missed: job.Missed{Policy: "skip"}, next: 0, now: 65 * mins,
			skips: []job.Skip{skipped("missed", 7, 0, 60*mins)}, nextDue: 70 * mins,
		},
		"once: the newest missed one runs now": {
			every: "10m", next: 0, now: 25 * mins,
			due: []job.DueTime{caughtUp(20*mins, 25*mins)}, skips: []job.Skip{skipped("missed", 2, 0, 10*mins)},
			nextDue: 30 * mins,
		},
		"once: what is older than the window has that reason": {
			every: "10m", next: 0, now: 65 * mins,
			due:     []job.DueTime{caughtUp(60*mins, 65*mins)},
			skips:   []job.Skip{skipped("missed_window", 4, 0, 30*mins), skipped("missed", 2, 40*mins, 50*mins)},
			nextDue: 70 * mins,
		},
		"once: what is as old as the window is within it": {
			every: "1h", next: 0, now: 30 * mins, due: []job.DueTime{caughtUp(0, 30*mins)}, nextDue: 60 * mins,
		},
		"once: nothing within the window, nothing runs": {
			every: "1h", next: 0, now: 31 * mins, skips: []job.Skip{skipped("missed_window", 1, 0, 0)},
			nextDue: 60 * mins,
		},
		"once: a window shorter than the grace lets nothing run": {
			every: "1m", missed: job.Missed{CatchUpWindow: job.Duration(sec)}, next: 0, now: 30 * sec,
			due: onTime(mins), skips: []job.Skip{skipped("missed_window", 1, 0, 0)}, nextDue: 2 * mins,
		},
		"all: those within the window run in order at the pace": {
			every: "10m", missed: job.Missed{Policy: "all", Pace: job.Duration(5 * sec)}, next: 0, now: 45 * mins,
			due: []job.DueTime{
				caughtUp(20*mins, 45*mins), caughtUp(30*mins, 45*mins+5*sec), caughtUp(40*mins, 45*mins+10*sec),
			},
			skips: []job.Skip{skipped("missed_window", 2, 0, 10*mins)}, nextDue: 50 * mins,
		},
		"all: of more than max the newest run": {
			every: "10m", missed: job.Missed{Policy: "all", Max: 2}, next: 0, now: 45 * mins,
			due:     []job.DueTime{caughtUp(30*mins, 45*mins), caughtUp(40*mins, 45*mins+sec)},
			skips:   []job.Skip{skipped("missed_window", 2, 0, 10*mins), skipped("missed_max", 1, 20*mins, 20*mins)},
			nextDue: 50 * mins,
		},
		"all: what is as old as the window is within it, also if it is more than max": {
			every: "10m", missed: job.Missed{Policy: "all", Max: 1}, next: 0, now: 30 * mins,
			due:   append([]job.DueTime{caughtUp(20*mins, 30*mins)}, onTime(30*mins)...),
			skips: []job.Skip{skipped("missed_max", 2, 0, 10*mins)}, nextDue: 40 * mins,
		},
		"missed ones and those ahead in one call": {
			every: "20s", next: 0, now: 35 * sec,
			due:   append([]job.DueTime{caughtUp(20*sec, 35*sec)}, onTime(40*sec, 60*sec, 80*sec)...),
			skips: []job.Skip{skipped("missed", 1, 0, 0)}, nextDue: 100 * sec,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := plan(t, job.PlanInput{
				Schedule: compile(t, schedule.Spec{Every: tc.every}), Missed: tc.missed, NextDue: at(tc.next),
				Now: at(tc.now),
			})
			require.Equal(t, job.PlanResult{Due: tc.due, Skips: tc.skips, NextDue: at(tc.nextDue)}, got)
		})
	}
}

func TestPlanEndsWithTheSchedule(t *testing.T) {
	t.Parallel()
	s := compile(t, schedule.Spec{At: "2026-06-15T12:00:00.25Z"})
	due := at(250 * time.Millisecond)
	r := plan(t, job.PlanInput{Schedule: s, NextDue: due, Now: noon})
	require.Equal(t, job.PlanResult{Due: []job.DueTime{{DueAt: due, RunAt: due}}, Ended: true}, r)
	r = plan(t, job.PlanInput{Schedule: s, NextDue: due, Now: at(-time.Hour)})
	require.Equal(t, job.PlanResult{NextDue: due}, r)
}

func TestPlanSkipsWhatACalendarExcludesAlsoAsTheNewestMissed(t *testing.T) {
	t.Parallel()
	s := compile(t, schedule.Spec{Every: "10m", Calendars: []schedule.Calendar{{Windows: []string{"12:20-12:40"}}}})
	r := plan(t, job.PlanInput{Schedule: s, NextDue: noon, Now: at(35 * mins)})
	require.Equal(t, []job.DueTime{caughtUp(10*mins, 35*mins)}, r.Due,
		"within the window of 30 minutes, not the excluded newer ones")
	require.Equal(t, []job.Skip{skipped("missed_window", 1, 0, 0), skipped("calendar", 2, 20*mins, 30*mins)}, r.Skips)
	require.Equal(t, at(40*mins), r.NextDue)
}

func TestAllMissedOnesAreDealtWithAlsoIfUntilLiesBeforeThem(t *testing.T) {
	t.Parallel() // otherwise a call between them would give "once" two runs
	s := compile(t, schedule.Spec{Every: "10m"})
	r := plan(t, job.PlanInput{Schedule: s, NextDue: noon, Now: at(25 * mins), Until: at(5 * mins)})
	require.Equal(t, []job.DueTime{caughtUp(20*mins, 25*mins)}, r.Due)
	require.Equal(t, at(30*mins), r.NextDue)
}

func TestThePaceHoldsOverSeveralCalls(t *testing.T) {
	t.Parallel()
	s := compile(t, schedule.Spec{Every: "1s"})
	in := job.PlanInput{
		Schedule: s, Missed: job.Missed{Policy: "all"}, NextDue: at(-12 * sec), Now: noon, Limit: 1, PacedTo: at(5 * sec),
	}
	r := plan(t, in)
	require.Equal(t, job.PlanResult{
		Due: []job.DueTime{caughtUp(-12*sec, 5*sec)}, NextDue: at(-11 * sec), PacedTo: at(6 * sec), More: true,
	}, r)
	in.NextDue, in.PacedTo = r.NextDue, r.PacedTo
	r = plan(t, in)
	require.Equal(t, job.PlanResult{
		Due: []job.DueTime{caughtUp(-11*sec, 6*sec)}, NextDue: at(-10 * sec), More: true,
	}, r)
}

func TestNothingIsMissedWhileANodeServes(t *testing.T) {
	t.Parallel()
	s := compile(t, schedule.Spec{Every: "10m"})
	r, err := job.Plan(job.PlanInput{
		Schedule: s, Missed: job.Missed{Policy: "skip"}.WithDefaults(), NextDue: noon, Now: at(25 * mins),
		Until: at(26 * mins),
	})
	require.NoError(t, err)
	require.Equal(t, job.PlanResult{Due: onTime(0, 10*mins, 20*mins), NextDue: at(30 * mins), Visited: 3}, r, "late")
	r = plan(t, job.PlanInput{
		Schedule: s, Missed: job.Missed{Policy: "skip"}, NextDue: noon, Now: at(25 * mins), Until: at(26 * mins),
		MissedUntil: at(10 * mins),
	})
	require.Equal(t, job.PlanResult{
		Due: onTime(10*mins, 20*mins), Skips: []job.Skip{skipped("missed", 1, 0, 0)}, NextDue: at(30 * mins),
	}, r, "missed until 12:10, then late")
}

// TestCatchUpIsPlan: the decision about an occurrence does not depend on whether it was planned before the outage.
func TestCatchUpIsPlan(t *testing.T) {
	t.Parallel()
	const now = 10 * mins
	s := compile(t, schedule.Spec{Every: "10s"})
	for _, missed := range []job.Missed{
		{Policy: "skip"},
		{Policy: "once"},
		{Policy: "all"},
		{Policy: "all", Max: 7},
		{Policy: "all", CatchUpWindow: job.Duration(3 * mins)},
		{Policy: "once", CatchUpWindow: job.Duration(sec)},
	} {
		missed = missed.WithDefaults()
		whole := plan(t, job.PlanInput{Schedule: s, Missed: missed, NextDue: noon, Now: at(now), Until: at(now)})
		for planned := range 60 {
			caughtUp, err := job.CatchUp(job.MissedInput{
				Schedule: s, Missed: missed, From: noon, Until: at(now - job.MissedGrace), Now: at(now),
			})
			require.NoError(t, err)
			var due []time.Time
			for i := range planned {
				due = append(due, at(time.Duration(i)*10*sec))
			}
			got := job.PlanResult{PacedTo: at(now)}
			for i, c := range caughtUp(due) {
				if c.Reason != "" {
					got.Skips = append(got.Skips, job.Skip{From: due[i], To: due[i], Count: 1, Reason: c.Reason})
					continue
				}
				got.Due = append(got.Due, job.DueTime{DueAt: due[i], RunAt: c.RunAt, Origin: job.FromMissed})
				got.PacedTo = c.RunAt.Add(time.Duration(missed.Pace))
			}
			rest := plan(t, job.PlanInput{
				Schedule: s, Missed: missed, NextDue: at(time.Duration(planned) * 10 * sec), Now: at(now), Until: at(now),
				PacedTo: got.PacedTo,
			})
			require.Equal(t, whole.Due, append(got.Due, rest.Due...), "%v, %d planned", missed, planned)
			require.Equal(t, reasons(whole.Skips), reasons(append(got.Skips, rest.Skips...)), "%v, %d", missed, planned)
		}
	}
}

func reasons(skips []job.Skip) map[job.Reason]int64 {
	out := map[job.Reason]int64{}
	for _, s := range skips {
		out[s.Reason] += s.Count
	}
	return out
}

func TestARangeOfSkipsEndsWhereARunLiesBetween(t *testing.T) {
	t.Parallel()
	s := compile(t, schedule.Spec{
		Every: "10m", Calendars: []schedule.Calendar{{Windows: []string{"12:00-12:20", "12:30-12:40"}}},
	})
	r := plan(t, job.PlanInput{Schedule: s, NextDue: noon, Now: at(25 * mins), Until: at(35 * mins)})
	require.Equal(t, []job.DueTime{caughtUp(20*mins, 25*mins)}, r.Due)
	require.Equal(t, []job.Skip{skipped("calendar", 2, 0, 10*mins), skipped("calendar", 1, 30*mins, 30*mins)}, r.Skips)
}

func TestPlanStopsAtAnExcludedOccurrenceToAccountForItWhenItIsDue(t *testing.T) {
	t.Parallel()
	s := compile(t, schedule.Spec{Cron: "0 12 * * *", Calendars: []schedule.Calendar{{Weekdays: []string{"tue"}}}})
	r := plan(t, job.PlanInput{Schedule: s, NextDue: noon, Now: noon})
	require.Equal(t, at(24*time.Hour), r.NextDue)
	r = plan(t, job.PlanInput{Schedule: s, NextDue: r.NextDue, Now: r.NextDue})
	require.Empty(t, r.Due)
	require.Equal(t, []job.Skip{skipped("calendar", 1, 24*time.Hour, 24*time.Hour)}, r.Skips)
	require.Equal(t, at(48*time.Hour), r.NextDue)
}

// TestPlanDoesNotCutBetweenTwoWithOneDueTime: 02:00 and 02:30 are in the gap, which ends at 03:00, when another fires.
func TestPlanDoesNotCutBetweenTwoWithOneDueTime(t *testing.T) {
	t.Parallel()
	s := compile(t, schedule.Spec{Cron: "0,30 2-3 * * *", Timezone: "America/New_York", DST: schedule.DST{Gap: "skip"}})
	end := time.Date(2026, 3, 8, 7, 0, 0, 0, time.UTC)
	r := plan(t, job.PlanInput{Schedule: s, NextDue: end, Now: end.Add(-mins), Until: end.Add(time.Hour), Limit: 1})
	require.Equal(t, job.PlanResult{
		Due:     []job.DueTime{{DueAt: end, RunAt: end}},
		Skips:   []job.Skip{{From: end, To: end, Count: 1, Reason: job.ReasonGap}},
		NextDue: end.Add(30 * mins), More: true,
	}, r)
}

// TestPlanGoesOnWhereTheSearchIsGivenUp: since Hong Kong abolished DST, the window excludes every occurrence. Before
// that, the end of the gap was outside the window. Next gives up, but that is neither the end of the schedule nor a
// reason to stop its cursor.
func TestPlanGoesOnWhereTheSearchIsGivenUp(t *testing.T) {
	t.Parallel()
	s := compile(t, schedule.Spec{
		Cron: "30 3 * * *", Timezone: "Asia/Hong_Kong",
		Calendars: []schedule.Calendar{{Windows: []string{"03:00-04:00"}}},
	})
	_, err := s.Next(noon)
	require.ErrorIs(t, err, schedule.ErrTooFar)
	first, err := job.FirstDue(s, noon)
	require.NoError(t, err)
	r := plan(t, job.PlanInput{Schedule: s, NextDue: first, Now: first})
	require.Equal(t, job.PlanResult{
		Skips:   []job.Skip{{From: first, To: first, Count: 1, Reason: job.ReasonCalendar}},
		NextDue: first.Add(24 * time.Hour),
	}, r)
}

func TestPlanTakesACursorThatIsNoOccurrenceAnyMore(t *testing.T) {
	t.Parallel() // the zone's rules have changed since it was stored
	s := compile(t, schedule.Spec{Every: "10m"})
	r := plan(t, job.PlanInput{Schedule: s, NextDue: at(sec), Now: at(sec)})
	require.Equal(t, job.PlanResult{NextDue: at(10 * mins)}, r)
}

func TestPlanRefusesWhatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	s := compile(t, schedule.Spec{Every: "10m"})
	_, err := job.Plan(job.PlanInput{Schedule: s, NextDue: noon, Now: noon, Missed: job.Missed{Policy: "newer"}})
	require.ErrorContains(t, err, "unknown missed policy")
	_, err = job.Plan(job.PlanInput{Schedule: s, Now: noon, Missed: job.Missed{}.WithDefaults()})
	require.ErrorContains(t, err, "next due")
}

// TestPlanAfterALongOutageEachSecond: a million occurrences are counted in several calls, and the caught-up runs are
// the same as with one call.
func TestPlanAfterALongOutageEachSecond(t *testing.T) {
	t.Parallel()
	const outage = 12 * 24 * time.Hour
	s := compile(t, schedule.Spec{Every: "1s"})
	for policy, runs := range map[job.MissedPolicy]int{"skip": 0, "once": 1, "all": 100} {
		next, paced, skips, calls := noon.Add(-outage), time.Time{}, int64(0), 0
		var due []job.DueTime
		for more := true; more; calls++ {
			r := plan(t, job.PlanInput{
				Schedule: s, Missed: job.Missed{Policy: policy}, NextDue: next, PacedTo: paced, Now: noon,
			})
			require.LessOrEqual(t, len(r.Skips), 3)
			for _, k := range r.Skips {
				skips += k.Count
			}
			due = append(due, r.Due...)
			require.True(t, r.NextDue.After(next))
			next, paced, more = r.NextDue, r.PacedTo, r.More
		}
		// Up to the grace, then ten seconds to the instant and a minute ahead.
		missed := int64(outage/sec) - 10
		require.Equal(t, missed-int64(runs), skips, policy)
		require.Len(t, due, runs+11+60, policy)
		require.Equal(t, 11, calls, policy)
		for i, d := range due[:runs] {
			require.Equal(t, caughtUp(-11*sec-time.Duration(runs-1-i)*sec, time.Duration(i)*sec), d, policy)
		}
	}
}

func TestRetryBroken(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 8, 2, 30, 0, 0, time.UTC)
	until := now.Add(time.Minute)
	for _, c := range []struct {
		since time.Duration // negative if it has just failed
		pause time.Duration
	}{
		{-1, time.Minute},
		{0, time.Minute},
		{30 * time.Second, time.Minute},
		{8 * time.Minute, 8 * time.Minute}, // so the pauses double
		{30 * 24 * time.Hour, time.Hour},
	} {
		var since *time.Time
		if c.since >= 0 {
			at := now.Add(-c.since)
			since = &at
		}
		require.Equal(t, until.Add(c.pause), job.RetryBroken(since, now, until), "broken for %s", c.since)
	}
	ahead := now.Add(time.Hour) // the clock has gone back
	require.Equal(t, until.Add(time.Minute), job.RetryBroken(&ahead, now, until))
}

// TestFollowZones: by new rules an occurrence may come earlier or later. If its time has passed by then, it keeps the
// old one.
func TestFollowZones(t *testing.T) {
	t.Parallel()
	s := compile(t, schedule.Spec{Cron: "0 9 * * *", Timezone: "Europe/Berlin"})
	at := func(hour, minute int) time.Time { return time.Date(2026, 6, 1, hour, minute, 0, 0, time.UTC) }
	for _, x := range []struct{ next, planned, want time.Time }{
		{at(7, 0), at(3, 0), at(7, 0)},
		{at(8, 0), at(3, 0), at(7, 0)},
		{at(6, 0), at(3, 0), at(7, 0)},
		{at(8, 0), at(7, 30), at(8, 0)},  // passed by the new rules
		{at(8, 0), at(8, 0), at(8, 0)},   // planned
		{at(8, 0), at(12, 0), at(8, 0)},  // behind
		{at(31, 0), at(7, 0), at(31, 0)}, // tomorrow
	} {
		got, err := job.FollowZones(s, x.next, x.planned)
		require.NoError(t, err)
		require.Equal(t, x.want, got, "next %s, planned %s", x.next, x.planned)
	}
}
