package job_test

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/problem"
)

func TestDurationIsWrittenShort(t *testing.T) {
	t.Parallel()
	for want, d := range map[string]time.Duration{
		"0s": 0, "30s": 30 * time.Second, "15m": 15 * time.Minute, "1h30m": 90 * time.Minute,
		"7d": 7 * 24 * time.Hour, "36h": 36 * time.Hour, "1h0m5s": time.Hour + 5*time.Second,
		"1.5s": 1500 * time.Millisecond, "20m": 20 * time.Minute, "10h": 10 * time.Hour,
	} {
		require.Equal(t, want, job.Duration(d).String())
	}
}

func TestDurationReadsBackWhatItWrites(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		unit := rapid.SampledFrom([]int64{
			1, int64(time.Second), int64(time.Minute), int64(24 * time.Hour),
		}).Draw(t, "unit")
		d := job.Duration(rapid.Int64Range(0, math.MaxInt64/unit).Draw(t, "n") * unit)
		data, err := json.Marshal(d)
		require.NoError(t, err)
		var back job.Duration
		require.NoError(t, json.Unmarshal(data, &back), string(data))
		require.Equal(t, d, back)
	})
}

func TestDurationRefusesWhatItCannotMean(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`"-5s"`, `"soon"`, `""`, `30`, `"30"`, `-1`, `{}`, `"65535w"`, `"106751d24h"`, `"1d-2h"`,
	} {
		d := job.Duration(7)
		err := json.Unmarshal([]byte(text), &d)
		var p *problem.Problem
		require.ErrorAs(t, err, &p, text)
		require.NotEmpty(t, p.Fix, text)
		require.Equal(t, job.Duration(7), d, "it is left as it was")
	}
	var in struct{ D job.Duration }
	require.NoError(t, json.Unmarshal([]byte(`{"D": null}`), &in))
}
