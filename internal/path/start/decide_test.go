package start_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/path/start"
)

// noon is a Monday.
var noon = time.Date(2026, 6, 15, 12, 0, 0, 0, time.UTC)

func at(d time.Duration) time.Time { return noon.Add(d) }

var (
	starts  = start.Decision{Verdict: start.Starts}
	wait    = start.Decision{Verdict: start.Waits}
	replace = start.Decision{Verdict: start.Replaces, Reason: job.ReasonReplaced}
)

func skipAs(why job.Reason) start.Decision { return start.Decision{Verdict: start.Skips, Reason: why} }

var allOverlaps = []job.Overlap{
	job.OverlapSkip, job.OverlapQueue, job.OverlapQueueAll, job.OverlapAllow, job.OverlapReplace,
}

// TestAdmitByOverlap has the whole table: rows for 0, 1 and many running, columns for 0, 1 and many ahead. Only
// occurrences follow it. Everything else waits, except that a trigger replaces as an occurrence does.
func TestAdmitByOverlap(t *testing.T) {
	t.Parallel()
	overlap, limit := skipAs(job.ReasonOverlap), skipAs(job.ReasonOverlapLimit)
	waits := [3][3]start.Decision{{starts, wait, wait}, {wait, wait, wait}, {wait, wait, wait}}
	for policy, table := range map[job.Overlap][3][3]start.Decision{
		job.OverlapSkip: {
			{starts, wait, wait},
			{overlap, overlap, overlap},
			{overlap, overlap, overlap},
		},
		job.OverlapQueue: {
			{starts, wait, wait},
			{wait, limit, limit},
			{wait, limit, limit},
		},
		job.OverlapQueueAll: {
			{starts, wait, wait},
			{wait, wait, wait},
			{wait, wait, wait},
		},
		job.OverlapAllow: {
			{starts, starts, starts},
			{starts, starts, starts},
			{starts, starts, starts},
		},
		job.OverlapReplace: {
			{starts, wait, wait},
			{replace, wait, wait},
			{replace, wait, wait},
		},
	} {
		for i, running := range []int{0, 1, 7} {
			for j, ahead := range []int{0, 1, 7} {
				for _, origin := range []job.Origin{
					job.FromSchedule, job.FromTrigger, job.FromBackfill, job.FromMissed, job.FromRedrive,
				} {
					got := start.Decide(start.Input{
						Overlap: policy, Running: running, Busy: running > 0, Ahead: ahead, DueAt: noon, Now: noon,
						JobState: job.Active, Origin: origin,
					})
					want := table[i][j]
					replaces := origin == job.FromTrigger && policy == job.OverlapReplace
					if origin != job.FromSchedule && policy != job.OverlapAllow && !replaces {
						want = waits[i][j]
					}
					require.Equal(t, want, got, "%s, %d running, %d ahead, origin %d", policy, running, ahead,
						origin)
				}
			}
		}
	}
}

func TestAdmit(t *testing.T) {
	t.Parallel()
	minute := job.Duration(time.Minute)
	for name, tc := range map[string]struct {
		in   start.Input
		want start.Decision
	}{
		"queue_all: a thousand wait": {
			start.Input{Overlap: "queue_all", Running: 1, Ahead: job.MaxQueued - 1}, wait,
		},
		"queue_all: one more is skipped": {
			start.Input{Overlap: "queue_all", Running: 1, Ahead: job.MaxQueued}, skipAs("overlap_limit"),
		},
		"queue_all: also if none is live, for the bound is on rows": {
			start.Input{Overlap: "queue_all", Ahead: job.MaxQueued}, skipAs("overlap_limit"),
		},
		"skip: nothing had started when it came due, so it is only late": {start.Input{Running: 1}, wait},
		"skip: the line of late runs is bounded": {
			start.Input{Running: 1, Ahead: job.MaxQueued}, skipAs("overlap_limit"),
		},
		"queue: nothing had started when it came due, so it is only late": {
			start.Input{Overlap: "queue", Running: 1, Ahead: 3}, wait,
		},
		"queue: the line of late runs is bounded": {
			start.Input{Overlap: "queue", Running: 1, Ahead: job.MaxQueued}, skipAs("overlap_limit"),
		},
		"replace: a late run replaces a live one": {start.Input{Overlap: "replace", Running: 1}, replace},
		"skip: a caught-up run waits, however many are ahead": {
			start.Input{Running: 1, Busy: true, Ahead: 5000, Origin: job.FromMissed}, wait,
		},
		"a run at its deadline starts": {start.Input{Deadline: minute, Now: at(time.Minute)}, starts},
		"a run past its deadline is skipped as expired": {
			start.Input{Deadline: minute, Now: at(time.Minute + 1)}, skipAs("expired"),
		},
		"a triggered run has a deadline too": {
			start.Input{Deadline: minute, Now: at(time.Hour), Origin: job.FromTrigger}, skipAs("expired"),
		},
		"a missed run has a deadline too": {
			start.Input{Deadline: minute, Now: at(time.Hour), Origin: job.FromMissed}, skipAs("expired"),
		},
		"a backfill is late by nature and does not expire": {
			start.Input{Deadline: minute, Now: at(time.Hour), Origin: job.FromBackfill}, starts,
		},
		"a redrive is late by nature and does not expire": {
			start.Input{Deadline: minute, Now: at(time.Hour), Origin: job.FromRedrive}, starts,
		},
		"no deadline: however late, a run starts": {start.Input{Now: at(9999 * time.Hour)}, starts},
		"expired goes before overlap": {
			start.Input{Deadline: minute, Now: at(time.Hour), Overlap: "queue", Running: 1}, skipAs("expired"),
		},
		"a scheduled run of a paused job is skipped": {start.Input{JobState: job.Paused}, skipAs("paused")},
		"a missed run of a paused job is skipped": {
			start.Input{JobState: job.Paused, Origin: job.FromMissed}, skipAs("paused"),
		},
		"a trigger runs on a paused job":  {start.Input{JobState: job.Paused, Origin: job.FromTrigger}, starts},
		"a backfill runs on a paused job": {start.Input{JobState: job.Paused, Origin: job.FromBackfill}, starts},
		"a redrive runs on a paused job":  {start.Input{JobState: job.Paused, Origin: job.FromRedrive}, starts},
		"a trigger on a paused job waits": {
			start.Input{JobState: job.Paused, Origin: job.FromTrigger, Running: 1, Busy: true}, wait,
		},
		"queue_all: a trigger waits, however many are ahead": {
			start.Input{Overlap: "queue_all", Running: 1, Ahead: 5000, Origin: job.FromTrigger}, wait,
		},
		"the last run of a finished job starts": {start.Input{JobState: job.Finished}, starts},
		"a retry does not expire": {
			start.Input{Attempt: 1, Deadline: minute, Now: at(time.Hour)}, starts,
		},
		"a run that was only deferred expires": {
			start.Input{Attempt: 1, Deferred: true, Deadline: minute, Now: at(time.Hour)}, skipAs("expired"),
		},
		"a run that was only deferred starts in time": {
			start.Input{Attempt: 1, Deferred: true, Deadline: minute, Now: at(time.Second)}, starts,
		},
		"a redrive does not expire": {
			start.Input{Attempt: 1, Deferred: true, Deadline: minute, Now: at(time.Hour), Origin: job.FromRedrive}, starts,
		},
		"a retry on a job that was paused meanwhile goes on": {start.Input{Attempt: 1, JobState: job.Paused}, starts},
		"skip: a retry waits for a run that began meanwhile": {start.Input{Attempt: 1, Running: 1}, wait},
		"skip: a retry waits for its turn":                   {start.Input{Attempt: 1, Ahead: 1}, wait},
		"queue: a retry waits, also where another does": {
			start.Input{Attempt: 2, Overlap: "queue", Running: 1, Ahead: 1}, wait,
		},
		"queue_all: a retry waits, however many do": {
			start.Input{Attempt: 2, Overlap: "queue_all", Running: 1, Ahead: 5000}, wait,
		},
		"allow: a retry starts": {start.Input{Attempt: 2, Overlap: "allow", Running: 5, Ahead: 5}, starts},
		"replace: a newer run has replaced what waits for a retry": {
			start.Input{Attempt: 1, Overlap: "replace", Running: 1}, skipAs("replaced"),
		},
		"replace: a retry with none live starts": {start.Input{Attempt: 1, Overlap: "replace"}, starts},
		"replace: a redrive waits, because a user asked for it": {
			start.Input{Attempt: 4, Overlap: "replace", Running: 1, Origin: job.FromRedrive}, wait,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := tc.in
			in.DueAt = noon
			if in.Now.IsZero() {
				in.Now = noon
			}
			if in.Overlap == "" {
				in.Overlap = job.OverlapSkip
			}
			if in.JobState == 0 {
				in.JobState = job.Active
			}
			require.Equal(t, tc.want, start.Decide(in))
		})
	}
}

var anyAdmit = rapid.Custom(func(t *rapid.T) start.Input {
	return start.Input{
		Overlap:  rapid.SampledFrom(allOverlaps).Draw(t, "overlap"),
		Deadline: job.Duration(rapid.SampledFrom([]int64{0, 60e9}).Draw(t, "deadline")),
		JobState: rapid.SampledFrom([]job.State{job.Active, job.Paused, job.Finished}).Draw(t, "state"),
		Origin:   job.Origin(rapid.IntRange(0, 4).Draw(t, "origin")),
		Attempt:  int16(rapid.IntRange(0, 3).Draw(t, "attempt")),
		Running:  rapid.IntRange(0, 3).Draw(t, "running"),
		Ahead:    rapid.SampledFrom([]int{0, 1, 2, 999, 1000, 5000}).Draw(t, "ahead"),
		DueAt:    noon,
		Now:      at(anyOf(t, "late", "0s", "60s", "61s")),
	}
})

func TestEverySkipHasAReasonAndNothingOverlaps(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		in := anyAdmit.Draw(t, "in")
		got := start.Decide(in)
		hasReason := got.Verdict == start.Skips || got.Verdict == start.Replaces
		require.Equal(t, hasReason, got.Reason != job.ReasonNone, fmt.Sprint(got))
		if in.Overlap != job.OverlapAllow && in.Running > 0 {
			require.NotEqual(t, start.Starts, got.Verdict)
		}
		if in.Running == 0 && in.Ahead == 0 {
			require.NotEqual(t, start.Waits, got.Verdict, "nothing would wake it")
		}
	})
}

// anyOf draws a duration from a list. Ranges of rapid are nearly always at their lower end.
func anyOf(t *rapid.T, label string, texts ...string) time.Duration {
	d, err := time.ParseDuration(rapid.SampledFrom(texts).Draw(t, label))
	require.NoError(t, err)
	return d
}
