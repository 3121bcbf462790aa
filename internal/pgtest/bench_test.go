package pgtest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// BenchmarkNew measures what a test waits for: its clone, and the drop if no other test has a database.
func BenchmarkNew(b *testing.B) {
	s := ownServer(b)
	started, err := s.start(b.Context())
	require.NoError(b, err)
	_, err = s.findTemplate(b.Context())
	require.NoError(b, err)

	var clones, drops []time.Duration
	for b.Loop() {
		name := databaseName(started, b.Name())
		before := b.Elapsed()
		require.NoError(b, s.clone(b.Context(), name))
		cloned := b.Elapsed()
		require.NoError(b, s.drop(context.Background(), name))
		clones, drops = append(clones, cloned-before), append(drops, b.Elapsed()-cloned)
	}
	report(b, "clone", clones)
	report(b, "drop", drops)
}

func report(b *testing.B, what string, took []time.Duration) {
	b.Helper()
	slices.Sort(took)
	at := func(part float64) float64 {
		return float64(took[int(part*float64(len(took)-1))].Microseconds()) / 1000
	}
	b.ReportMetric(at(0.5), what+"-median-ms")
	b.ReportMetric(at(0.95), what+"-p95-ms")
}

// It is not parallel, so that it runs alone, before the parallel tests start. It only prints, because the time of a
// clone depends on the disk and on what else the machine does.
func TestCost(t *testing.T) {
	t.Log(testing.Benchmark(BenchmarkNew))
}
