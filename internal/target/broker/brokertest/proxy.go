// Package brokertest is what the conformance tests of the broker targets share: a
// real broker behind a proxy that can hold its answers back or be away.
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
	hold     string        // answers are held back once this was sent
	released chan struct{} // closed: nothing is held back
	lose     atomic.Bool   // answers do not arrive
	swallow  atomic.Bool   // nor does what is sent
	Opened   atomic.Int64  // connections so far
}

// addresses are one for each proxy: nobody takes the port of one that is down.
var addresses atomic.Int32

// NewProxy stands before an address, until the test ends.
func NewProxy(t testing.TB, to string) *Proxy {
	p := &Proxy{t: t, to: to, address: fmt.Sprintf("127.78.0.%d:0", addresses.Add(1)%250+1), conns: map[net.Conn]bool{}, released: make(chan struct{})}
	p.Up()
	t.Cleanup(p.Down)
	return p
}

// Address is where the target connects to.
func (p *Proxy) Address() string { return p.address }

// Up takes connections, at the same address as before.
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

// Down refuses connections, and cuts those that there are.
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

// Hold the broker's answers back on each connection, once a text went through it.
func (p *Proxy) Hold(after string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hold = after
}

// Lose the broker's answers from now on; what is sent still arrives.
func (p *Proxy) Lose() { p.lose.Store(true) }

// Swallow what is sent to the broker from now on: the target has written it, and nobody has it.
func (p *Proxy) Swallow() { p.swallow.Store(true) }

// Cut all connections. New ones are taken, and lose nothing.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close()
	}
	p.lose.Store(false)
	p.swallow.Store(false)
}

// Release what is held back, for good.
func (p *Proxy) Release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hold = ""
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
	held := make(chan struct{})
	go func() {
		p.forward(out, in, held)
		p.cut(in, out)
	}()
	p.back(in, out, held)
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

// forward what the target sends, and note when the text to hold after comes by.
func (p *Proxy) forward(to io.Writer, from io.Reader, held chan struct{}) {
	buf := make([]byte, 64<<10)
	var tail []byte
	for {
		n, err := from.Read(buf)
		p.mu.Lock()
		text := p.hold
		p.mu.Unlock()
		tail = append(tail, buf[:n]...)
		if text != "" && held != nil && bytes.Contains(tail, []byte(text)) {
			close(held)
			held = nil
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

// back is the way of the answers.
func (p *Proxy) back(to io.Writer, from io.Reader, held <-chan struct{}) {
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if p.lose.Load() && err == nil {
			continue
		}
		select {
		case <-held:
			<-p.released
		default:
		}
		if _, failed := to.Write(buf[:n]); failed != nil || err != nil {
			return
		}
	}
}
