package job_test

import (
	"encoding/json"
	"fmt"
	"strings"
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

// TestLoadOfIntervals: fast intervals are counted exactly and leave the budget to others, and what is estimated of others
// does not change them.
func TestLoadOfIntervals(t *testing.T) {
	t.Parallel()
	from := time.Date(2027, 3, 1, 0, 0, 0, 0, time.UTC)
	compile := func(text string) (*schedule.Schedule, error) {
		if every, ok := strings.CutPrefix(text, "every "); ok {
			return schedule.New(schedule.Spec{Every: every, Anchor: "2027-01-01T00:00:07Z"}, "")
		}
		return schedule.New(schedule.Spec{Cron: text}, "")
	}
	start, end := from.Add(90*time.Second), from.Add(2*time.Hour)
	jobs := []job.LoadJobs{
		{Schedule: "every 1s", Jobs: 3},
		{Schedule: "every 7s", Jobs: 1, From: &start, End: &end},
		{Schedule: "every 13s", Jobs: 2},
		{Schedule: "0 2 * * *", Jobs: 98},
	}
	in := job.LoadInput{
		From: from, To: from.AddDate(0, 0, 1), Step: time.Minute, Now: from.Add(30 * time.Second), Fraction: 1, Exact: true,
		Compile: compile, Jobs: jobs,
	}
	want := make([]int64, 24*60)
	for _, j := range jobs {
		s, err := compile(j.Schedule)
		require.NoError(t, err)
		for o := range s.All(from.Add(-time.Nanosecond), in.To.Add(-time.Nanosecond)) {
			if j.From != nil && o.Due.Before(*j.From) || j.End != nil && !o.Due.Before(*j.End) {
				continue
			}
			if !o.Due.Before(in.Now) {
				want[o.Due.Sub(from)/time.Minute] += j.Jobs
			}
		}
	}
	load := job.CountLoad(in)
	require.True(t, load.Exact)
	require.Equal(t, want, load.Counts)
	require.EqualValues(t, 98+3*60+2*4, want[120])

	in.Jobs, in.Budget = in.Jobs[:1], 500
	for m := range 60 {
		in.Jobs = append(in.Jobs, job.LoadJobs{Schedule: fmt.Sprintf("%d 3 * * *", m), Jobs: 1})
	}
	load = job.CountLoad(in)
	require.False(t, load.Exact)
	require.EqualValues(t, 180, load.Counts[500], "an interval is not scaled")
}
