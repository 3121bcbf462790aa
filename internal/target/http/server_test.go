package http_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/target/targettest"
)

// server is a real server that implements targettest.Server.
type server struct {
	t        *testing.T
	address  string
	received chan targettest.Delivery

	mu        sync.Mutex
	behaviour targettest.Behaviour
	released  chan struct{}
	running   *http.Server
}

// addresses gives each server its own address, so no other takes its port while it is down.
var addresses atomic.Int32

func startServer(t *testing.T) targettest.Server {
	s := &server{
		t: t, address: fmt.Sprintf("127.77.0.%d:0", addresses.Add(1)%250+1), behaviour: targettest.Succeed,
		received: make(chan targettest.Delivery, 1000), released: make(chan struct{}),
	}
	s.up()
	t.Cleanup(func() { s.Behave(targettest.Down) })
	return s
}

func (s *server) up() {
	listener, err := net.Listen("tcp", s.address)
	require.NoError(s.t, err)
	s.address = listener.Addr().String() // the same when it returns
	s.running = &http.Server{Handler: s}
	go func(srv *http.Server) { _ = srv.Serve(listener) }(s.running)
}

func (s *server) Behave(b targettest.Behaviour) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case b == targettest.Down && s.running != nil:
		_ = s.running.Close()
		s.running = nil
	case b != targettest.Down && s.running == nil:
		s.up()
	}
	s.behaviour = b
}

func (s *server) Release()                             { close(s.released) }
func (s *server) Received() <-chan targettest.Delivery { return s.received }

func (s *server) Config() json.RawMessage {
	return json.RawMessage(`{"url": "http://` + s.address + `/hook", "auth": {"bearer": {"secret": "` +
		targettest.SecretName + `"}}}`)
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.received <- targettest.Delivery{
		IdempotencyKey: r.Header.Get("Idempotency-Key"),
		RunID:          r.Header.Get("Belfry-Run-Id"),
		JobID:          r.Header.Get("Belfry-Job-Id"),
		DueAt:          r.Header.Get("Belfry-Due-At"),
		Attempt:        r.Header.Get("Belfry-Attempt"),
		Traceparent:    r.Header.Get("Traceparent"),
		Payload:        string(body),
	}
	s.mu.Lock()
	behaviour := s.behaviour
	s.mu.Unlock()
	switch behaviour {
	case targettest.FailRetryable:
		w.WriteHeader(http.StatusServiceUnavailable)
	case targettest.FailFinal:
		w.WriteHeader(http.StatusBadRequest)
	case targettest.Hang:
		select {
		case <-s.released:
		case <-r.Context().Done():
		}
	case targettest.Huge, targettest.HugeFailure:
		if behaviour == targettest.HugeFailure {
			w.WriteHeader(http.StatusInternalServerError)
		}
		block := strings.Repeat("\x00\xffgarbage ", 10_000)
		for range 300 { // up to 30 MB
			if _, err := io.WriteString(w, block); err != nil {
				return
			}
		}
	case targettest.Echo:
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = io.WriteString(w, r.URL.String()+"\n")
		_ = r.Header.Write(w)
	}
}
