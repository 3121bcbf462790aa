package http_test

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/dns/dnsmessage"
)

// names is a DNS server on this machine that an attacker controls.
type names struct {
	mu      sync.Mutex
	answers map[string][]netip.Addr // by name with a trailing dot
	next    map[string][]netip.Addr // what a name resolves to after the first query
}

func startNames(t *testing.T) (*names, *net.Resolver) {
	t.Helper()
	socket, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = socket.Close() })
	n := &names{answers: map[string][]netip.Addr{}, next: map[string][]netip.Addr{}}
	go n.serve(socket)
	return n, &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", socket.LocalAddr().String())
	}}
}

// set sets the answer for a name: for all queries, or for the next one only and then another.
func (n *names) set(name string, first []netip.Addr, then ...netip.Addr) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.answers[name+"."] = first
	if len(then) > 0 {
		n.next[name+"."] = then
	}
}

func (n *names) serve(socket net.PacketConn) {
	buf := make([]byte, 1500)
	for {
		size, from, err := socket.ReadFrom(buf)
		if err != nil {
			return
		}
		var m dnsmessage.Message
		if m.Unpack(buf[:size]) != nil || len(m.Questions) != 1 {
			continue
		}
		n.answer(&m)
		if out, err := m.Pack(); err == nil {
			_, _ = socket.WriteTo(out, from)
		}
	}
}

func (n *names) answer(m *dnsmessage.Message) {
	n.mu.Lock()
	defer n.mu.Unlock()
	q := m.Questions[0]
	name := strings.ToLower(q.Name.String())
	addrs, known := n.answers[name]
	if then, ok := n.next[name]; ok && q.Type == dnsmessage.TypeA {
		n.answers[name] = then
		delete(n.next, name)
	}
	m.Response, m.Authoritative, m.Additionals = true, true, nil
	if !known {
		m.RCode = dnsmessage.RCodeNameError
	}
	for _, a := range addrs {
		head := dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class}
		switch {
		case a.Is4() && q.Type == dnsmessage.TypeA:
			m.Answers = append(m.Answers, dnsmessage.Resource{Header: head, Body: &dnsmessage.AResource{A: a.As4()}})
		case a.Is6() && q.Type == dnsmessage.TypeAAAA:
			m.Answers = append(m.Answers,
				dnsmessage.Resource{Header: head, Body: &dnsmessage.AAAAResource{AAAA: a.As16()}})
		}
	}
}
