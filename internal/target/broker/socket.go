package broker

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/belfry-dev/belfry/internal/clock"
)

// What a server may send. Honest brokers send some hundred bytes for each message, and are never delayed.
const (
	burst         = 1 << 20  // bytes at once
	steadyRate    = 64 << 10 // bytes per second
	perDelivery   = 4 << 10  // bytes in addition to what a delivery sends
	maxAllowance  = 16 << 20 // bytes, however many deliveries there were
	throttlePause = 50 * time.Millisecond
	throttledRead = 512 // bytes per pause
)

// Throttle is a dialer that limits how fast the connections of one client are read, all together. A hostile
// server can send without end: each byte that is read costs CPU time to decrypt and parse, and may be kept by
// the client. It limits what crosses the network, so it holds for TLS as well.
type Throttle struct {
	dialer Dialer

	mu        sync.Mutex
	allowance int // bytes; below 0 if connections have read at the same time
	refilled  time.Duration
}

// NewThrottle returns a throttle for the connections of one client.
func NewThrottle(d Dialer) *Throttle {
	return &Throttle{dialer: d, allowance: burst, refilled: clock.Elapsed()}
}

// DialContext implements Dialer.
func (t *Throttle) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := t.dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &throttledConn{conn, t}, nil
}

// Delivery allows the server to respond to a message of that many bytes.
func (t *Throttle) Delivery(bytes int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.allowance = min(t.allowance+perDelivery+2*bytes, maxAllowance) // twice: RabbitMQ may return the message
}

// allowed returns how many bytes may be read now.
func (t *Throttle) allowed() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := clock.Elapsed()
	if t.allowance < burst {
		t.allowance = min(t.allowance+int((now-t.refilled)*steadyRate/time.Second), burst)
	}
	t.refilled = now
	return t.allowance
}

func (t *Throttle) spend(bytes int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.allowance -= bytes
}

// throttledConn is a connection that is read no faster than its throttle allows.
type throttledConn struct {
	net.Conn
	throttle *Throttle
}

// Read pauses if too much was read. The pauses are short, and each is followed by a read, so that deadlines
// and the end of the connection are noticed.
func (c *throttledConn) Read(b []byte) (int, error) {
	most := c.throttle.allowed()
	if most <= 0 {
		<-time.After(throttlePause)
		most = max(c.throttle.allowed(), throttledRead)
	}
	n, err := c.Conn.Read(b[:min(len(b), most)])
	c.throttle.spend(n)
	return n, err
}
