package archiver

import (
	"bufio"
	"bytes"
	"container/heap"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"

	"github.com/google/uuid"
	"github.com/klauspost/compress/zstd"

	"github.com/belfry-dev/belfry/internal/archive"
)

// The limits of a sort. A day of 240 million rows becomes some 2,400 files, of which 64 are open at the same time.
const (
	sortMemory = 64 << 20 // bytes of rows before a file is written
	sortFanIn  = 64       // files that are merged at once
	maxRow     = 64 << 20 // bytes: larger than any row, so that a broken length is noticed
	rowMemory  = 512      // bytes of a row without its strings
)

// sortable is a row that can be written to a file and ordered.
type sortable[T any] interface {
	*T
	Compare(*T) int
	Append([]byte) []byte
	Parse([]byte) error
}

func compare[T any, R sortable[T]](a, b *archive.Placed[T]) int {
	if c := bytes.Compare(a.Namespace[:], b.Namespace[:]); c != 0 {
		return c
	}
	return R(&a.Row).Compare(&b.Row)
}

// sorter sorts more rows than fit into memory. It writes sorted files to a directory and merges them. Files that were
// merged are removed, and what a process leaves that dies is removed with the directory.
type sorter[T any, R sortable[T]] struct {
	workspace *workspace
	memory    int64 // sortMemory, or less in tests
	fanIn     int
	rows      []archive.Placed[T]
	size      int64
	levels    [][]*scratchFile // files by how often their rows were merged
	scratch   []byte
}

func newSorter[T any, R sortable[T]](w *workspace) *sorter[T, R] {
	return &sorter[T, R]{workspace: w, memory: sortMemory, fanIn: sortFanIn}
}

// add adds a row.
func (s *sorter[T, R]) add(r archive.Placed[T]) error {
	s.rows = append(s.rows, r)
	s.scratch = R(&r.Row).Append(s.scratch[:0])
	if s.size += int64(len(s.scratch)) + rowMemory; s.size < s.memory {
		return nil
	}
	return s.spill()
}

func (s *sorter[T, R]) sortRows() {
	slices.SortFunc(s.rows, func(a, b archive.Placed[T]) int { return compare[T, R](&a, &b) })
}

// spill writes the rows in memory to a file, and merges files of a level if there are as many as can be merged at once.
func (s *sorter[T, R]) spill() error {
	s.sortRows()
	file, err := s.write(func(yield func(*archive.Placed[T], error) bool) {
		for i := range s.rows {
			if !yield(&s.rows[i], nil) {
				return
			}
		}
	})
	clear(s.rows)
	s.rows, s.size = s.rows[:0], 0
	for level := 0; err == nil; level++ {
		if level == len(s.levels) {
			s.levels = append(s.levels, nil)
		}
		if s.levels[level] = append(s.levels[level], file); len(s.levels[level]) < s.fanIn {
			return nil
		}
		full := s.levels[level]
		s.levels[level] = nil
		if file, err = s.write(s.merge(full)); err == nil {
			err = removeAll(full)
		}
	}
	return err
}

// sorted returns all rows in their order. A row is valid until the next one. Nothing may be added any more.
func (s *sorter[T, R]) sorted() iter.Seq2[*archive.Placed[T], error] {
	return func(yield func(*archive.Placed[T], error) bool) {
		if len(s.levels) == 0 { // all rows are in memory
			s.sortRows()
			for i := range s.rows {
				if !yield(&s.rows[i], nil) {
					return
				}
			}
			return
		}
		if len(s.rows) > 0 {
			if err := s.spill(); err != nil {
				yield(nil, err)
				return
			}
		}
		// Each level has fewer files than can be merged at once, and there are few levels.
		for row, err := range s.merge(slices.Concat(s.levels...)) {
			if !yield(row, err) {
				return
			}
		}
	}
}

// write writes rows to a new file.
func (s *sorter[T, R]) write(rows iter.Seq2[*archive.Placed[T], error]) (f *scratchFile, err error) {
	if f, err = s.workspace.create(); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.file.Close()) }()
	z, err := zstd.NewWriter(f, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
		zstd.WithWindowSize(128<<10))
	if err != nil {
		return nil, err
	}
	var length [binary.MaxVarintLen64]byte
	for r, err := range rows {
		if err != nil {
			return nil, errors.Join(err, z.Close())
		}
		s.scratch = R(&r.Row).Append(append(s.scratch[:0], r.Namespace[:]...))
		_, err := z.Write(length[:binary.PutUvarint(length[:], uint64(len(s.scratch)))])
		if err == nil {
			_, err = z.Write(s.scratch)
		}
		if err != nil {
			return nil, errors.Join(err, z.Close())
		}
	}
	return f, z.Close()
}

// merge returns the rows of sorted files in their order.
func (s *sorter[T, R]) merge(files []*scratchFile) iter.Seq2[*archive.Placed[T], error] {
	return func(yield func(*archive.Placed[T], error) bool) {
		var m merger[T, R]
		defer m.close()
		for _, f := range files {
			if err := m.open(f.file.Name()); err != nil {
				yield(nil, err)
				return
			}
		}
		heap.Init(&m)
		for len(m.files) > 0 {
			f := m.files[0]
			if !yield(&f.next, nil) {
				return
			}
			switch err := f.read(); {
			case err == nil:
				heap.Fix(&m, 0)
			case errors.Is(err, io.EOF):
				heap.Pop(&m).(*sortedFile[T, R]).close()
			default:
				yield(nil, err)
				return
			}
		}
	}
}

// merger is a heap of files by their next row.
type merger[T any, R sortable[T]] struct{ files []*sortedFile[T, R] }

func (m *merger[T, R]) open(name string) error {
	f, err := os.Open(name) //nolint:gosec // a file that write created
	if err != nil {
		return err
	}
	z, err := zstd.NewReader(f, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true))
	if err != nil {
		return errors.Join(err, f.Close())
	}
	s := &sortedFile[T, R]{file: f, zstd: z, in: bufio.NewReaderSize(z, 64<<10)}
	if err := s.read(); err != nil {
		s.close()
		return fmt.Errorf("read %s: %w", name, err)
	}
	m.files = append(m.files, s)
	return nil
}

func (m *merger[T, R]) close() {
	for _, f := range m.files {
		f.close()
	}
}

func (m *merger[T, R]) Len() int { return len(m.files) }
func (m *merger[T, R]) Less(i, j int) bool {
	return compare[T, R](&m.files[i].next, &m.files[j].next) < 0
}
func (m *merger[T, R]) Swap(i, j int) { m.files[i], m.files[j] = m.files[j], m.files[i] }
func (m *merger[T, R]) Push(x any)    { m.files = append(m.files, x.(*sortedFile[T, R])) }
func (m *merger[T, R]) Pop() any {
	n := len(m.files) - 1
	f := m.files[n]
	m.files = m.files[:n]
	return f
}

// sortedFile is a file that is read, and its next row.
type sortedFile[T any, R sortable[T]] struct {
	file   *os.File
	zstd   *zstd.Decoder
	in     *bufio.Reader
	buffer []byte
	next   archive.Placed[T]
}

func (f *sortedFile[T, R]) read() error {
	n, err := binary.ReadUvarint(f.in)
	if err != nil {
		return err
	}
	if n < 16 || n > maxRow {
		return fmt.Errorf("%s: a row of %d bytes", f.file.Name(), n)
	}
	f.buffer = slices.Grow(f.buffer[:0], int(n))[:n]
	if _, err := io.ReadFull(f.in, f.buffer); err != nil {
		return fmt.Errorf("%s is cut short: %v", f.file.Name(), err) //nolint:errorlint // io.EOF would be its end
	}
	f.next = archive.Placed[T]{Namespace: uuid.UUID(f.buffer[:16])}
	return R(&f.next.Row).Parse(f.buffer[16:])
}

func (f *sortedFile[T, R]) close() {
	f.zstd.Close()
	_ = f.file.Close() // read only
}

func removeAll(files []*scratchFile) (err error) {
	for _, f := range files {
		err = errors.Join(err, f.remove())
	}
	return err
}
