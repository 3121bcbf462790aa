package job_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
)

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
