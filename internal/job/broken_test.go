package job_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
)

func TestRetryBroken(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 8, 2, 30, 0, 0, time.UTC)
	until := now.Add(time.Minute)
	for _, c := range []struct {
		since time.Duration // negative: it has just broken
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
