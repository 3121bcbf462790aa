package archive

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"
)

// The limits of a part. They are part of the format: another limit would cut a day into other parts.
const (
	MaxRows  = 1_000_000
	MaxBytes = 128 << 20 // before compression
	// groupRows is the number of rows of a row group: what a writer keeps in memory, and what a reader can skip.
	groupRows = 128 << 10
)

// compression is shared, because it keeps encoders of some megabytes each for the next page.
var compression = zstd.Codec{Level: zstd.SpeedDefault, Concurrency: 1}

// Kind is what the rows of a part are.
type Kind string

// The kinds.
const (
	Runs  Kind = "runs"
	Skips Kind = "skips"
)

// Row is a row of a part: a *Run or a *Skip.
type Row[T any] interface {
	*T
	Key() string
	Compare(*T) int
	Append([]byte) []byte
	Parse([]byte) error
	dueTimes() (first, last int64)
}

// Place is where a part belongs.
type Place struct {
	Day        Day
	Generation int
	Namespace  uuid.UUID
	Number     int // from 1
}

// File is a part as its manifest describes it.
type File struct {
	Name      string    `json:"name"`
	Kind      Kind      `json:"kind"`
	Namespace uuid.UUID `json:"namespace"`
	Bytes     int64     `json:"bytes"`
	SHA256    string    `json:"sha256"`
	Sum       Sum       `json:"sum"`
	First     string    `json:"first"` // key of the first row
	Last      string    `json:"last"`
	DueFrom   time.Time `json:"due_from"` // the first due time of all rows
	DueTo     time.Time `json:"due_to"`
}

// Writer writes one part. Its rows have to be sorted. The same rows give the same bytes.
type Writer[T any, R Row[T]] struct {
	place    Place
	kind     Kind
	out      *hashing
	parquet  *parquet.GenericWriter[T]
	file     File
	raw      int64
	last     T
	from, to int64
	scratch  []byte
}

// NewRunWriter returns a Writer of runs.
func NewRunWriter(to io.Writer, p Place) *Writer[Run, *Run] {
	return newWriter[Run](to, p, Runs, "job_id")
}

// NewSkipWriter returns a Writer of skips.
func NewSkipWriter(to io.Writer, p Place) *Writer[Skip, *Skip] {
	return newWriter[Skip](to, p, Skips, "cursor_id")
}

func newWriter[T any, R Row[T]](to io.Writer, p Place, kind Kind, filter string) *Writer[T, R] {
	out := &hashing{to: to, hash: sha256.New()}
	return &Writer[T, R]{place: p, kind: kind, out: out, parquet: parquet.NewGenericWriter[T](
		out,
		parquet.CreatedBy("belfry", "1", "archive"), // not the version: an upgrade must not change the bytes
		parquet.Compression(&compression),
		parquet.MaxRowsPerRowGroup(groupRows),
		parquet.PageBufferSize(64<<10),
		parquet.BloomFilters(parquet.SplitBlockFilter(10, filter)),
		parquet.KeyValueMetadata("belfry.day", p.Day.String()),
		parquet.KeyValueMetadata("belfry.kind", string(kind)),
		parquet.KeyValueMetadata("belfry.namespace", p.Namespace.String()),
	)}
}

// Full reports whether a row belongs into the next part.
func (w *Writer[T, R]) Full(next R) bool {
	rows := w.file.Sum.Rows
	return rows > 0 && (rows >= MaxRows || w.raw+int64(len(next.Append(w.scratch[:0]))) > MaxBytes)
}

// Write adds a row. It returns an error if the row is before the last one.
func (w *Writer[T, R]) Write(r R) error {
	key := r.Key()
	if w.file.Sum.Rows > 0 && r.Compare(&w.last) < 0 {
		return fmt.Errorf("row %s is before %s", key, w.file.Last)
	}
	if _, err := w.parquet.Write([]T{*r}); err != nil {
		return fmt.Errorf("write row %s: %w", key, err)
	}
	w.scratch = r.Append(w.scratch[:0])
	w.raw += int64(len(w.scratch))
	first, last := r.dueTimes()
	if w.file.Sum.Rows == 0 {
		w.file.First, w.from, w.to = key, first, last
	}
	w.file.Last, w.last = key, *r
	w.from, w.to = min(w.from, first), max(w.to, last)
	w.file.Sum.add(key, w.scratch)
	return nil
}

// Close ends the part and returns its description. A part has at least one row.
func (w *Writer[T, R]) Close() (File, error) {
	if err := w.parquet.Close(); err != nil {
		return File{}, fmt.Errorf("write a part: %w", err)
	}
	if w.file.Sum.Rows == 0 {
		return File{}, errors.New("a part has no rows")
	}
	f := w.file
	f.Name = w.place.name(w.kind, f.First)
	f.Kind, f.Namespace, f.Bytes = w.kind, w.place.Namespace, w.out.bytes
	f.SHA256 = hex.EncodeToString(w.out.hash.Sum(nil))
	f.DueFrom, f.DueTo = fromMicros(&w.from), fromMicros(&w.to)
	return f, nil
}

// name begins with what readers filter by. It does not end with a time or anything else that a retry would change.
func (p Place) name(kind Kind, first string) string {
	head, rest, _ := strings.Cut(first, "|")
	if kind == Skips {
		cursor, _, _ := strings.Cut(rest, "|")
		head += "-" + cursor
	}
	return fmt.Sprintf("%snamespace=%s/part-%05d-%s.g%d.parquet",
		p.Day.prefix(kind), p.Namespace, p.Number, head, p.Generation)
}

// generationOf reads the generation from the name of a part.
func generationOf(name string) (int, bool) {
	rest, ok := strings.CutSuffix(name, ".parquet")
	at := strings.LastIndex(rest, ".g")
	if !ok || at < 0 {
		return 0, false
	}
	n, err := strconv.Atoi(rest[at+2:])
	return n, err == nil
}

// hashing counts and hashes what is written.
type hashing struct {
	to    io.Writer
	hash  hash.Hash
	bytes int64
}

func (h *hashing) Write(p []byte) (int, error) {
	n, err := h.to.Write(p)
	h.hash.Write(p[:n])
	h.bytes += int64(n)
	return n, err
}
