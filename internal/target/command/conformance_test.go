//go:build linux

package command_test

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/target/targettest"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	targettest.Run(t, targettest.Suite{
		New: func(t *testing.T, g targettest.Environment) targettest.Target {
			opts := options(t)
			opts.Log, opts.Secrets = g.Log, g.Secrets
			opts.Memory = 1 << 42 // the command is this program, and the race detector maps a lot of memory
			return start(t, opts)
		},
		Start: func(t *testing.T) targettest.Server { return startServer(t) },
	})
}

// server is what the command talks to, through a socket in a directory that it sees, because it has no
// network.
type server struct {
	t        *testing.T
	socket   string
	received chan targettest.Delivery

	mu       sync.Mutex
	listener net.Listener // nil: down
	order    order
	release  chan struct{}
}

var orders = map[targettest.Behaviour]order{
	targettest.Succeed:       {},
	targettest.FailRetryable: {Code: 75},
	targettest.FailFinal:     {Code: 1},
	targettest.Hang:          {Hang: true},
	targettest.Huge:          {Bytes: 8 << 20},
	targettest.HugeFailure:   {Bytes: 8 << 20, Code: 75},
	targettest.Echo:          {Echo: true, Code: 75},
}

func startServer(t *testing.T) *server {
	t.Helper()
	dir, err := os.MkdirTemp(directory, "")
	require.NoError(t, err)
	require.NoError(t, os.Chmod(dir, 0o755))
	s := &server{
		t: t, socket: filepath.Join(dir, "socket"), received: make(chan targettest.Delivery, 1000),
		release: make(chan struct{}),
	}
	s.Behave(targettest.Succeed)
	t.Cleanup(func() { s.Behave(targettest.Down) })
	return s
}

func (s *server) Behave(b targettest.Behaviour) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b == targettest.Down {
		if s.listener != nil {
			_ = s.listener.Close()
			s.listener = nil
		}
		return
	}
	s.order = orders[b]
	if s.listener != nil {
		return
	}
	listener, err := net.Listen("unix", s.socket)
	require.NoError(s.t, err)
	require.NoError(s.t, os.Chmod(s.socket, 0o777))
	s.listener = listener
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go s.answer(conn)
		}
	}()
}

func (s *server) answer(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	var got targettest.Delivery
	if json.NewDecoder(conn).Decode(&got) != nil {
		return
	}
	s.mu.Lock()
	o, release := s.order, s.release
	s.mu.Unlock()
	s.received <- got
	say := json.NewEncoder(conn)
	_ = say.Encode(o)
	if o.Hang {
		<-release
		_ = say.Encode(order{})
	}
}

func (s *server) Release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.release)
	s.release = make(chan struct{})
}

func (s *server) Config() json.RawMessage {
	return json.RawMessage(fmt.Sprintf(`{"program": %q, "env": {"TEST_SOCKET": %q, "TOKEN": {"secret": %q}}}`,
		program(), s.socket, targettest.SecretName))
}

func (s *server) Received() <-chan targettest.Delivery { return s.received }
