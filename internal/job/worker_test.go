package job_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
)

func TestASnoozeDoesNotCountAsAnAttempt(t *testing.T) {
	t.Parallel()
	in := job.DecideInput{
		Run:     job.Run{Attempt: 7},
		Policy:  job.Policy{Retry: job.Retry{MaxAttempts: 1}}.WithDefaults(),
		Outcome: job.Outcome{Kind: job.Snoozed, RetryAfter: time.Hour},
		Now:     noon,
	}
	want := job.Decision{Kind: job.DecideRetry, RunAt: at(time.Hour), Free: true, Record: true}
	require.Equal(t, want, job.Decide(in))
	in.Outcome.RetryAfter = 400 * 24 * time.Hour
	require.Equal(t, at(30*24*time.Hour), job.Decide(in).RunAt)
	in.Outcome.RetryAfter = -time.Hour
	require.Equal(t, noon, job.Decide(in).RunAt)
	in.Run.Attempt = 10_000
	require.Equal(t, job.ReasonAttempts, job.Decide(in).Reason, "not for ever")
}
