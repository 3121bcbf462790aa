package share

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestOneAddressCannotHaveAllConnections: 2,000 idle connections of an address do not keep another one out.
func TestOneAddressCannotHaveAllConnections(t *testing.T) {
	t.Parallel()
	const size, many = 100, 2000
	inner, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var refused atomic.Int64
	l := limit(inner, size, func(net.Addr) { refused.Add(1) })
	s := &http.Server{
		ReadHeaderTimeout: time.Hour,
		Handler:           http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }),
	}
	go func() { _ = s.Serve(l) }()
	t.Cleanup(func() { _ = s.Close() })
	var idle []net.Conn
	for range many {
		c, err := new(net.Dialer).DialContext(t.Context(), "tcp", inner.Addr().String())
		require.NoError(t, err)
		idle = append(idle, c)
	}
	require.Eventually(t, func() bool { return refused.Load() == many-size*4/5 }, time.Minute, 10*time.Millisecond)

	get := func(from string) error {
		dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
		transport := &http.Transport{DialContext: dialer.DialContext, DisableKeepAlives: true}
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+inner.Addr().String(), nil)
		require.NoError(t, err)
		response, err := transport.RoundTrip(request)
		if err == nil {
			err = response.Body.Close()
		}
		return err
	}
	for range size {
		require.NoError(t, get("127.0.0.2"), "another address is served")
	}
	require.Error(t, get("127.0.0.1"))
	for _, c := range idle {
		require.NoError(t, c.Close())
	}
	require.Eventually(t, func() bool { return get("127.0.0.1") == nil }, time.Minute, 10*time.Millisecond)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
	defer cancel()
	require.NoError(t, s.Shutdown(ctx))
	require.Zero(t, l.pool.used, "each connection is counted once")
}

func TestNetwork(t *testing.T) {
	t.Parallel()
	at := func(text string) net.Addr { return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(text)) }
	require.Equal(t, network(at("[2001:db8::1]:1")), network(at("[2001:db8::2]:2")), "one client has the whole network")
	require.NotEqual(t, network(at("[2001:db8::1]:1")), network(at("[2001:db8:0:1::1]:1")))
	require.NotEqual(t, network(at("192.0.2.1:1")), network(at("192.0.2.2:1")))
	require.Equal(t, network(at("192.0.2.1:1")), network(at("[::ffff:192.0.2.1]:1")))
	require.Zero(t, network(&net.UnixAddr{Name: "x"}))
}
