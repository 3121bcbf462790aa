package job_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
)

func TestDesiredSlots(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		queue                 job.Queue
		running, due, planned int64
		attempts              int64
		took                  time.Duration // of one attempt
		want                  int64
	}{
		"idle":                         {attempts: 1, took: time.Second, want: 0},
		"many short runs":              {due: 10_000, attempts: 50, took: time.Millisecond, want: 1},
		"few long runs":                {due: 10, attempts: 50, took: time.Second, want: 1},
		"planned runs count":           {due: 100, planned: 500, attempts: 3, took: time.Second, want: 20},
		"each long attempt needs one":  {running: 3, due: 7, attempts: 1, took: time.Hour, want: 10},
		"rounded up":                   {due: 31, attempts: 1, took: time.Second, want: 2},
		"no attempt yet":               {due: 300, want: 10},
		"never less than are running":  {running: 40, attempts: 1, took: time.Millisecond, want: 40},
		"running ones are work too":    {running: 30, due: 30, attempts: 1, took: 20 * time.Second, want: 40},
		"one run, and no time at all":  {due: 1, attempts: 1, want: 1},
		"a paused queue starts none":   {queue: job.Queue{Paused: true}, running: 2, due: 900, want: 2},
		"no more than its limit":       {queue: limited(5), running: 1, due: 900, attempts: 1, took: time.Second, want: 5},
		"more than its limit, running": {queue: limited(5), running: 8, due: 900, attempts: 1, took: time.Second, want: 8},
	} {
		l := job.QueueLoad{
			QueueCounts: job.QueueCounts{Running: c.running, Due: c.due, Planned: c.planned},
			Attempts:    c.attempts, Took: c.took * time.Duration(c.attempts),
		}
		require.Equal(t, c.want, job.DesiredSlots(&c.queue, &l, job.DefaultDrain), name)
	}
}

func limited(n int32) job.Queue { return job.Queue{Limits: job.QueueLimits{MaxRunning: n}} }
