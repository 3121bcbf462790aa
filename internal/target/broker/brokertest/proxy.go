// Package brokertest contains what the tests of the broker targets share.
//
//   - [Server] and [Proxy]: a real broker behind a proxy that can withhold responses, lose data or be down,
//     as targettest needs it.
//   - [Secured]: cases for TLS and logins, the examples of the guide, and outages.
//   - [SecondServer]: the first of two servers does not respond.
//   - [Echo]: a hostile server that repeats secrets.
package brokertest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// Proxy stands between a target and a broker.
type Proxy struct {
	t       testing.TB
	to      string
	address string

	mu       sync.Mutex
	listener net.Listener
	conns    map[net.Conn]bool
	trigger  string        // responses are withheld once this text was sent
	released chan struct{} // closed: responses are not withheld any more
	lose     atomic.Bool   // drop responses
	swallow  atomic.Bool   // drop requests
	Opened   atomic.Int64  // number of connections so far
}

// addresses gives each proxy its own address, so no other takes its port while it is down.
var addresses atomic.Int32

// NewProxy starts a proxy in front of an address. It stops when the test ends.
func NewProxy(t testing.TB, to string) *Proxy {
	p := &Proxy{
		t: t, to: to, address: fmt.Sprintf("127.78.0.%d:0", addresses.Add(1)%250+1),
		conns: map[net.Conn]bool{}, released: make(chan struct{}),
	}
	p.Up()
	t.Cleanup(p.Down)
	return p
}

// Address returns the address of the proxy.
func (p *Proxy) Address() string { return p.address }

// Up accepts connections, at the same address as before.
func (p *Proxy) Up() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != nil {
		return
	}
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", p.address)
	if err != nil {
		p.t.Errorf("proxy: %v", err)
		return
	}
	p.address, p.listener = listener.Addr().String(), listener
	go p.accept(listener)
}

// Down closes all connections and refuses new ones.
func (p *Proxy) Down() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != nil {
		_ = p.listener.Close()
		p.listener = nil
	}
	for c := range p.conns {
		_ = c.Close()
	}
}

// Withhold withholds the broker's responses on each connection that has sent a given string.
func (p *Proxy) Withhold(after string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.trigger = after
}

// Lose drops the broker's responses from now on. Requests still arrive.
func (p *Proxy) Lose() { p.lose.Store(true) }

// Swallow drops requests from now on: the target has written them, but they do not arrive.
func (p *Proxy) Swallow() { p.swallow.Store(true) }

// Cut closes all connections. New connections work and lose nothing.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close()
	}
	p.lose.Store(false)
	p.swallow.Store(false)
}

// Release forwards the withheld responses and all later ones.
func (p *Proxy) Release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.trigger = ""
	close(p.released)
}

func (p *Proxy) accept(listener net.Listener) {
	for {
		in, err := listener.Accept()
		if err != nil {
			return
		}
		p.Opened.Add(1)
		go p.join(in)
	}
}

func (p *Proxy) join(in net.Conn) {
	out, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", p.to)
	if err != nil {
		_ = in.Close()
		return
	}
	if !p.keep(in, out) {
		return
	}
	withheld := make(chan struct{})
	go func() {
		p.forward(out, in, withheld)
		p.cut(in, out)
	}()
	p.back(in, out, withheld)
	p.cut(in, out)
}

func (p *Proxy) keep(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		if p.listener == nil {
			_ = c.Close()
			continue
		}
		p.conns[c] = true
	}
	return p.listener != nil
}

func (p *Proxy) cut(conns ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		_ = c.Close()
		delete(p.conns, c)
	}
}

// forward forwards requests, and closes withheld when it has seen the trigger.
func (p *Proxy) forward(to io.Writer, from io.Reader, withheld chan struct{}) {
	buf := make([]byte, 64<<10)
	var tail []byte
	for {
		n, err := from.Read(buf)
		p.mu.Lock()
		trigger := p.trigger
		p.mu.Unlock()
		tail = append(tail, buf[:n]...)
		if trigger != "" && withheld != nil && bytes.Contains(tail, []byte(trigger)) {
			close(withheld)
			withheld = nil
		}
		tail = tail[max(0, len(tail)-1024):]
		if p.swallow.Load() && err == nil {
			continue
		}
		if _, failed := to.Write(buf[:n]); failed != nil || err != nil {
			return
		}
	}
}

// back forwards responses.
func (p *Proxy) back(to io.Writer, from io.Reader, withheld <-chan struct{}) {
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if p.lose.Load() && err == nil {
			continue
		}
		select {
		case <-withheld:
			<-p.released
		default:
		}
		if _, failed := to.Write(buf[:n]); failed != nil || err != nil {
			return
		}
	}
}
