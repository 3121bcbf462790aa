package cluster_test

import (
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/clock"
)

// receipt is a delivery that reached the sink.
type receipt struct {
	run      string
	due      time.Time
	attempt  string
	received time.Time
}

// sink is the outside world.
type sink struct {
	url      string
	mu       sync.Mutex
	receipts []receipt
}

func newSink(t *testing.T) *sink {
	t.Helper()
	s := &sink{}
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s.url = "http://" + listener.Addr().String() + "/hook"
	server := &http.Server{Handler: http.HandlerFunc(s.receive), ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	return s
}

func (s *sink) receive(w http.ResponseWriter, r *http.Request) {
	due, _ := time.Parse(time.RFC3339Nano, r.Header.Get("Belfry-Due-At"))
	s.mu.Lock()
	// The sink's clock is the database's: one machine.
	s.receipts = append(s.receipts, receipt{r.Header.Get("Idempotency-Key"), due, r.Header.Get("Belfry-Attempt"), clock.Now()})
	s.mu.Unlock()
	w.WriteHeader(http.StatusOK)
}

func (s *sink) all() []receipt {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]receipt(nil), s.receipts...)
}
