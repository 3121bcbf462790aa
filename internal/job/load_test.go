package job_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/schedule"
)

// TestLoadBudget: if there are too many schedules, some are counted and the others estimated.
func TestLoadBudget(t *testing.T) {
	t.Parallel()
	from := time.Date(2027, 3, 1, 0, 0, 0, 0, time.UTC)
	in := job.LoadInput{
		From: from, To: from.AddDate(0, 0, 1), Step: time.Minute, Now: from, Fraction: 0.5, Exact: true, Budget: 500,
		Compile: func(text string) (*schedule.Schedule, error) {
			var spec schedule.Spec
			if err := json.Unmarshal([]byte(text), &spec); err != nil {
				return nil, err
			}
			return schedule.New(spec, "")
		},
	}
	for m := range 60 {
		in.Jobs = append(in.Jobs, job.LoadJobs{Schedule: fmt.Sprintf(`{"cron":"%d * * * *"}`, m), Jobs: 100})
	}
	load := job.CountLoad(in)
	require.False(t, load.Exact)
	require.InDelta(t, 0.5*13/60, load.Fraction, 1e-9, "each schedule costs 24 occurrences and its compilation")
	total := int64(0)
	for _, n := range load.Counts {
		total += n
	}
	require.InEpsilon(t, 2*60*24*100, total, 0.01)

	in.Budget = 0
	load = job.CountLoad(in)
	require.True(t, load.Exact)
	require.EqualValues(t, 200, load.Counts[59])
}

// TestLoadOfRareRuns: steps with few runs are rounded so that the sum is right.
func TestLoadOfRareRuns(t *testing.T) {
	t.Parallel()
	from := time.Date(2027, 3, 1, 0, 0, 0, 0, time.UTC)
	in := job.LoadInput{
		From: from, To: from.Add(time.Hour), Step: time.Minute, Now: from, Fraction: 0.418,
		Compile: func(string) (*schedule.Schedule, error) { return schedule.New(schedule.Spec{Cron: "*/2 * * * *"}, "") },
		Jobs:    []job.LoadJobs{{Schedule: "every two minutes", Jobs: 1}},
	}
	load, total := job.CountLoad(in), int64(0)
	for i, n := range load.Counts {
		total += n
		require.Equal(t, i%2 == 0, n > 0, "minute %d", i)
	}
	require.EqualValues(t, 72, total, "30 / 0.418")
}

func TestLoadAheadBeginsNow(t *testing.T) {
	t.Parallel()
	now := time.Date(2027, 3, 1, 12, 31, 59, 5e8, time.UTC)
	p := job.LoadParams{Ahead: 5 * time.Minute}
	require.NoError(t, p.At(now))
	require.Equal(t, []time.Time{now, now.Add(5 * time.Minute)}, []time.Time{p.From, p.To})
	require.Equal(t, 5*time.Minute, p.Step)
}
