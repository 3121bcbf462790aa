package bench

import (
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/belfry-dev/belfry/internal/clock"
)

// start is one attempt's: when, by the machine's clock, and how late.
type start struct {
	at   time.Time
	late time.Duration
}

const startBytes = 16

// recorder notes starts in the node and sends them to the parent. It must cost
// the node next to nothing, so it only fills a buffer; flush writes.
type recorder struct {
	mu     sync.Mutex
	buffer []byte
}

// started is app.Config.Started.
func (r *recorder) started(late time.Duration) {
	at := clock.Now().UnixNano()
	r.mu.Lock()
	r.buffer = binary.LittleEndian.AppendUint64(r.buffer, uint64(at))
	r.buffer = binary.LittleEndian.AppendUint64(r.buffer, uint64(late))
	r.mu.Unlock()
}

func (r *recorder) flush(w io.Writer) error {
	r.mu.Lock()
	full := r.buffer
	r.buffer = make([]byte, 0, cap(full))
	r.mu.Unlock()
	_, err := w.Write(full)
	return err
}

// starts is what the nodes have told. Safe for concurrent use.
type starts struct {
	mu  sync.Mutex
	all []start
}

// read takes in what a recorder flushes, until it ends.
func (s *starts) read(r io.Reader) error {
	var b [startBytes]byte
	for {
		switch _, err := io.ReadFull(r, b[:]); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		one := start{
			at:   time.Unix(0, int64(binary.LittleEndian.Uint64(b[:8]))),
			late: time.Duration(binary.LittleEndian.Uint64(b[8:])),
		}
		s.mu.Lock()
		s.all = append(s.all, one)
		s.mu.Unlock()
	}
}

func (s *starts) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.all)
}

// take returns what was told so far and forgets it.
func (s *starts) take() []start {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.all
	s.all = nil
	return out
}

// latenessOf is the percentiles of starts.
func latenessOf(all []start) Lateness {
	if len(all) == 0 {
		return Lateness{}
	}
	late := sortedLateness(all)
	at := func(q float64) float64 { return percentile(late, q) }
	return Lateness{First: at(0), P50: at(.5), P95: at(.95), P99: at(.99), Max: at(1)}
}

// sortedLateness is in milliseconds.
func sortedLateness(all []start) []float64 {
	late := make([]float64, len(all))
	for i, s := range all {
		late[i] = float64(s.late) / float64(time.Millisecond)
	}
	slices.Sort(late)
	return late
}

// percentile of sorted values: the smallest that a part q of them does not exceed.
func percentile(sorted []float64, q float64) float64 {
	n := len(sorted)
	i := int(q * float64(n))
	if float64(i) == q*float64(n) {
		i--
	}
	return sorted[min(max(i, 0), n-1)]
}
