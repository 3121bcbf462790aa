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
