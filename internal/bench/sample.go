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

// start is the start of an attempt: when, by the machine's clock, and how late.
type start struct {
	at   time.Time
	late time.Duration
}

const startBytes = 16

// recorder records starts in the node for the parent. It must be cheap for the node, so it only fills a buffer; flush
// writes it.
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

// starts collects what the nodes have reported. It is safe for concurrent use.
type starts struct {
	mu  sync.Mutex
	all []start
}

// read reads what a recorder flushes, until it ends.
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

// take returns the starts so far and removes them.
func (s *starts) take() []start {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.all
	s.all = nil
	return out
}

// latenessOf returns the percentiles of starts.
func latenessOf(all []start) Lateness {
	if len(all) == 0 {
		return Lateness{}
	}
	late := sortedLateness(all)
	at := func(q float64) float64 { return percentile(late, q) }
	return Lateness{First: at(0), P50: at(.5), P95: at(.95), P99: at(.99), Max: at(1)}
}

// sortedLateness returns the lateness of starts in milliseconds, sorted.
func sortedLateness(all []start) []float64 {
	late := make([]float64, len(all))
	for i, s := range all {
		late[i] = float64(s.late) / float64(time.Millisecond)
	}
	slices.Sort(late)
	return late
}

// percentile returns the smallest of sorted values that a fraction q of them does not exceed.
func percentile(sorted []float64, q float64) float64 {
	n := len(sorted)
	i := int(q * float64(n))
	if float64(i) == q*float64(n) {
		i--
	}
	return sorted[min(max(i, 0), n-1)]
}
