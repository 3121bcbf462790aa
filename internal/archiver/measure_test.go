package archiver_test

import (
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/archive"
	"github.com/belfry-dev/belfry/internal/clock"
)

// TestManyRows measures the export of ROWS rows.
func TestManyRows(t *testing.T) {
	t.Parallel()
	rows, _ := strconv.Atoi(os.Getenv("ROWS"))
	if rows == 0 {
		t.Skip("set ROWS: make measure-archive")
	}
	b := setup(t)
	b.fill(rows)
	a, _ := b.node()
	began := clock.Elapsed()
	at := began
	last := ""
	a.Step = func(name string) error {
		now := clock.Elapsed()
		t.Logf("%8s until %s (after %s)", (now - at).Round(time.Millisecond), name, last)
		at, last = now, name
		return nil
	}
	_, err := a.Once(t.Context())
	require.NoError(t, err)
	took := clock.Elapsed() - began
	m := b.manifest()
	var bytes int64
	for i := range m.Files {
		bytes += m.Files[i].Bytes
	}
	n := m.Sum(archive.Runs).Rows
	require.EqualValues(t, rows, n)
	t.Logf("%d rows in %s: %.0f rows/s, %d files, %.1f bytes/row", n, took.Round(time.Millisecond),
		float64(n)/took.Seconds(), len(m.Files), float64(bytes)/float64(n))
}
