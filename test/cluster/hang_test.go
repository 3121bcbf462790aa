package cluster_test

import (
	"io"
	"net"
	"net/url"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/clock"
)

// proxy is between the nodes and the database. It can hang connections: they stay open, and nothing arrives any more.
type proxy struct {
	listener net.Listener
	to       string
	delay    time.Duration // of each direction

	mu   sync.Mutex
	hung chan struct{} // closed when the existing connections hang
	away bool          // new ones hang too
	ends []net.Conn
}

func newProxy(t *testing.T, to string, delay time.Duration) *proxy {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &proxy{listener: l, to: to, delay: delay, hung: make(chan struct{})}
	go p.accept()
	t.Cleanup(p.close)
	return p
}

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		if !p.connect(client) {
			_ = client.Close()
		}
	}
}

func (p *proxy) connect(client net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.away {
		p.ends = append(p.ends, client)
		return true
	}
	server, err := net.Dial("tcp", p.to)
	if err != nil {
		return false
	}
	p.ends = append(p.ends, client, server)
	go pass(client, p.delayed(server), p.hung)
	go pass(server, p.delayed(client), p.hung)
	return true
}

// delayed passes on what is written to it after the delay.
func (p *proxy) delayed(to net.Conn) io.WriteCloser {
	if p.delay == 0 {
		return to
	}
	d := &delayedConn{to: to, delay: p.delay, parts: make(chan delayedPart, 1000)}
	go d.pass()
	return d
}

type delayedPart struct {
	due  time.Duration // clock.Elapsed
	data []byte
}

type delayedConn struct {
	to    net.Conn
	delay time.Duration
	parts chan delayedPart
}

func (d *delayedConn) Write(data []byte) (int, error) {
	d.parts <- delayedPart{clock.Elapsed() + d.delay, slices.Clone(data)}
	return len(data), nil
}

func (d *delayedConn) Close() error { close(d.parts); return nil }

func (d *delayedConn) pass() {
	for part := range d.parts {
		<-time.After(part.due - clock.Elapsed())
		_, _ = d.to.Write(part.data) // if it fails, the other direction ends too
	}
	_ = d.to.Close()
}

// pass copies until one end closes. After a hang it discards everything.
func pass(from net.Conn, to io.WriteCloser, hung <-chan struct{}) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		select {
		case <-hung:
			_, _ = io.Copy(io.Discard, from)
			return // the other end gets no notice
		default:
		}
		if err == nil {
			_, err = to.Write(buffer[:n])
		}
		if err != nil {
			_ = to.Close()
			return
		}
	}
}

// hang hangs all existing connections permanently. New ones work.
func (p *proxy) hang() {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.hung)
	p.hung = make(chan struct{})
}

// cut hangs all connections, and new ones until heal.
func (p *proxy) cut() {
	p.hang()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.away = true
}

// heal closes the connections that hang, and lets new ones through.
func (p *proxy) heal() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.away = false
	p.closeEnds()
}

func (p *proxy) closeEnds() {
	for _, c := range p.ends {
		_ = c.Close()
	}
	p.ends = nil
}

func (p *proxy) close() {
	_ = p.listener.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closeEnds()
}

// through is the URL of a database by way of a proxy.
func through(t *testing.T, address string, delay time.Duration) (*proxy, string) {
	t.Helper()
	u, err := url.Parse(address)
	require.NoError(t, err)
	p := newProxy(t, u.Host, delay)
	u.Host = p.listener.Addr().String()
	return p, u.String()
}

// TestHang: all connections of all nodes hang at the same time, without being closed, as with a frozen machine. No node
// waits for them indefinitely.
func TestHang(t *testing.T) {
	t.Parallel()
	f := form{faults: 1, seconds: 10, jobs: 50}.long()
	c := newCluster(t, setup{nodes: 3, proxied: true})
	c.create(f.jobs, f.duration()+25*time.Second, spread)
	var hung []time.Time
	every(f.duration(), f.faults, func(int) {
		hung = append(hung, clock.Now())
		c.proxy.hang()
	})
	c.finish(2 * time.Minute)
	late := c.lateness()
	r := c.check()
	t.Logf("hangs=%d, the next run after %s", len(hung), c.firing(hung...))
	t.Logf("lateness %s", late)
	t.Log(r)
	c.clean(r)
	require.LessOrEqual(t, late.percentile(100), allowed(20*time.Second))
}
