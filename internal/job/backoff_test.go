package job_test

import (
	"math"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/belfry-dev/belfry/internal/job"
)

var oneKey = job.Key{Job: uuid.MustParse("01940b7e-6f7f-7000-8000-000000000001"), DueAt: noon}

func TestDelay(t *testing.T) {
	t.Parallel()
	s := job.Duration(time.Second)
	for name, tc := range map[string]struct {
		backoff job.Backoff
		want    [4]time.Duration // after attempts 1, 2, 4 and 32767
	}{
		"none":        {"none", [4]time.Duration{0, 0, 0, 0}},
		"fixed":       {"fixed", [4]time.Duration{5 * sec, 5 * sec, 5 * sec, 5 * sec}},
		"linear":      {"linear", [4]time.Duration{5 * sec, 10 * sec, 20 * sec, 60 * sec}},
		"exponential": {"exponential", [4]time.Duration{5 * sec, 10 * sec, 40 * sec, 60 * sec}},
	} {
		r := job.Retry{Backoff: tc.backoff, Base: 5 * s, Cap: 60 * s, Jitter: -1}
		for i, attempt := range []int16{1, 2, 4, math.MaxInt16} {
			require.Equal(t, tc.want[i], r.Delay(oneKey, attempt), "%s, attempt %d", name, attempt)
		}
	}
}

func TestDelayDoesNotOverflow(t *testing.T) {
	t.Parallel()
	for _, backoff := range []job.Backoff{"linear", "exponential"} {
		r := job.Retry{Backoff: backoff, Base: math.MaxInt64 / 2, Cap: math.MaxInt64 - 7, Jitter: -1}
		for _, attempt := range []int16{3, 5, 63, 64, 65, math.MaxInt16} {
			require.Equal(t, time.Duration(math.MaxInt64-7), r.Delay(oneKey, attempt), "%s %d", backoff, attempt)
		}
	}
}

func TestDelayStaysWithinItsBounds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r := job.Retry{
			Backoff: rapid.SampledFrom([]job.Backoff{"none", "fixed", "linear", "exponential"}).Draw(t, "backoff"),
			Base:    job.Duration(rapid.Int64().Draw(t, "base")),
			Cap:     job.Duration(rapid.Int64().Draw(t, "cap")),
			Jitter:  -1,
		}
		k, attempt := anyKey.Draw(t, "key"), rapid.Int16().Draw(t, "attempt")
		whole := r.Delay(k, attempt)
		require.GreaterOrEqual(t, whole, time.Duration(0))
		require.LessOrEqual(t, whole, max(time.Duration(r.Cap), 0))
		if attempt < math.MaxInt16 {
			require.GreaterOrEqual(t, r.Delay(k, attempt+1), whole, "it does not shrink")
		}
		r.Jitter = rapid.OneOf(rapid.Float64Range(0, 1), rapid.Just(math.NaN()), rapid.Just(99.0)).Draw(t, "jitter")
		got := r.Delay(k, attempt)
		require.LessOrEqual(t, got, whole)
		j := min(r.Jitter, 1)
		if math.IsNaN(j) {
			j = 0
		}
		least := float64(whole) * (1 - j)
		require.GreaterOrEqual(t, float64(got), least-1e3-least*1e-9)
		require.Equal(t, got, r.Delay(k, attempt), "every node computes the same")
	})
}

func TestJitterSpreadsRunsOfOneInstant(t *testing.T) {
	t.Parallel()
	r := job.Retry{Jitter: 0.5, Backoff: "fixed", Base: job.Duration(10 * sec)}.WithDefaults()
	var buckets [10]int
	for i := range 10_000 {
		k := oneKey
		k.Job[0], k.Job[1] = byte(i>>8), byte(i)
		buckets[(r.Delay(k, 1)-5*sec)/(500*time.Millisecond)]++
	}
	for i, n := range buckets {
		require.InDelta(t, 1000, n, 150, "bucket %d", i)
	}
	require.NotEqual(t, r.Delay(oneKey, 1), r.Delay(oneKey, 2), "attempts differ")
}
