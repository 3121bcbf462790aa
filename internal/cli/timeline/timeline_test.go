package timeline

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestStatsInOneLine(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		`{"succeeded":0,"success_rate":null}`: "",
		`{"succeeded":9,"failed":1,"missed":2,"success_rate":0.9,"duration_ms":{"p50":1500,"p95":61000},
			"lateness_ms":{"p50":3,"p95":40},"streak":{"state":"failed","count":1}}`: "9 succeeded, 1 failed, 2 missed, " +
			"success rate 90.0 %, the last 1 failed, took 1.5s (p95 1m1s), late by 3ms (p95 40ms)",
		`{"skipped":3,"partial":true,"from":"2026-01-31T09:00:00Z"}`: "3 skipped, counted from 2026-01-31T09:00:00Z on",
	} {
		var s stats
		require.NoError(t, json.Unmarshal([]byte(raw), &s))
		require.Equal(t, want, s.String())
	}
}

func TestMarks(t *testing.T) {
	t.Parallel()
	require.Equal(t, "-", Marks(nil, false))
	runs := []Run{{"succeeded"}, {"skipped"}, {"cancelled"}, {"accepted"}, {"due"}}
	require.Equal(t, "…+-/>.", Marks(runs, true))
}
