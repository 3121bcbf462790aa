package archive

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"time"

	"github.com/google/uuid"
	"github.com/parquet-go/parquet-go"
)

// Archive reads and verifies what is in a store.
type Archive struct{ store Store }

// New returns the Archive in a store.
func New(s Store) *Archive { return &Archive{s} }

// pageSize is how many names one call of List returns.
const pageSize = 1000

// names lists all names with a prefix after a name.
func (a *Archive) names(ctx context.Context, prefix, after string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for {
			page, err := a.store.List(ctx, prefix, after, pageSize)
			if err != nil {
				yield("", fmt.Errorf("list %s: %w", prefix, err))
				return
			}
			for _, name := range page {
				if !yield(name, nil) {
					return
				}
			}
			if len(page) < pageSize {
				return
			}
			after = page[len(page)-1]
		}
	}
}

// Days returns the newest manifest's name of each day from one day to another, both included, in their order. Only
// manifests are listed, one per day, however many parts there are.
func (a *Archive) Days(ctx context.Context, from, to Day) ([]string, error) {
	var out []string
	var last Day
	// Names begin with the day, so the listing can start there. "." is before every generation.
	for name, err := range a.names(ctx, manifestPrefix, manifestPrefix+from.String()+".") {
		if err != nil {
			return nil, err
		}
		d, _, err := parseManifestName(name)
		if err != nil {
			return nil, err
		}
		if d.Start().After(to.Start()) {
			break
		}
		if len(out) > 0 && d == last {
			out = out[:len(out)-1] // a newer generation
		}
		out, last = append(out, name), d
	}
	return out, nil
}

// Manifest reads a manifest.
func (a *Archive) Manifest(ctx context.Context, name string) (Manifest, error) {
	size, err := a.store.Size(ctx, name)
	if err != nil {
		return Manifest{}, fmt.Errorf("%s: %w", name, err)
	}
	if size > maxManifest {
		return Manifest{}, fmt.Errorf("%s has %d bytes, the maximum is %d", name, size, maxManifest)
	}
	text, err := read(ctx, a.store, name, size)
	if err != nil {
		return Manifest{}, err
	}
	return DecodeManifest(name, text)
}

// Query asks for the runs of a job.
type Query struct {
	Namespace uuid.UUID
	Job       uuid.UUID
	// Days in which the runs ended, both included.
	From, To Day
	// DueFrom and DueBefore limit the due times; zero: no limit. A range of occurrences matches if one of them does.
	DueFrom, DueBefore time.Time
}

// Runs returns the runs of a job by day, and within a day in the order of their due times. It reads manifests, and of
// the files that may have runs of the job only the pages that do.
func (a *Archive) Runs(ctx context.Context, q Query) iter.Seq2[Run, error] {
	return func(yield func(Run, error) bool) {
		names, err := a.Days(ctx, q.From, q.To)
		if err != nil {
			yield(Run{}, err)
			return
		}
		for _, name := range names {
			m, err := a.Manifest(ctx, name)
			if err != nil {
				yield(Run{}, err)
				return
			}
			for i := range m.Files {
				if f := &m.Files[i]; q.mayBeIn(f) && !a.runsIn(ctx, f, &q, yield) {
					return
				}
			}
		}
	}
}

func (q *Query) mayBeIn(f *File) bool {
	id := q.Job.String() // keys of runs begin with it, in the order of the ids
	return f.Kind == Runs && f.Namespace == q.Namespace && f.First[:min(len(id), len(f.First))] <= id &&
		id <= f.Last[:min(len(id), len(f.Last))] &&
		!f.DueTo.Before(q.DueFrom) && (q.DueBefore.IsZero() || f.DueFrom.Before(q.DueBefore))
}

func (q *Query) matches(r *Run) bool {
	first, last := r.dueTimes()
	return r.Job == q.Job && !fromMicros(&last).Before(q.DueFrom) &&
		(q.DueBefore.IsZero() || fromMicros(&first).Before(q.DueBefore))
}

// runsIn yields the runs of a job in one file, and reports whether to go on.
func (a *Archive) runsIn(ctx context.Context, f *File, q *Query, yield func(Run, error) bool) bool {
	file, err := openParquet(open(ctx, a.store, f), f)
	if err != nil {
		yield(Run{}, err)
		return false
	}
	for _, group := range file.RowGroups() {
		from, err := firstRow(group, q.Job)
		if err != nil {
			yield(Run{}, fmt.Errorf("%s: %w", f.Name, err))
			return false
		}
		if from < 0 {
			continue
		}
		for r, err := range rows[Run](group, from) {
			if err != nil {
				yield(Run{}, fmt.Errorf("%s: %w", f.Name, err))
				return false
			}
			if bytes.Compare(r.Job[:], q.Job[:]) > 0 {
				break
			}
			if q.matches(r) && !yield(*r, nil) {
				return false
			}
		}
	}
	return true
}

// guard turns a panic of the Parquet library into an error: it reads bytes that others may have changed.
func guard(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("the file cannot be read: %v", r)
	}
}

func openParquet(r io.ReaderAt, f *File) (file *parquet.File, err error) {
	defer guard(&err)
	file, err = parquet.OpenFile(r, f.Bytes, parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", f.Name, err)
	}
	return file, nil
}

// firstRow returns where rows of a job may begin in a row group, or -1 if it has none. The filter answers without
// reading the rows.
func firstRow(group parquet.RowGroup, id uuid.UUID) (row int64, err error) {
	defer guard(&err)
	column, ok := group.Schema().Lookup("job_id")
	if !ok {
		return 0, errors.New("the file has no column job_id")
	}
	chunk, value := group.ColumnChunks()[column.ColumnIndex], parquet.FixedLenByteArrayValue(id[:])
	if filter := chunk.BloomFilter(); filter != nil {
		if found, err := filter.Check(value); err != nil || !found {
			return -1, err
		}
	}
	index, err := chunk.ColumnIndex()
	if err != nil {
		return 0, err
	}
	offsets, err := chunk.OffsetIndex()
	if err != nil {
		return 0, err
	}
	for page := range index.NumPages() {
		if bytes.Compare(index.MaxValue(page).ByteArray(), id[:]) >= 0 {
			return offsets.FirstRowIndex(page), nil
		}
	}
	return -1, nil
}

// rows reads the rows of a row group from one on. A row is valid until the next one.
func rows[T any](group parquet.RowGroup, from int64) iter.Seq2[*T, error] {
	return func(yield func(*T, error) bool) {
		reader := parquet.NewGenericRowGroupReader[T](group)
		defer reader.Close() //nolint:errcheck // read only
		err := seek(reader, from)
		buffer := make([]T, 256)
		for err == nil {
			clear(buffer)
			var n int
			n, err = readRows(reader, buffer)
			for i := range n {
				if !yield(&buffer[i], nil) {
					return
				}
			}
			if n == 0 && err == nil {
				err = io.ErrNoProgress
			}
		}
		if !errors.Is(err, io.EOF) {
			yield(nil, err)
		}
	}
}

func seek[T any](r *parquet.GenericReader[T], row int64) (err error) {
	defer guard(&err)
	return r.SeekToRow(row)
}

func readRows[T any](r *parquet.GenericReader[T], into []T) (n int, err error) {
	defer guard(&err)
	return r.Read(into)
}
