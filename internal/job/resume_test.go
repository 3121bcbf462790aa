package job_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/schedule"
)

func TestResumed(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		missed    job.Missed
		plannedTo time.Duration // 0 if the cursor is ahead
		due       []job.DueTime
		skips     []job.Skip
	}{
		"skip: all of the pause are skipped as paused, up to the instant of the resume": {
			skips: []job.Skip{skipped("paused", 6, 10*mins, 60*mins)},
		},
		"once: the newest runs now, and the others are paused, also those out of the window": {
			missed: job.Missed{Paused: "once"},
			due:    []job.DueTime{caughtUp(60*mins, 60*mins)},
			skips:  []job.Skip{skipped("paused", 5, 10*mins, 50*mins)},
		},
		"all: those within the window run at the pace": {
			missed: job.Missed{Paused: "all", CatchUpWindow: job.Duration(10 * mins)},
			due:    []job.DueTime{caughtUp(50*mins, 60*mins), caughtUp(60*mins, 60*mins+sec)},
			skips:  []job.Skip{skipped("paused", 4, 10*mins, 40*mins)},
		},
		"all: of more than max the newest run": {
			missed: job.Missed{Paused: "all", Max: 1},
			due:    []job.DueTime{caughtUp(60*mins, 60*mins)},
			skips:  []job.Skip{skipped("paused", 5, 10*mins, 50*mins)},
		},
		"the policy for outages has no say": {
			missed: job.Missed{Policy: "all"}, skips: []job.Skip{skipped("paused", 6, 10*mins, 60*mins)},
		},
		"what the cursor has not come to yet is left to it": {
			missed: job.Missed{Paused: "once"}, plannedTo: 40 * mins,
			due: []job.DueTime{caughtUp(30*mins, 60*mins)}, skips: []job.Skip{skipped("paused", 2, 10*mins, 20*mins)},
		},
		"what is due at the instant of the resume is the cursor's, if that has not passed it": {
			plannedTo: 60 * mins, skips: []job.Skip{skipped("paused", 5, 10*mins, 50*mins)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := job.ResumedInput{
				Schedule: compile(t, schedule.Spec{Every: "10m"}), Missed: tc.missed.WithDefaults(), PausedAt: noon,
				Now: at(60 * mins), PlannedTo: at(70 * mins),
			}
			if tc.plannedTo != 0 {
				in.PlannedTo = at(tc.plannedTo)
			}
			r, err := job.Resumed(in)
			require.NoError(t, err)
			require.Equal(t, tc.due, r.Due)
			require.Equal(t, tc.skips, r.Skips)
			require.False(t, r.More)
		})
	}
}

func TestAResumeWithNothingBetweenDoesNothing(t *testing.T) {
	t.Parallel()
	s := compile(t, schedule.Spec{Every: "10m"})
	missed := job.Missed{Paused: "all"}.WithDefaults()
	for name, in := range map[string]job.ResumedInput{
		"at the instant of the pause": {PausedAt: noon, Now: noon},
		"by a clock that went back":   {PausedAt: noon, Now: at(-time.Hour)},
		"with a cursor far behind":    {PausedAt: noon, Now: at(time.Hour), PlannedTo: at(-time.Hour)},
	} {
		in.Schedule, in.Missed = s, missed
		r, err := job.Resumed(in)
		require.NoError(t, err, name)
		require.Empty(t, r.Due, name)
		require.Empty(t, r.Skips, name)
	}
	_, err := job.Resumed(job.ResumedInput{Schedule: s, Missed: missed, Now: noon})
	require.ErrorContains(t, err, "pause")
	_, err = job.Resumed(job.ResumedInput{Schedule: s, Now: noon, PausedAt: noon})
	require.ErrorContains(t, err, "unknown missed policy")
}

func TestEveryOccurrenceOfAPauseIsAccountedForInWhateverChunks(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		plan := anyPlan.Draw(t, "in")
		in := job.ResumedInput{
			Schedule: plan.Schedule, Missed: plan.Missed, PausedAt: plan.NextDue, Now: plan.Now, Limit: plan.Limit,
			Results: plan.Results,
		}
		whole := in
		whole.Limit, whole.Results = 0, 0
		once, err := job.Resumed(whole)
		require.NoError(t, err)
		accounted := int64(0)
		var due []job.DueTime
		for more := true; more; {
			r, err := job.Resumed(in)
			require.NoError(t, err)
			for _, s := range r.Skips {
				accounted += s.Count
				require.NotEmpty(t, s.Reason)
			}
			due = append(due, r.Due...)
			in.PausedAt, in.PacedTo, more = r.NextDue.Add(-time.Microsecond), r.PacedTo, r.More
		}
		require.Equal(t, once.Due, due)
		all := plan.Schedule.Between(plan.NextDue, plan.Now, math.MaxInt)
		require.Len(t, all, int(accounted)+len(due))
	})
}

func TestCreated(t *testing.T) {
	t.Parallel()
	oneOff := schedule.Spec{At: "2026-06-15T12:00:00Z"}
	for name, tc := range map[string]struct {
		spec    schedule.Spec
		created job.MissedPolicy
		now     time.Duration
		due     []job.DueTime
		skips   []job.Skip
	}{
		"a one-off in the future is left to its cursor": {spec: oneOff, now: -sec},
		"a one-off that is due now runs":                {spec: oneOff, now: 0, due: onTime(0)},
		"a one-off that is merely late runs, also with skip": {
			spec: oneOff, created: "skip", now: 9 * sec, due: onTime(0),
		},
		"once: a one-off in the past runs now, whatever the window": {
			spec: oneOff, now: 999 * time.Hour, due: []job.DueTime{caughtUp(0, 999*time.Hour)},
		},
		"all: the same": {spec: oneOff, created: "all", now: time.Hour, due: []job.DueTime{caughtUp(0, time.Hour)}},
		"skip: a one-off in the past is skipped as missed": {
			spec: oneOff, created: "skip", now: 10 * sec, skips: []job.Skip{skipped("missed", 1, 0, 0)},
		},
		"a one-off may be a reading of a zone": {
			spec: schedule.Spec{At: "2026-06-15T14:00", Timezone: "Europe/Berlin"}, now: time.Hour,
			due: []job.DueTime{caughtUp(0, time.Hour)},
		},
		"a recurring job begins after its creation": {spec: schedule.Spec{Every: "1m"}, created: "all", now: time.Hour},
		"a start_at in the past asks for nothing that lies behind it": {
			spec: schedule.Spec{Every: "1m", StartAt: noon}, created: "all", now: time.Hour,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			due, skips := job.Created(job.CreatedInput{
				Schedule: compile(t, tc.spec), Missed: job.Missed{Created: tc.created}.WithDefaults(), Now: at(tc.now),
			})
			require.Equal(t, tc.due, due)
			require.Equal(t, tc.skips, skips)
		})
	}
}

// TestCreatedReachesTheEndsOfTime covers the first and the last year of a one-off.
func TestCreatedReachesTheEndsOfTime(t *testing.T) {
	t.Parallel()
	far := time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, spec := range []schedule.Spec{
		{At: "1970-01-01T00:00:00Z"},
		{At: "1970-01-01T00:00:00", Timezone: "Pacific/Kiritimati"},
		{At: "2199-12-31T00:00:00", Timezone: "America/New_York"},
	} {
		due, _ := job.Created(job.CreatedInput{
			Schedule: compile(t, spec), Missed: job.Missed{}.WithDefaults(), Now: far,
		})
		require.Len(t, due, 1, spec.At)
	}
}

func TestAJobThatJoinsACursorTakesWhatThatHasPlanned(t *testing.T) {
	t.Parallel()
	s := compile(t, schedule.Spec{Every: "20s"})
	cursor := at(80 * sec)
	next, err := job.FirstDue(s, noon)
	require.NoError(t, err)
	r := plan(t, job.PlanInput{Schedule: s, NextDue: next, Now: noon, Until: cursor.Add(-time.Microsecond)})
	require.Equal(t, job.PlanResult{Due: onTime(20*sec, 40*sec, 60*sec), NextDue: cursor}, r)
	_, err = job.FirstDue(compile(t, schedule.Spec{At: "2026-06-15T12:00:00Z"}), noon)
	require.ErrorIs(t, err, schedule.ErrNoMore)
}
