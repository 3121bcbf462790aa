package job_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/belfry-dev/belfry/internal/job"
)

var (
	start   = job.Admission{Verdict: job.AdmitStart}
	wait    = job.Admission{Verdict: job.AdmitWait}
	replace = job.Admission{Verdict: job.AdmitReplace, Reason: job.ReasonReplaced}
)

func skipAs(why job.Reason) job.Admission { return job.Admission{Verdict: job.AdmitSkip, Reason: why} }

var allOverlaps = []job.Overlap{
	job.OverlapSkip, job.OverlapQueue, job.OverlapQueueAll, job.OverlapAllow, job.OverlapReplace,
}

// TestAdmitByOverlap has the whole table: rows for 0, 1 and many running, columns for 0, 1 and many ahead. Only
// occurrences follow it. Everything else waits, except that a trigger replaces as an occurrence does.
func TestAdmitByOverlap(t *testing.T) {
	t.Parallel()
	overlap, limit := skipAs(job.ReasonOverlap), skipAs(job.ReasonOverlapLimit)
	waits := [3][3]job.Admission{{start, wait, wait}, {wait, wait, wait}, {wait, wait, wait}}
	for policy, table := range map[job.Overlap][3][3]job.Admission{
		job.OverlapSkip: {
			{start, wait, wait},
			{overlap, overlap, overlap},
			{overlap, overlap, overlap},
		},
		job.OverlapQueue: {
			{start, wait, wait},
			{wait, limit, limit},
			{wait, limit, limit},
		},
		job.OverlapQueueAll: {
			{start, wait, wait},
			{wait, wait, wait},
			{wait, wait, wait},
		},
		job.OverlapAllow: {
			{start, start, start},
			{start, start, start},
			{start, start, start},
		},
		job.OverlapReplace: {
			{start, wait, wait},
			{replace, wait, wait},
			{replace, wait, wait},
		},
	} {
		for i, running := range []int{0, 1, 7} {
			for j, ahead := range []int{0, 1, 7} {
				for _, origin := range []job.Origin{
					job.FromSchedule, job.FromTrigger, job.FromBackfill, job.FromMissed, job.FromRedrive,
				} {
					got := job.Admit(job.AdmitInput{
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
		in   job.AdmitInput
		want job.Admission
	}{
		"queue_all: a thousand wait": {
			job.AdmitInput{Overlap: "queue_all", Running: 1, Ahead: job.MaxQueued - 1}, wait,
		},
		"queue_all: one more is skipped": {
			job.AdmitInput{Overlap: "queue_all", Running: 1, Ahead: job.MaxQueued}, skipAs("overlap_limit"),
		},
		"queue_all: also if none is live, for the bound is on rows": {
			job.AdmitInput{Overlap: "queue_all", Ahead: job.MaxQueued}, skipAs("overlap_limit"),
		},
		"skip: nothing had started when it came due, so it is only late": {job.AdmitInput{Running: 1}, wait},
		"skip: the line of late runs is bounded": {
			job.AdmitInput{Running: 1, Ahead: job.MaxQueued}, skipAs("overlap_limit"),
		},
		"queue: nothing had started when it came due, so it is only late": {
			job.AdmitInput{Overlap: "queue", Running: 1, Ahead: 3}, wait,
		},
		"queue: the line of late runs is bounded": {
			job.AdmitInput{Overlap: "queue", Running: 1, Ahead: job.MaxQueued}, skipAs("overlap_limit"),
		},
		"replace: a late run replaces a live one": {job.AdmitInput{Overlap: "replace", Running: 1}, replace},
		"skip: a caught-up run waits, however many are ahead": {
			job.AdmitInput{Running: 1, Busy: true, Ahead: 5000, Origin: job.FromMissed}, wait,
		},
		"a run at its deadline starts": {job.AdmitInput{Deadline: minute, Now: at(time.Minute)}, start},
		"a run past its deadline is skipped as expired": {
			job.AdmitInput{Deadline: minute, Now: at(time.Minute + 1)}, skipAs("expired"),
		},
		"a triggered run has a deadline too": {
			job.AdmitInput{Deadline: minute, Now: at(time.Hour), Origin: job.FromTrigger}, skipAs("expired"),
		},
		"a missed run has a deadline too": {
			job.AdmitInput{Deadline: minute, Now: at(time.Hour), Origin: job.FromMissed}, skipAs("expired"),
		},
		"a backfill is late by nature and does not expire": {
			job.AdmitInput{Deadline: minute, Now: at(time.Hour), Origin: job.FromBackfill}, start,
		},
		"a redrive is late by nature and does not expire": {
			job.AdmitInput{Deadline: minute, Now: at(time.Hour), Origin: job.FromRedrive}, start,
		},
		"no deadline: however late, a run starts": {job.AdmitInput{Now: at(9999 * time.Hour)}, start},
		"expired goes before overlap": {
			job.AdmitInput{Deadline: minute, Now: at(time.Hour), Overlap: "queue", Running: 1}, skipAs("expired"),
		},
		"a scheduled run of a paused job is skipped": {job.AdmitInput{JobState: job.Paused}, skipAs("paused")},
		"a missed run of a paused job is skipped": {
			job.AdmitInput{JobState: job.Paused, Origin: job.FromMissed}, skipAs("paused"),
		},
		"a trigger runs on a paused job":  {job.AdmitInput{JobState: job.Paused, Origin: job.FromTrigger}, start},
		"a backfill runs on a paused job": {job.AdmitInput{JobState: job.Paused, Origin: job.FromBackfill}, start},
		"a redrive runs on a paused job":  {job.AdmitInput{JobState: job.Paused, Origin: job.FromRedrive}, start},
		"a trigger on a paused job waits": {
			job.AdmitInput{JobState: job.Paused, Origin: job.FromTrigger, Running: 1, Busy: true}, wait,
		},
		"queue_all: a trigger waits, however many are ahead": {
			job.AdmitInput{Overlap: "queue_all", Running: 1, Ahead: 5000, Origin: job.FromTrigger}, wait,
		},
		"the last run of a finished job starts": {job.AdmitInput{JobState: job.Finished}, start},
		"a retry does not expire": {
			job.AdmitInput{Attempt: 1, Deadline: minute, Now: at(time.Hour)}, start,
		},
		"a run that was only deferred expires": {
			job.AdmitInput{Attempt: 1, Deferred: true, Deadline: minute, Now: at(time.Hour)}, skipAs("expired"),
		},
		"a run that was only deferred starts in time": {
			job.AdmitInput{Attempt: 1, Deferred: true, Deadline: minute, Now: at(time.Second)}, start,
		},
		"a redrive does not expire": {
			job.AdmitInput{Attempt: 1, Deferred: true, Deadline: minute, Now: at(time.Hour), Origin: job.FromRedrive}, start,
		},
		"a retry on a job that was paused meanwhile goes on": {job.AdmitInput{Attempt: 1, JobState: job.Paused}, start},
		"skip: a retry waits for a run that began meanwhile": {job.AdmitInput{Attempt: 1, Running: 1}, wait},
		"skip: a retry waits for its turn":                   {job.AdmitInput{Attempt: 1, Ahead: 1}, wait},
		"queue: a retry waits, also where another does": {
			job.AdmitInput{Attempt: 2, Overlap: "queue", Running: 1, Ahead: 1}, wait,
		},
		"queue_all: a retry waits, however many do": {
			job.AdmitInput{Attempt: 2, Overlap: "queue_all", Running: 1, Ahead: 5000}, wait,
		},
		"allow: a retry starts": {job.AdmitInput{Attempt: 2, Overlap: "allow", Running: 5, Ahead: 5}, start},
		"replace: a newer run has replaced what waits for a retry": {
			job.AdmitInput{Attempt: 1, Overlap: "replace", Running: 1}, skipAs("replaced"),
		},
		"replace: a retry with none live starts": {job.AdmitInput{Attempt: 1, Overlap: "replace"}, start},
		"replace: a redrive waits, because a user asked for it": {
			job.AdmitInput{Attempt: 4, Overlap: "replace", Running: 1, Origin: job.FromRedrive}, wait,
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
			require.Equal(t, tc.want, job.Admit(in))
		})
	}
}

var anyAdmit = rapid.Custom(func(t *rapid.T) job.AdmitInput {
	return job.AdmitInput{
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
		got := job.Admit(in)
		hasReason := got.Verdict == job.AdmitSkip || got.Verdict == job.AdmitReplace
		require.Equal(t, hasReason, got.Reason != job.ReasonNone, fmt.Sprint(got))
		if in.Overlap != job.OverlapAllow && in.Running > 0 {
			require.NotEqual(t, job.AdmitStart, got.Verdict)
		}
		if in.Running == 0 && in.Ahead == 0 {
			require.NotEqual(t, job.AdmitWait, got.Verdict, "nothing would wake it")
		}
	})
}
