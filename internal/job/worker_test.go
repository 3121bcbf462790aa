package job_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
)

func dueOf(id byte, handler string, admit job.AdmitRule) job.Due {
	return job.Due{Key: job.Key{Job: uuid.UUID{id}}, Handler: handler, Admit: admit}
}

func TestDeal(t *testing.T) {
	t.Parallel()
	a := job.Poll{Handlers: []string{"x", "y"}, Max: 2}
	b := job.Poll{Handlers: []string{"x"}, Max: 10}
	for name, c := range map[string]struct {
		due   []job.Due
		polls []job.Poll
		want  []int // by due: the seeker; -1: nobody
	}{
		"spread":                    {[]job.Due{dueOf(1, "x", 0), dueOf(2, "x", 0), dueOf(3, "x", 0), dueOf(4, "x", 0)}, []job.Poll{a, b}, []int{0, 1, 0, 1}},
		"only who knows it":         {[]job.Due{dueOf(1, "y", 0), dueOf(2, "y", 0), dueOf(3, "y", 0)}, []job.Poll{b, a}, []int{1, 1, -1}},
		"never more than asked for": {[]job.Due{dueOf(1, "x", 0), dueOf(2, "x", 0), dueOf(3, "x", 0)}, []job.Poll{a}, []int{0, 0, -1}},
		"nobody knows it":           {[]job.Due{dueOf(1, "z", 0), dueOf(2, "x", 0)}, []job.Poll{a, b}, []int{-1, 0}},
		"one of an exclusive job":   {[]job.Due{dueOf(1, "x", 1), dueOf(1, "x", 1), dueOf(2, "x", 1)}, []job.Poll{b}, []int{0, -1, 0}},
		"all of one that is not":    {[]job.Due{dueOf(1, "x", 0), dueOf(1, "x", 0)}, []job.Poll{b}, []int{0, 0}},
		"no room at all":            {[]job.Due{dueOf(1, "x", 0)}, []job.Poll{{Handlers: []string{"x"}}}, []int{-1}},
	} {
		for i := range c.due {
			c.due[i].Seq = int16(i)
		}
		got := make([]int, len(c.due))
		for i := range got {
			got[i] = -1
		}
		for _, d := range job.Assign(c.due, c.polls) {
			got[d.Seq] = d.Poll
		}
		require.Equal(t, c.want, got, name)
	}
}

func TestSnoozeUsesUpNoAttempt(t *testing.T) {
	t.Parallel()
	in := job.DecideInput{Run: job.Run{Attempt: 7}, Policy: job.Policy{Retry: job.Retry{MaxAttempts: 1}}.WithDefaults(), Outcome: job.Outcome{Kind: job.Snoozed, RetryAfter: time.Hour}, Now: noon}
	require.Equal(t, job.Decision{Kind: job.DecideRetry, RunAt: at(time.Hour), Free: true, Record: true}, job.Decide(in))
	in.Outcome.RetryAfter = 400 * 24 * time.Hour
	require.Equal(t, at(30*24*time.Hour), job.Decide(in).RunAt)
	in.Outcome.RetryAfter = -time.Hour
	require.Equal(t, noon, job.Decide(in).RunAt)
	in.Run.Attempt = 10_000
	require.Equal(t, job.ReasonAttempts, job.Decide(in).Reason, "not for ever")
}

func TestStorable(t *testing.T) {
	t.Parallel()
	require.Equal(t, "ab", job.Storable("a\x00b", 10))
	require.Equal(t, "a\uFFFDb", job.Storable("a\xffb", 10))
	require.Equal(t, "ää", job.Storable("äää", 5))
	require.Equal(t, strings.Repeat("x", 10), job.Storable(strings.Repeat("x", 20), 10))
}

func TestWhyAnAttemptIsGone(t *testing.T) {
	t.Parallel()
	cancelled, succeeded, failed := job.EndedCancelled, job.EndedSucceeded, job.EndedFailed
	lost, failure := job.Lost, job.Failed
	for want, fates := range map[job.GoneReason][]job.Fate{
		job.GoneCancelled: {{Ended: &cancelled}, {Ended: &cancelled, Mine: true}},
		job.GoneReported:  {{Ended: &succeeded, Mine: true}, {Ended: &failed, Mine: true}, {Outcome: &failure}},
		job.GoneLost:      {{}, {Ended: &succeeded}, {Outcome: &lost}},
	} {
		for _, f := range fates {
			require.Equal(t, want, f.Why())
			require.NotEmpty(t, want.Explain())
		}
	}
}
