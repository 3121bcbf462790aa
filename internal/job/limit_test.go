package job_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/problem"
)

func TestRatesAreReadAsTheyAreWritten(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]job.Rate{
		"": {}, "100/s": {100, 1}, "30/m": {30, 60}, "1000000/h": {1_000_000, 3600},
	} {
		got, err := job.ParseRate(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got)
		require.Equal(t, text, got.String())
	}
	for _, text := range []string{
		"100", "/s", "0/s", "-1/s", "1000001/s", "1.5/s", "10/d", "10/S", "10/s ", "99999999999999999999/s", "10/s/s",
	} {
		_, err := job.ParseRate(text)
		require.ErrorContains(t, err, "for example 100/s", text)
		require.Len(t, problem.All(err), 1)
	}
}

func TestLimitsAreChecked(t *testing.T) {
	t.Parallel()
	require.NoError(t, job.QueueLimits{}.Validate())
	require.NoError(t, job.QueueLimits{MaxRunning: 1, Rate: job.Rate{Count: 1, Seconds: 60}, Burst: 1}.Validate())
	fields := func(l job.QueueLimits) (out []string) {
		for _, p := range problem.All(l.Validate()) {
			require.NotEmpty(t, p.Fix)
			out = append(out, p.Field)
		}
		return out
	}
	require.Equal(t, []string{"max_running", "burst"}, fields(job.QueueLimits{MaxRunning: -1, Burst: 3}))
	require.Equal(t, []string{"max_running", "burst"},
		fields(job.QueueLimits{MaxRunning: job.MaxRunning + 1, Burst: -1}))

	d := job.Definition{Name: "n", Target: job.Target{Kind: "noop"}}
	d.Schedule.Every = "1h"
	for _, c := range []job.Concurrency{{}, {Key: "k"}, {Key: "k", Max: 5}} {
		d.Concurrency = c
		require.NoError(t, d.Validate())
	}
	for _, c := range []job.Concurrency{
		{Max: 5}, {Key: "k", Max: -1}, {Key: "k", Max: job.MaxRunning + 1}, {Key: "a\nb"},
	} {
		d.Concurrency = c
		require.ErrorContains(t, d.Validate(), "concurrency.", "%v", c)
	}
	require.EqualValues(t, 1, job.Policy{Concurrency: job.Concurrency{Key: "k"}}.WithDefaults().Concurrency.Max)
}

func TestAKeyBelongsToItsNamespace(t *testing.T) {
	t.Parallel()
	a, b := uuid.New(), uuid.New()
	key := job.Concurrency{Key: "customer"}
	require.Zero(t, job.Concurrency{}.ID(a))
	require.Equal(t, key.ID(a), job.Concurrency{Key: "customer", Max: 3}.ID(a))
	require.NotEqual(t, key.ID(a), key.ID(b))
	require.NotEqual(t, key.ID(a), job.Concurrency{Key: "customer2"}.ID(a))
}
