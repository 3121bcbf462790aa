package cluster_test

import (
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/clock"
)

// receipt is a delivery that reached the sink.
type receipt struct {
	run      string
	job      string
	due      time.Time
	attempt  string
	received time.Time // the sink and the database are on one machine, with one clock
	gone     time.Time // when its caller went away, if that was before the reply
	answered time.Time // zero if not yet
}

// sink is the outside world. It is part of the test process, so it outlives nodes and database.
type sink struct {
	url string

	mu       sync.Mutex
	random   *rand.Rand
	slow     func(*rand.Rand) time.Duration // how long a reply takes
	receipts []*receipt
}

// nowAndThen is slow for some of the deliveries.
func nowAndThen(r *rand.Rand) time.Duration {
	if r.IntN(5) > 0 {
		return 0
	}
	return time.Duration(20+r.IntN(30)) * time.Millisecond
}

func newSink(t *testing.T, seed uint64, slow func(*rand.Rand) time.Duration) *sink {
	t.Helper()
	s := &sink{random: rand.New(rand.NewPCG(seed, 0)), slow: slow}
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s.url = "http://" + listener.Addr().String() + "/hook"
	server := &http.Server{Handler: http.HandlerFunc(s.receive), ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	return s
}

// receive records a delivery, works on it, and replies. The work continues if the caller dies, so a second call may
// arrive during it.
func (s *sink) receive(w http.ResponseWriter, r *http.Request) {
	x := &receipt{
		run: r.Header.Get("Idempotency-Key"), job: r.Header.Get("Belfry-Job-Id"),
		attempt: r.Header.Get("Belfry-Attempt"),
	}
	x.due, _ = time.Parse(time.RFC3339Nano, r.Header.Get("Belfry-Due-At"))
	s.mu.Lock()
	x.received = clock.Now()
	s.receipts = append(s.receipts, x)
	work := s.slow(s.random)
	s.mu.Unlock()
	status, more := replyOf(r.URL.Path, x.attempt)
	work += more
	_, _ = io.Copy(io.Discard, r.Body) // when the body is read, net/http reports that the caller went away
	if work > 0 {
		done, gone := time.After(work), r.Context().Done()
		for busy := true; busy; {
			select {
			case <-gone:
				gone = nil
				s.note(&x.gone)
			case <-done:
				busy = false
			}
		}
	}
	s.note(&x.answered)
	w.WriteHeader(status)
}

// replyOf is what the sink replies at a path, and how much longer that takes.
func replyOf(path, attempt string) (status int, more time.Duration) {
	switch {
	case strings.HasSuffix(path, "/fail"), strings.HasSuffix(path, "/retry") && attempt == "1":
		return http.StatusServiceUnavailable, 0
	case strings.HasSuffix(path, "/slow"):
		return http.StatusOK, 1500 * time.Millisecond
	}
	return http.StatusOK, 0
}

func (s *sink) note(at *time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	*at = clock.Now()
}

func (s *sink) all() []receipt {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]receipt, len(s.receipts))
	for i, x := range s.receipts {
		out[i] = *x
	}
	return out
}

// since lists what was received after an instant, newest first.
func (s *sink) since(at time.Time) (out []receipt) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range slices.Backward(s.receipts) {
		if x.received.Before(at) {
			break
		}
		out = append(out, *x)
	}
	return out
}

// immediately never lets a caller wait.
func immediately(*rand.Rand) time.Duration { return 0 }
