// Package throttle limits how fast a node reads what the server of a target sends.
//
// Whoever may edit a job chooses the server, and a hostile one can send without end. Each byte that is read costs
// CPU time to decrypt and parse, and may be kept by a client. The limit is on what crosses the network, so it
// holds for TLS as well. Honest servers send little for each delivery, and are never delayed.
package throttle

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/belfry-dev/belfry/internal/clock"
)

const (
	steadyRate   = 64 << 10 // bytes per second
	maxAllowance = 16 << 20 // bytes, however many deliveries there were, and more for those in progress
	pause        = 50 * time.Millisecond
	afterPause   = 512 // bytes
)

// Dials opens connections: see guard.Guard.
type Dials interface {
	DialContext(ctx context.Context, network, address string) (net.Conn, error)
}

// Dialer limits how fast its connections are read, all together. Each client has its own.
type Dialer struct {
	to    Dials
	burst int // bytes that may come at once

	mu        sync.Mutex
	allowance int // bytes; below 0 if connections have read at the same time
	expected  int // bytes that deliveries in progress may get
	refilled  time.Duration
}

// New returns a dialer for one client. burst is how many bytes may come at once without a reason.
func New(to Dials, burst int) *Dialer {
	return &Dialer{to: to, burst: burst, allowance: burst, refilled: clock.Elapsed()}
}

// DialContext opens a connection.
func (t *Dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := t.to.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &Conn{conn, t}, nil
}

// expect notes that the deliveries in progress may get that much more, or less if one has ended. What they did not
// get stays allowed, up to maxAllowance.
func (t *Dialer) expect(bytes int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.expected += bytes
	t.allowance = min(t.allowance+max(bytes, 0), maxAllowance+t.expected)
}

// allowed returns how many bytes may be read now.
func (t *Dialer) allowed() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := clock.Elapsed()
	if t.allowance < t.burst {
		t.allowance = min(t.allowance+int((now-t.refilled)*steadyRate/time.Second), t.burst)
	}
	t.refilled = now
	return t.allowance
}

func (t *Dialer) spend(bytes int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.allowance -= bytes
}

// Conn is a connection that is read no faster than its dialer allows.
type Conn struct {
	net.Conn
	dialer *Dialer
}

// Begin allows the server to send that much more, for a delivery that lasts until End is called with the same number.
// Deliveries that share the connection never delay each other.
func (c *Conn) Begin(bytes int) { c.dialer.expect(bytes) }

// End ends a delivery: see [Conn.Begin].
func (c *Conn) End(bytes int) { c.dialer.expect(-bytes) }

// Read pauses if too much was read. The pauses are short, and each is followed by a read, so that deadlines
// and the end of the connection are noticed.
func (c *Conn) Read(b []byte) (int, error) {
	most := c.dialer.allowed()
	if most <= 0 {
		<-time.After(pause)
		most = max(c.dialer.allowed(), afterPause)
	}
	n, err := c.Conn.Read(b[:min(len(b), most)])
	c.dialer.spend(n)
	return n, err
}
