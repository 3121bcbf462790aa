package job_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
)

// TestHistogramsOfNodesAdd: quantiles of the sum are those of all starts, to within the width of a part.
func TestHistogramsOfNodesAdd(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 3))
		var all []time.Duration
		var sum job.Histogram
		for range 1 + r.IntN(5) {
			var one job.Histogram
			for range r.IntN(200) {
				late := time.Duration(r.ExpFloat64() * float64(time.Duration(1+r.IntN(2000))*time.Millisecond))
				all = append(all, late)
				one.Count(late)
			}
			sum.Add(one)
		}
		slices.Sort(all)
		for _, fraction := range []float64{0.01, 0.5, 0.95, 0.99, 1} {
			got, ok := sum.Quantile(fraction)
			require.Equal(t, len(all) > 0, ok)
			if !ok {
				continue
			}
			exact := all[max(0, min(len(all)-1, int(fraction*float64(len(all))+0.999999)-1))]
			require.LessOrEqual(t, got, 2*exact+time.Millisecond, "seed %d: %v of %v", seed, fraction, exact)
			require.GreaterOrEqual(t, 2*got+time.Millisecond, exact, "seed %d: %v of %v", seed, fraction, exact)
		}
	}
	var h job.Histogram
	h.Count(-time.Second)
	h.Count(1000 * time.Hour)
	p50, _ := h.Quantile(0.5)
	require.Equal(t, time.Millisecond, p50)
	p100, _ := h.Quantile(1)
	require.Equal(t, time.Hour, p100, "what is later counts as an hour")
	require.Len(t, h, job.HistogramParts)
}

func TestStatsByEnd(t *testing.T) {
	t.Parallel()
	var s job.Stat
	s.Ended(job.EndedSucceeded, job.ReasonNone, 2)
	s.Ended(job.EndedFailed, job.ReasonAttempts, 3)
	s.Ended(job.EndedCancelled, job.ReasonCancelled, 4)
	s.Ended(job.EndedSkipped, job.ReasonOverlap, 5)
	s.Ended(job.EndedSkipped, job.ReasonMissedWindow, 6)
	require.Equal(t, job.Stat{Succeeded: 2, Failed: 3, Cancelled: 4, Skipped: 5, Missed: 6}, s)
	s.Add(&s)
	require.EqualValues(t, 40, s.Total())
}
