package archiver_test

import (
	"context"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/archive"
	"github.com/belfry-dev/belfry/internal/archiver"
)

// faulty is a database that loses, doubles or changes a row on the way to the archive.
type faulty struct {
	archiver.Days
	run  func([]archive.Placed[archive.Run]) []archive.Placed[archive.Run]
	skip func([]archive.Placed[archive.Skip]) []archive.Placed[archive.Skip]
}

func (f faulty) ReadRuns(
	ctx context.Context, d archive.Day, page int64,
) ([]archive.Placed[archive.Run], int64, error) {
	rows, next, err := f.Days.ReadRuns(ctx, d, page)
	if f.run != nil && page == 0 {
		rows = f.run(rows)
	}
	return rows, next, err
}

func (f faulty) ReadSkips(
	ctx context.Context, d archive.Day, after *archive.Skip,
) ([]archive.Placed[archive.Skip], error) {
	rows, err := f.Days.ReadSkips(ctx, d, after)
	if f.skip != nil && after == nil {
		rows = f.skip(rows)
	}
	return rows, err
}

// cutting is an object store that confirms a part and loses its last byte.
type cutting struct{ archive.Store }

func (c cutting) Put(ctx context.Context, name string, body io.ReadSeeker, size int64) error {
	if strings.HasSuffix(name, ".parquet") {
		size--
		body = io.NewSectionReader(body.(io.ReaderAt), 0, size)
	}
	return c.Store.Put(ctx, name, body, size)
}

// TestAFaultOnTheWayIsNoticed: the day is not archived, and so not dropped.
func TestAFaultOnTheWayIsNoticed(t *testing.T) {
	t.Parallel()
	type runs = []archive.Placed[archive.Run]
	type skips = []archive.Placed[archive.Skip]
	for name, test := range map[string]struct {
		fault func(*archiver.Archiver)
		error string
	}{
		"lost run": {func(a *archiver.Archiver) {
			a.Days = faulty{Days: a.Days, run: func(r runs) runs { return r[1:] }}
		}, "the table has 100 runs"},
		"doubled run": {func(a *archiver.Archiver) {
			a.Days = faulty{Days: a.Days, run: func(r runs) runs { return append(r, r[0]) }}
		}, "the table has 100 runs"},
		"another run": {func(a *archiver.Archiver) {
			a.Days = faulty{Days: a.Days, run: func(r runs) runs { r[0].Row.Seq++; return r }}
		}, "the table has 100 runs"},
		"lost skip": {func(a *archiver.Archiver) {
			a.Days = faulty{Days: a.Days, skip: func(s skips) skips { return s[1:] }}
		}, "the table has 100 skips"},
		"cut part": {func(a *archiver.Archiver) { a.Store = cutting{a.Store} }, "bytes, expected"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.fill(100)
			b.require()
			a, _ := b.node()
			test.fault(a)
			_, err := a.Once(t.Context())
			require.ErrorContains(t, err, test.error)
			require.NotContains(t, b.drop(), "run_history_20200229")
		})
	}
}
