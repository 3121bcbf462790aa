package app

import (
	"io"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// proxy stands between a node and its database, and can be cut.
type proxy struct {
	t       *testing.T
	to      string
	address string

	mu       sync.Mutex
	listener net.Listener // nil: cut
	conns    []net.Conn

	answers atomic.Int64 // reads from the database so far
	breakAt atomic.Int64 // the answer that is lost, and all connections with it; 0: none
}

// newProxy returns a proxy that is cut, and the URL through it with a password.
func newProxy(t *testing.T, database, password string) (*proxy, string) {
	t.Helper()
	p, url := openProxy(t, database, password)
	p.cut()
	return p, url
}

// openProxy returns a proxy that is not cut.
func openProxy(t *testing.T, database, password string) (*proxy, string) {
	t.Helper()
	u, err := url.Parse(database)
	require.NoError(t, err)
	p := &proxy{t: t, to: u.Host, address: freeAddress(t)}
	p.open()
	u.Host, u.User = p.address, url.UserPassword(u.User.Username(), password)
	t.Cleanup(p.cut)
	return p, u.String()
}

func (p *proxy) open() {
	p.t.Helper()
	listener, err := new(net.ListenConfig).Listen(p.t.Context(), "tcp", p.address)
	require.NoError(p.t, err)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.listener = listener
	go p.accept(listener)
}

func (p *proxy) accept(listener net.Listener) {
	for {
		in, err := listener.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", p.to)
		if err != nil {
			_ = in.Close()
			continue
		}
		p.mu.Lock()
		p.conns = append(p.conns, in, out)
		cut := p.listener != listener
		p.mu.Unlock()
		if cut {
			_, _ = in.Close(), out.Close()
		}
		for _, pair := range [][2]io.ReadWriteCloser{{in, answering{out, p}}, {out, in}} {
			go func() {
				_, _ = io.Copy(pair[0], pair[1])
				_, _ = pair[0].Close(), pair[1].Close()
			}()
		}
	}
}

// answering is a connection to the database that counts what it answers.
type answering struct {
	net.Conn

	p *proxy
}

func (a answering) Read(b []byte) (int, error) {
	n, err := a.Conn.Read(b)
	if a.p.answers.Add(1) == a.p.breakAt.Load() {
		a.p.interrupt()
		return 0, io.EOF
	}
	return n, err
}

// interrupt ends all connections. New ones are accepted.
func (p *proxy) interrupt() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		_ = c.Close()
	}
	p.conns = nil
}

func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != nil {
		_ = p.listener.Close()
	}
	for _, c := range p.conns {
		_ = c.Close()
	}
	p.listener, p.conns = nil, nil
}
