package guard_test

import (
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/target/guard"
)

func TestControl(t *testing.T) {
	t.Parallel()
	const (
		private = "10.0.0.0/8"
		all     = "0.0.0.0/0,::/0"
	)
	for _, c := range []struct {
		allow, address string
		ok             bool
	}{
		{"", "93.184.216.34:443", true},
		{"", "[2606:2800:220:1:248:1893:25c8:1946]:25", true},
		{"", "127.0.0.1:80", false},
		{"", "0.0.0.0:80", false},
		{"", "255.255.255.255:80", false},
		{"", "224.0.0.1:80", false},
		{"", "100.64.0.1:80", false},
		{"", "168.63.129.16:80", false},
		{"", "[::]:80", false},
		{"", "[::1]:80", false},
		{"", "[::ffff:93.184.216.34]:80", true}, // the dialer connects to it as IPv4
		{"", "[::ffff:127.0.0.1]:80", false},
		{"", "[fe80::1%lo]:80", false},
		{"", "[2606:2800:220:1:248:1893:25c8:1946%lo]:80", false},
		{"", "[64:ff9b::5db8:d822]:80", false},
		{"", "[2002:7f00:1::]:80", false},
		{"", "[2001:0:1::1]:80", false},
		{"", "nonsense", false},
		{private, "10.200.3.4:80", true},
		{private, "[::ffff:10.200.3.4]:80", true},
		{private, "172.16.0.1:80", false},
		{"10.1.2.3:8080", "10.1.2.3:8080", true},
		{"10.1.2.3:8080", "[::ffff:10.1.2.3]:8080", true},
		{"10.1.2.3:8080", "10.1.2.3:8081", false},
		{all, "127.0.0.1:80", true},
		{all, "[fc00::1]:80", true},
		{all, "169.254.1.1:80", true},
		// A network does not include metadata services.
		{all, "169.254.169.254:80", false},
		{all, "[::ffff:169.254.169.254]:80", false},
		{all, "169.254.170.2:80", false},
		{all, "169.254.170.23:80", false},
		{all, "169.254.0.23:80", false},
		{all, "[::ffff:169.254.170.23]:80", false},
		{all, "168.63.129.16:80", false},
		{all, "100.100.100.200:80", false},
		{all, "[fd00:ec2::254]:80", false},
		{all, "[fd00:ec2::23]:80", false},
		{all, "[fd00:ec2::1:253]:80", false},
		{all, "[fd20:ce::254]:80", false},
		{all, "[fd00:c1::a9fe:a9fe]:80", false},
		{all, "[fd00:42::42]:80", false},
		{all, "192.0.0.192:80", false},
		{all, "169.254.42.42:80", false},
		{all + ",fd00:ec2::254/128", "[fd00:ec2::254]:80", true},
		{all + ",169.254.169.254/32", "169.254.169.254:80", true},
		{"169.254.169.254:80", "169.254.169.254:80", true},
		// NAT64 is allowed for addresses that are allowed without it.
		{"64:ff9b::/96", "[64:ff9b::5db8:d822]:80", true},
		{"64:ff9b::/96", "[64:ff9b::7f00:1]:80", false},
		{"64:ff9b::/96," + private, "[64:ff9b::a00:1]:80", true},
		{all, "[64:ff9b::a9fe:a9fe]:80", false},
	} {
		g, err := guard.New(guard.Options{Allow: split(c.allow)})
		require.NoError(t, err)
		network := "tcp6"
		if to, err := netip.ParseAddrPort(c.address); err == nil && to.Addr().Is4() {
			network = "tcp4"
		}
		if err := g.Control(network, c.address, nil); c.ok {
			require.NoError(t, err, "%+v", c)
		} else {
			require.ErrorIs(t, err, guard.ErrRefused, "%+v", c)
		}
		require.ErrorIs(t, g.Control("unix", c.address, nil), guard.ErrRefused)
		require.ErrorIs(t, g.Control("udp4", c.address, nil), guard.ErrRefused)
	}
}

// With NoPublic, public addresses need an entry like any other.
func TestNoPublic(t *testing.T) {
	t.Parallel()
	const (
		loopback = "127.0.0.0/8,::1/128"
		public   = "93.184.216.34:443"
		public6  = "[2606:2800:220:1:248:1893:25c8:1946]:443"
	)
	for _, c := range []struct {
		allow, address string
		ok             bool
	}{
		{"", public, false},
		{loopback, "127.0.0.1:80", true},
		{loopback, "[::1]:80", true},
		{loopback, public, false},
		{loopback, public6, false},
		{loopback, "[::ffff:93.184.216.34]:443", false},
		{loopback, "10.0.0.1:80", false},
		{loopback + ",64:ff9b::/96", "[64:ff9b::5db8:d822]:80", false}, // NAT64 of a public address
		{loopback + ",93.184.216.0/24", public, true},
		{loopback + ",93.184.216.0/24", "93.184.217.34:443", false},
		{loopback + "," + public, public, true},
		{loopback + ",public", public, true},
		{loopback + ",public", public6, true},
		{loopback + ",public", "10.0.0.1:80", false},
		{loopback + ",public", "169.254.169.254:80", false},
	} {
		g, err := guard.New(guard.Options{Allow: split(c.allow), NoPublic: true})
		require.NoError(t, err)
		network := "tcp6"
		if netip.MustParseAddrPort(c.address).Addr().Is4() {
			network = "tcp4"
		}
		if err := g.Control(network, c.address, nil); c.ok {
			require.NoError(t, err, "%+v", c)
		} else {
			require.ErrorIs(t, err, guard.ErrRefused, "%+v", c)
		}
	}
}

func split(list string) []string {
	if list == "" {
		return nil
	}
	return strings.Split(list, ",")
}

func TestNames(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	_, port, err := net.SplitHostPort(listener.Addr().String())
	require.NoError(t, err)
	g, err := guard.New(guard.Options{Allow: []string{"LocalHost:" + port, "localhost:1"}})
	require.NoError(t, err)
	for _, name := range []string{"localhost:", "LOCALHOST:"} {
		conn, err := g.Dial("tcp", name+port)
		require.NoError(t, err, name)
		_ = conn.Close()
	}
	for _, address := range []string{"127.0.0.1:" + port, "localhost:2", "x.localhost:" + port} {
		_, err := g.Dial("tcp", address)
		require.Error(t, err, address)
	}
	_, err = g.Dial("tcp", "127.0.0.1:"+port)
	require.ErrorIs(t, err, guard.ErrRefused)
	require.NotContains(t, guard.ErrRefused.Error(), "127.0.0.1")
	_, err = g.Dial("unix", "/tmp/x.sock")
	require.ErrorIs(t, err, guard.ErrRefused)
}

func TestWrongEntries(t *testing.T) {
	t.Parallel()
	for _, entry := range []string{
		"", "10.0.0.0", "10.0.0.0/33", "host", "host:", ":80", "host:0", "host:65536", "*.example.com:80",
		"http://x:80", "a b:80",
	} {
		_, err := guard.New(guard.Options{Allow: []string{entry}})
		require.ErrorContains(t, err, "targets.allow", entry)
	}
	_, err := guard.New(guard.Options{Allow: make([]string, 1001)})
	require.ErrorContains(t, err, "at most 1000")
}
