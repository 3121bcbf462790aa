package guard_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/target/guard"
)

// What is denied is refused in every form, whatever is allowed.
func TestDeny(t *testing.T) {
	t.Parallel()
	const all = "0.0.0.0/0,::/0,public"
	for _, c := range []struct {
		allow, deny, address string
		ok                   bool
	}{
		{"", "93.184.216.0/24", "93.184.216.34:443", false},
		{"", "93.184.216.0/24", "[::ffff:93.184.216.34]:443", false},
		{"", "93.184.216.0/24", "93.184.217.34:443", true},
		{"", "::ffff:93.184.216.0/120", "93.184.216.34:443", false},
		{"", "::ffff:93.184.216.0/120", "[::ffff:93.184.216.34]:443", false},
		{"", "::ffff:93.184.216.0/120", "93.184.217.34:443", true},
		{"", "::ffff:0.0.0.0/96", "93.184.216.34:443", false},
		{all, "::ffff:10.0.0.0/104", "[64:ff9b::a01:203]:5432", false},
		{"", "2606:2800::/32", "[2606:2800:220:1:248:1893:25c8:1946]:443", false},
		{"", "93.184.216.34:5432", "93.184.216.34:5432", false},
		{"", "93.184.216.34:5432", "93.184.216.34:443", true},
		{"", "[::ffff:93.184.216.34]:5432", "93.184.216.34:5432", false},
		{all, "10.1.2.3:5432", "10.1.2.3:5432", false},
		{all, "10.1.2.3:5432", "[::ffff:10.1.2.3]:5432", false},
		{all, "10.1.2.3:5432", "[64:ff9b::a01:203]:5432", false},
		{"[64:ff9b::a01:203]:5432", "10.1.2.3:5432", "[64:ff9b::a01:203]:5432", false},
		{all, "10.1.2.3:5432", "10.1.2.3:5433", true},
		{all + ",10.1.2.3:5432", "10.0.0.0/8", "10.1.2.3:5432", false},
		{all, "fe80::/10", "[fe80::1%lo]:80", false},
		// The kernel connects to the loopback address instead.
		{all, "127.0.0.1:5432", "0.0.0.0:5432", false},
		{all, "127.0.0.1:5432", "[::]:5432", false},
		{all, "127.0.0.1:5432", "0.0.0.0:80", true},
		{all, "0.0.0.0:8420", "127.8.8.8:8420", false},
		{all, "0.0.0.0:8420", "127.8.8.8:8421", true},
	} {
		g, err := guard.New(guard.Options{Allow: split(c.allow), Deny: split(c.deny)})
		require.NoError(t, err)
		if err := g.Control("tcp6", c.address, nil); c.ok {
			require.NoError(t, err, "%+v", c)
		} else {
			require.ErrorIs(t, err, guard.ErrRefused, "%+v", c)
		}
	}
	for _, entry := range []string{"", "public", "10.0.0.0", "host", "host:", ":80", "host:0", "host:65536", "10.0.0.0/33"} {
		_, err := guard.New(guard.Options{Deny: []string{entry}})
		require.ErrorContains(t, err, "targets.deny", entry)
	}
	_, err := guard.New(guard.Options{Deny: make([]string, 1001)})
	require.ErrorContains(t, err, "targets.deny has 1001 entries")
}

// The addresses of this machine need an entry of their own, on every port.
func TestThisMachineIsRefused(t *testing.T) {
	t.Parallel()
	const all = "0.0.0.0/0,::/0,public"
	machine := func() (out []net.Addr, err error) {
		for _, text := range []string{
			"127.0.0.1/8", "10.1.2.3/16", "93.184.216.34/24", "2606:2800:220:1::7/64", "fe80::7/64", "::1/128",
		} {
			ip, network, err := net.ParseCIDR(text)
			require.NoError(t, err)
			out = append(out, &net.IPNet{IP: ip, Mask: network.Mask})
		}
		return out, nil
	}
	for _, c := range []struct {
		allow, address string
		ok             bool
	}{
		{"", "93.184.216.34:22", false},
		{"", "[::ffff:93.184.216.34]:22", false},
		{"", "93.184.216.35:22", true},
		{"", "[2606:2800:220:1::7]:22", false},
		{"", "[2606:2800:220:1::8]:22", true},
		{all, "93.184.216.34:22", false},
		{all, "[64:ff9b::5db8:d822]:22", false},
		{all, "[fe80::7%lo]:22", false},
		{"10.0.0.0/8", "10.1.2.3:22", false},
		{"10.0.0.0/8", "10.1.2.4:22", true},
		{"10.0.0.0/8,10.1.2.3/32", "10.1.2.3:22", true},
		{"10.1.2.3:22", "10.1.2.3:22", true},
		{"10.1.2.3:22", "10.1.2.3:23", false},
		{"93.184.216.34/32", "93.184.216.34:22", true},
		{"127.0.0.0/8", "127.0.0.1:22", true}, // it is not allowed by accident
	} {
		for _, scope := range []string{"", "billing="} {
			var allow []string
			for _, entry := range split(c.allow) {
				allow = append(allow, scope+entry)
			}
			name := func(context.Context, uuid.UUID) (string, error) { return "billing", nil }
			g, err := guard.New(guard.Options{Allow: allow, Interfaces: machine, Namespace: name})
			require.NoError(t, err)
			g, err = g.For(t.Context(), uuid.New())
			require.NoError(t, err)
			if err := g.Control("tcp6", c.address, nil); c.ok {
				require.NoError(t, err, "%+v", c)
			} else {
				require.ErrorIs(t, err, guard.ErrRefused, "%+v", c)
			}
		}
	}
	_, err := guard.New(guard.Options{Interfaces: func() ([]net.Addr, error) { return nil, errors.New("no netlink") }})
	require.ErrorContains(t, err, "list the addresses of this machine: no netlink")
}

// A name is judged by its address, also if the name itself is allowed, and a denied name by the address that it has.
func TestDenyNames(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	address := listener.Addr().String()
	name := strings.Replace(address, "127.0.0.1", "localhost", 1)
	dial := func(o guard.Options, to string) error {
		g, err := guard.New(o)
		require.NoError(t, err)
		conn, err := g.Dial("tcp4", to)
		if err == nil {
			_ = conn.Close()
		}
		return err
	}
	loopback := []string{"127.0.0.0/8", "::1/128"}
	for _, to := range []string{name, address} {
		require.NoError(t, dial(guard.Options{Allow: loopback}, to))
		for _, denied := range []string{name, address, "127.0.0.0/8"} {
			for _, allow := range [][]string{loopback, {name, address}} {
				require.ErrorIs(t, dial(guard.Options{Allow: allow, Deny: []string{denied}}, to), guard.ErrRefused)
			}
		}
		for _, own := range []string{name, address} {
			require.ErrorIs(t, dial(guard.Options{Allow: loopback, Own: []string{own}}, to), guard.ErrRefused)
			require.NoError(t, dial(guard.Options{Allow: []string{name, address}, Own: []string{own}}, to))
		}
	}
}
