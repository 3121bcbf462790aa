package job_test

import (
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/schedule"
)

// anySchedule: dense and sparse, with gaps, folds, calendars and ends.
var anySchedule = rapid.Custom(func(t *rapid.T) *schedule.Schedule {
	spec := rapid.SampledFrom([]schedule.Spec{
		{Every: "1s"},
		{Every: "7s"},
		{Every: "13m"},
		{Cron: "*/5 * * * * *", Timezone: "America/New_York"},
		{Cron: "*/10 * * * *", Timezone: "America/New_York"},
		{Cron: "0,30 1-3 * * *", Timezone: "America/New_York", DST: schedule.DST{Gap: "skip", Fold: "both"}},
		{Cron: "0,30 2-3 * * *", Timezone: "America/New_York", DST: schedule.DST{Gap: "skip"}},
		{Cron: "*/15 2 * * *", Timezone: "America/New_York"},
		{Cron: "30 2 * * *", Timezone: "America/New_York", Calendars: []schedule.Calendar{{Weekdays: []string{"sun"}}}},
		{
			Every:     "10s",
			Calendars: []schedule.Calendar{{Windows: []string{"06:05-06:35", "07:10-07:11", "23:00-05:00"}}},
		},
		{
			RRule: "FREQ=DAILY;BYHOUR=1,2,3,5,7;UNTIL=20260309T080000", Anchor: "2026-03-01T00:00:00",
			Timezone: "America/New_York", DST: schedule.DST{Gap: "skip"},
		},
		{At: "2026-03-08T02:30:00", Timezone: "America/New_York"},
		{At: "2026-03-08T07:00:00.123456Z"},
	}).Draw(t, "spec")
	return compile(t, spec)
})

var anyMissed = rapid.Custom(func(t *rapid.T) job.Missed {
	policy := rapid.SampledFrom([]job.MissedPolicy{job.MissedSkip, job.MissedOnce, job.MissedAll})
	return job.Missed{
		Policy: policy.Draw(t, "policy"), Paused: policy.Draw(t, "paused"), Created: policy.Draw(t, "created"),
		CatchUpWindow: job.Duration(anyOf(t, "window", "1s", "15s", "1m", "30m", "2h", "30h", "168h")),
		Max:           rapid.SampledFrom([]int32{1, 2, 3, 10, 100, 10_000}).Draw(t, "max"),
		Pace:          job.Duration(anyOf(t, "pace", "1ms", "1s", "7s", "1h")),
	}
})

// anyOf draws a duration from a list. Ranges of rapid are nearly always at their lower end, so outages would be short.
func anyOf(t *rapid.T, label string, texts ...string) time.Duration {
	d, err := time.ParseDuration(rapid.SampledFrom(texts).Draw(t, label))
	require.NoError(t, err)
	return d
}

// anyPlan begins on the day before the clocks of New York go forward.
var anyPlan = rapid.Custom(func(t *rapid.T) job.PlanInput {
	s := anySchedule.Draw(t, "schedule")
	from := time.Date(2026, 3, 7, 5, 59, 30, 0, time.UTC).Add(anyOf(t, "from", "0s", "30s", "20m", "23h", "24h29m",
		"25h", "26h40m"))
	next, err := job.FirstDue(s, from)
	if errors.Is(err, schedule.ErrNoMore) {
		next, err = job.FirstDue(s, from.Add(-48*time.Hour))
	}
	require.NoError(t, err)
	late := anyOf(t, "late", "-30s", "-1s", "0s", "9.999999s", "10s", "1m", "17m", "1h", "3h")
	if sparse := s.Spec().Every != "1s" && s.Spec().Every != "7s"; sparse {
		late += anyOf(t, "later", "0s", "0s", "1h", "23h", "26h", "40h")
	}
	now := next.Add(late + time.Duration(rapid.IntRange(0, 59_999_999).Draw(t, "part"))*time.Microsecond)
	// This avoids thousands of calls: each visits the whole window.
	least := len(s.Between(next, now, math.MaxInt)) / 50
	bound := func(label string, n ...int) int {
		if n := rapid.SampledFrom(n).Draw(t, label); n > 0 {
			return n + least
		}
		return 0
	}
	return job.PlanInput{
		Schedule: s, Missed: anyMissed.Draw(t, "missed"), NextDue: next, Now: now,
		Until: now.Add(anyOf(t, "ahead", "0s", "1s", "30s", "2m")), MissedUntil: now.Add(-job.MissedGrace),
		Limit: bound("limit", 0, 1, 2, 3, 10, 1000), Results: bound("results", 0, 1, 2, 5, 100),
	}
})

// entry is an occurrence and what happened to it.
type entry struct {
	due    time.Time
	runAt  time.Time // zero if skipped
	reason job.Reason
}

// naive lists what Plan must do, from all occurrences at once.
func naive(in job.PlanInput) []entry {
	missedTo := in.MissedUntil.Add(-1)
	to := in.Until
	if to.Before(missedTo) {
		to = missedTo
	}
	all := in.Schedule.Between(in.NextDue.Add(-1), to, math.MaxInt)
	budget := map[job.MissedPolicy]int{job.MissedOnce: 1, job.MissedAll: int(in.Missed.Max)}[in.Missed.Policy]
	out := make([]entry, len(all))
	var runs []int
	for i, o := range slices.Backward(all) {
		e := &out[i]
		e.due = o.Due.UTC()
		late := in.Now.Sub(o.Due)
		switch {
		case o.Skip != "":
			e.reason = job.Reason(o.Skip)
		case late <= job.MissedGrace:
			e.runAt = e.due
		case in.Missed.Policy == job.MissedSkip:
			e.reason = job.ReasonMissed
		case late > time.Duration(in.Missed.CatchUpWindow):
			e.reason = job.ReasonMissedWindow
		case budget > 0:
			budget--
			runs = append(runs, i)
		case in.Missed.Policy == job.MissedOnce:
			e.reason = job.ReasonMissed
		default:
			e.reason = job.ReasonMissedMax
		}
	}
	for n, i := range slices.Backward(runs) {
		out[i].runAt = in.Now.Add(time.Duration(len(runs)-1-n) * time.Duration(in.Missed.Pace))
	}
	return out
}

// planAll calls Plan until there is no more.
func planAll(t *rapid.T, in job.PlanInput) (results []job.PlanResult) {
	for {
		r, err := job.Plan(in)
		require.NoError(t, err)
		results = append(results, r)
		if !r.More {
			return results
		}
		require.True(t, r.NextDue.After(in.NextDue), "it goes on")
		require.False(t, r.Ended)
		in.NextDue, in.PacedTo = r.NextDue, r.PacedTo
	}
}

// requireSame compares results, however they are split, with the naive list.
func requireSame(t *rapid.T, want []entry, results []job.PlanResult) {
	var due []job.DueTime
	var skips []job.Skip
	for _, r := range results {
		due = append(due, r.Due...)
		skips = append(skips, r.Skips...)
	}
	var wantDue, wantSkips []entry
	for _, e := range want {
		if e.reason == job.ReasonNone {
			wantDue = append(wantDue, e)
		} else {
			wantSkips = append(wantSkips, e)
		}
	}
	require.Len(t, due, len(wantDue))
	for i, d := range due {
		require.Equal(t, wantDue[i].due, d.DueAt)
		require.Equal(t, wantDue[i].runAt, d.RunAt)
		require.False(t, d.RunAt.Before(d.DueAt), "early")
		require.Equal(t, d.Origin == job.FromSchedule, d.RunAt.Equal(d.DueAt))
	}
	for _, s := range skips {
		i, _ := slices.BinarySearchFunc(due, s.From,
			func(d job.DueTime, at time.Time) int { return d.DueAt.Compare(at.Add(1)) })
		require.True(t, i == len(due) || !due[i].DueAt.Before(s.To), "a run amidst a range of skips")
		require.NotEmpty(t, s.Reason)
		require.Positive(t, s.Count)
		require.LessOrEqual(t, s.Count, int64(len(wantSkips)))
		mine := wantSkips[:s.Count]
		wantSkips = wantSkips[s.Count:]
		require.Equal(t, s.From, mine[0].due)
		require.Equal(t, s.To, mine[s.Count-1].due)
		require.False(t, slices.ContainsFunc(mine, func(e entry) bool { return e.reason != s.Reason }))
	}
	require.Empty(t, wantSkips)
}

func TestEveryOccurrenceIsPlannedOnceInWhateverChunks(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		in := anyPlan.Draw(t, "in")
		want := naive(in)
		results := planAll(t, in)
		requireSame(t, want, results)
		for _, r := range results {
			requireBounded(t, in, r)
		}
		last := results[len(results)-1]
		requireNext(t, in, last)
		if in.Limit == 0 && in.Results == 0 {
			require.Len(t, results, 1)
			for i := 1; i < len(last.Skips); i++ {
				a, b := last.Skips[i-1], last.Skips[i]
				between := slices.ContainsFunc(last.Due, func(d job.DueTime) bool {
					return !d.DueAt.Before(a.To) && !d.DueAt.After(b.From)
				})
				require.True(t, a.Reason != b.Reason || between, "one range")
			}
		}
	})
}

// requireBounded checks the bounds. Two occurrences with one due time may exceed them.
func requireBounded(t *rapid.T, in job.PlanInput, r job.PlanResult) {
	for _, bound := range []int{in.Limit, in.Results} {
		if bound > 0 {
			require.LessOrEqual(t, len(r.Due), bound+1)
		}
	}
}

// requireNext checks that the cursor points at the first occurrence that was not planned.
func requireNext(t *rapid.T, in job.PlanInput, last job.PlanResult) {
	to := in.Until
	if missed := in.MissedUntil.Add(-1); to.Before(missed) {
		to = missed
	}
	rest := in.Schedule.Between(to, to.Add(10*24*time.Hour), 1)
	require.Equal(t, last.Ended, len(rest) == 0)
	require.Equal(t, last.Ended, last.NextDue.IsZero())
	if !last.Ended {
		require.True(t, rest[0].Due.Equal(last.NextDue) || in.NextDue.Equal(last.NextDue))
		require.True(t, last.NextDue.After(to))
		require.False(t, last.NextDue.Before(in.NextDue))
	}
}

func TestPlanningInSmallStepsIsPlanningAtOnce(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		in := anyPlan.Draw(t, "in")
		want := naive(in)
		end := in.Until
		var results []job.PlanResult
		for until := in.Now.Add(-time.Minute); ; until = until.Add(anyOf(t, "step", "1s", "7s", "33.3s", "1m")) {
			in.Until = until
			if until.After(end) {
				in.Until = end
			}
			results = append(results, planAll(t, in)...)
			last := results[len(results)-1]
			if last.Ended || !until.Before(end) {
				break
			}
			in.NextDue, in.PacedTo = last.NextDue, last.PacedTo
		}
		requireSame(t, want, results)
	})
}

// TestABegunDueTimeStaysAsItBegan: a transaction may write the runs of a due time for some jobs only. Whatever happens
// until the next one, the other jobs get the same, nothing is recorded twice, and planning continues after it.
func TestABegunDueTimeStaysAsItBegan(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		in := anyPlan.Draw(t, "in")
		r, err := job.Plan(in)
		require.NoError(t, err)
		if len(r.Due) == 0 {
			return
		}
		begun := rapid.SampledFrom(r.Due).Draw(t, "begun")
		in.NextDue, in.Begun, in.Results = begun.DueAt, &begun.Origin, 1
		if begun.Origin == job.FromMissed {
			in.PacedTo = begun.RunAt
		}
		in.Now = in.Now.Add(anyOf(t, "pass", "0s", "1ms", "5s", "1m", "40m", "30h"))
		in.Until = in.Now.Add(time.Minute)
		r, err = job.Plan(in)
		require.NoError(t, err)
		runAt := in.NextDue
		if *in.Begun == job.FromMissed {
			runAt = slices.MaxFunc([]time.Time{in.Now, in.PacedTo}, time.Time.Compare)
		}
		require.Equal(t, []job.DueTime{{DueAt: in.NextDue, RunAt: runAt.UTC(), Origin: *in.Begun}}, r.Due)
		require.True(t, r.Ended || r.NextDue.After(in.NextDue))
		for _, s := range r.Skips {
			require.True(t, s.From.After(in.NextDue), "recorded twice")
		}
	})
}

// TestEveryOccurrenceIsPlannedOnceThroughOutages advances time: the planner is called early, late and after outages,
// with bounds that split its work.
func TestEveryOccurrenceIsPlannedOnceThroughOutages(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		in := anyPlan.Draw(t, "in")
		start := in.NextDue
		accounted, runs := int64(0), int64(0)
		ended := false
		var lastDue time.Time
		for range rapid.IntRange(1, 40).Draw(t, "calls") {
			r, err := job.Plan(in)
			require.NoError(t, err)
			for _, s := range r.Skips {
				accounted += s.Count
			}
			for _, d := range r.Due {
				accounted++
				runs++
				require.True(t, d.DueAt.After(lastDue), "twice, or out of order")
				require.False(t, d.RunAt.Before(d.DueAt), "early")
				lastDue = d.DueAt
			}
			if ended = r.Ended; ended {
				break
			}
			in.NextDue = r.NextDue
			pass := rapid.SampledFrom([]int64{0, 1e6, 1e9, 5e9, 60e9, 600e9}).Draw(t, "pass")
			in.Now = in.Now.Add(time.Duration(pass))
			in.Until, in.MissedUntil = in.Now.Add(time.Minute), in.Now.Add(-job.MissedGrace)
		}
		to := in.NextDue.Add(-1)
		if ended {
			to = start.Add(365 * 24 * time.Hour)
		}
		all := in.Schedule.Between(start.Add(-1), to, math.MaxInt)
		require.EqualValues(t, len(all), accounted)
		require.LessOrEqual(t, runs, accounted)
	})
}
