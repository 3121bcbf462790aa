package job_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
)

// A run is claimed up to 250 ms before its run time, which must not look like an early start.
func TestBeganAt(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 10, 9, 0, 0, 0, time.UTC)
	early, late := at.Add(-200*time.Millisecond), at.Add(time.Second)
	for about, c := range map[string]struct {
		entry job.Entry
		want  time.Time
	}{
		"claimed before its time": {job.Entry{RunAt: at, StartedAt: early, EndedAt: late}, at},
		"still running":           {job.Entry{RunAt: at, StartedAt: early}, at},
		"late":                    {job.Entry{RunAt: at, StartedAt: late}, late},
		"ended before its time":   {job.Entry{RunAt: at, StartedAt: early, EndedAt: early}, early},
		"never":                   {job.Entry{RunAt: at}, time.Time{}},
	} {
		require.Equal(t, c.want, c.entry.BeganAt(), about)
	}
}

func TestLateness(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 10, 9, 0, 0, 0, time.UTC)
	const spread = 5 * time.Second
	after := func(s int) time.Time { return at.Add(time.Duration(s) * time.Second) }
	first := []job.AttemptEnd{{Number: 1, StartedAt: after(7)}}
	for about, c := range map[string]struct {
		entry job.Entry
		want  time.Duration
		ok    bool
	}{
		"on time":       {job.Entry{RunAt: after(5), StartedAt: after(4), Attempt: 1}, 0, true},
		"late":          {job.Entry{RunAt: after(5), StartedAt: after(6), Attempt: 1}, time.Second, true},
		"retried":       {job.Entry{RunAt: after(60), StartedAt: after(60), Attempt: 2, Attempts: first}, 2 * time.Second, true},
		"to be retried": {job.Entry{RunAt: after(60), Attempt: 1, Attempts: first}, 2 * time.Second, true},
		"caught up":     {job.Entry{RunAt: after(65), StartedAt: after(65), Attempt: 1, Origin: job.FromMissed}, time.Minute, true},
		"never":         {job.Entry{RunAt: at}, 0, false},
		"a lost first":  {job.Entry{RunAt: after(60), StartedAt: after(60), Attempt: 2}, 0, false},
		"a backfill":    {job.Entry{RunAt: after(60), StartedAt: after(60), Attempt: 1, Origin: job.FromBackfill}, 0, false},
		"redriven":      {job.Entry{RunAt: after(60), StartedAt: after(60), Attempt: 4, Origin: job.FromRedrive}, 0, false},
	} {
		c.entry.DueAt = at
		late, ok := c.entry.Lateness(spread)
		require.Equal(t, c.want, late, about)
		require.Equal(t, c.ok, ok, about)
	}
}
