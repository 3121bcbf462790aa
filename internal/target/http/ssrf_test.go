package http_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net"
	nethttp "net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/target/guard"
	"github.com/belfry-dev/belfry/internal/target/http"
)

// forbidden are networks that no target may connect to.
var forbidden = []string{
	"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12",
	"192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15",
	"198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
	"127.0.0.1/32", "169.254.169.254/32", "168.63.129.16/32", "100.100.100.200/32", "255.255.255.255/32",
	"::/128", "::1/128", "::/96", "64:ff9b:1::/48", "100::/64", "2001::/32", "2001:db8::/32", "2002::/16", "3fff::/20",
	"5f00::/16",
	"fc00::/7", "fd00:ec2::254/128", "fe80::/10", "fec0::/10", "ff02::/16",
}

// addressesOf returns the first and the last address of a network, and some in between.
func addressesOf(network netip.Prefix, r *rand.Rand) (out []netip.Addr) {
	for n := range 6 {
		b := network.Addr().AsSlice()
		for i := network.Bits(); i < len(b)*8; i++ {
			if n == 1 || n > 1 && r.IntN(2) == 0 {
				b[i/8] |= 0x80 >> (i % 8)
			}
		}
		a, _ := netip.AddrFromSlice(b)
		out = append(out, a)
		if network.IsSingleIP() {
			break
		}
	}
	return out
}

// digits writes the digits of a text in another alphabet.
func digits(text string, zero rune, rest rune) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '0':
			return zero
		case r >= '1' && r <= '9':
			return rest + r - '1'
		default:
			return r
		}
	}, text)
}

// spellings returns hosts of a URL that some resolver, browser or library takes for the address.
func spellings(a netip.Addr) (out []string) {
	if a.Is6() {
		x := a.As16()
		long := make([]string, 8)
		for i := range long {
			long[i] = fmt.Sprintf("%02X%02X", x[2*i], x[2*i+1])
		}
		return []string{
			"[" + a.String() + "]", "[" + strings.Join(long, ":") + "]", "[" + a.String() + "%25lo]",
			"[" + a.String() + "%25eth0]",
		}
	}
	b := a.As4()
	n := binary.BigEndian.Uint32(b[:])
	plain := a.String()
	hi, lo := n>>16, n&0xffff
	out = []string{
		plain, plain + ".", fmt.Sprint(n), fmt.Sprintf("0x%x", n), fmt.Sprintf("0x%08X", n), fmt.Sprintf("0%o", n),
		fmt.Sprintf("0x%x.0x%x.0x%x.0x%x", b[0], b[1], b[2], b[3]),
		fmt.Sprintf("0%o.0%o.0%o.0%o", b[0], b[1], b[2], b[3]),
		fmt.Sprintf("%03d.%03d.%03d.%03d", b[0], b[1], b[2], b[3]),
		fmt.Sprintf("0x%x.%d.0%o.%d", b[0], b[1], b[2], b[3]),
		fmt.Sprintf("%d.%d", b[0], n&0xffffff), fmt.Sprintf("%d.%d.%d", b[0], b[1], lo),
		fmt.Sprintf("0x%x.0x%x", b[0], n&0xffffff),
		fmt.Sprint(uint64(n) + 1<<32), fmt.Sprintf("%d.%d.%d.%d", int(b[0])+256, b[1], b[2], b[3]),
		// Other digits and dots, which IDNA turns into plain ones.
		digits(plain, '⓪', '①'), digits(plain, '０', '１'), digits(plain, '𝟎', '𝟏'), digits(plain, '𝟘', '𝟙'),
		digits(plain, '٠', '١'), strings.NewReplacer("1", "¹", "2", "²", "3", "³").Replace(plain),
		digits(fmt.Sprint(n), '⓪', '①'), strings.ReplaceAll(plain, ".", "。"), strings.ReplaceAll(plain, ".", "．"),
		strings.ReplaceAll(plain, ".", "%2e"),
		strings.ReplaceAll(digits(plain, '⓪', '①'), ".", "｡"), plain + "%00", plain + "\u00ad",
		"%3" + plain[:1] + plain[1:],
		// Within an IPv6 address: mapped, compatible, translated, NAT64, 6to4, Teredo, ISATAP.
		"[::ffff:" + plain + "]", fmt.Sprintf("[::ffff:%x:%x]", hi, lo), "[::FFFF:" + plain + "]",
		fmt.Sprintf("[0:0:0:0:0:ffff:%04x:%04x]", hi, lo),
		"[::" + plain + "]", "[::ffff:0:" + plain + "]", "[64:ff9b::" + plain + "]",
		fmt.Sprintf("[64:ff9b::%x:%x]", hi, lo), "[64:ff9b:1::" + plain + "]",
		fmt.Sprintf("[2002:%x:%x::]", hi, lo), fmt.Sprintf("[2002:%x:%x::%x:%x]", hi, lo, hi, lo),
		fmt.Sprintf("[2001:0:%x:%x::%x:%x]", hi, lo, ^hi&0xffff, ^lo&0xffff),
		"[fe80::5efe:" + plain + "]", "[::ffff:" + plain + "%25lo]",
	}
	return out
}

// everywhere counts connections to any address of this machine.
func everywhere(t *testing.T) (port string, connects *atomic.Int64) { return counter(t, ":0") }

func counter(t *testing.T, address string) (port string, connects *atomic.Int64) {
	t.Helper()
	listener, err := net.Listen("tcp", address)
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	connects = &atomic.Int64{}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			connects.Add(1)
			_, _ = conn.Write([]byte("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"))
			_ = conn.Close()
		}
	}()
	_, port, err = net.SplitHostPort(listener.Addr().String())
	require.NoError(t, err)
	return port, connects
}

// TestForbiddenAddresses (S5): the target never connects to a forbidden address, however it is spelled and
// whatever name resolves to it.
func TestForbiddenAddresses(t *testing.T) {
	t.Parallel()
	dns, resolver := startNames(t)
	port, connects := everywhere(t)
	r := rand.New(rand.NewPCG(1, 2))
	hosts := map[string]bool{
		"localhost": true, "LOCALHOST": true, "localhost.": true, "localhost.localdomain": true, "ip6-localhost": true,
	}
	for _, text := range forbidden {
		for _, a := range addressesOf(netip.MustParsePrefix(text), r) {
			for _, host := range spellings(a) {
				hosts[host] = true
			}
			name := fmt.Sprintf("name%d.test", len(hosts))
			dns.set(name, []netip.Addr{a})
			hosts[name] = true
		}
	}
	require.Greater(t, len(hosts), 2000)
	g, err := guard.New(guard.Options{Resolver: resolver})
	require.NoError(t, err)
	target := newTarget(t, http.Options{Guard: g})
	seen := map[string]int{}
	for host := range hosts {
		a := to("http://" + host + ":" + port + "/")
		if target.Check([]byte(a.Config)) != nil {
			seen["not a URL"]++
			continue
		}
		out := target.Deliver(t.Context(), a)
		require.Equal(t, job.Failed, out.Kind, host)
		switch {
		case strings.Contains(out.Message, "may not connect to"):
			require.False(t, out.Retryable, host)
			seen["refused"]++
		case strings.Contains(out.Message, "has a name that"):
			seen["no such name"]++
		default:
			t.Errorf("%s: %+v", host, out)
		}
	}
	require.Zero(t, connects.Load(), "forbidden connections")
	t.Logf("%d spellings: %v", len(hosts), seen)

	// Check that the listener counts: with loopback allowed, connections arrive by several spellings.
	g, err = guard.New(guard.Options{Resolver: resolver, Allow: []string{"127.0.0.0/8", "::1/128"}})
	require.NoError(t, err)
	open := newTarget(t, http.Options{Guard: g})
	for _, host := range append(spellings(netip.MustParseAddr("127.0.0.1")), "localhost") {
		if a := to("http://" + host + ":" + port + "/"); open.Check([]byte(a.Config)) == nil {
			open.Deliver(t.Context(), a)
		}
	}
	require.GreaterOrEqual(t, connects.Load(), int64(5))
}

// TestRebinding: the target never connects to a forbidden address through a name that resolved to an
// allowed address before, or that resolves to both.
func TestRebinding(t *testing.T) {
	t.Parallel()
	dns, resolver := startNames(t)
	port, connects := counter(t, "127.0.0.1:0")
	good, err := net.Listen("tcp", "127.0.0.2:0")
	require.NoError(t, err)
	var arrived atomic.Int64
	srv := httptest.NewUnstartedServer(nethttp.HandlerFunc(func(w nethttp.ResponseWriter, _ *nethttp.Request) {
		arrived.Add(1)
		w.Header().Set("Connection", "close")
	}))
	_ = srv.Listener.Close()
	srv.Listener = good
	srv.Start()
	t.Cleanup(srv.Close)
	g, err := guard.New(guard.Options{Resolver: resolver, Allow: []string{"127.0.0.2/32"}})
	require.NoError(t, err)
	target := newTarget(t, http.Options{Guard: g})
	allowed, bad := netip.MustParseAddr("127.0.0.2"), netip.MustParseAddr("127.0.0.1")
	_, goodPort, err := net.SplitHostPort(good.Addr().String())
	require.NoError(t, err)

	for n := range 50 {
		name := fmt.Sprintf("swap%d.test", n)
		dns.set(name, []netip.Addr{allowed}, bad)
		require.Equal(t, job.Succeeded, target.Deliver(t.Context(), to("http://"+name+":"+goodPort)).Kind)
		out := target.Deliver(t.Context(), to("http://"+name+":"+port))
		require.Equal(t, job.Failed, out.Kind)
		require.False(t, out.Retryable)
	}
	dns.set("both.test", []netip.Addr{bad, allowed, netip.MustParseAddr("::1")})
	for range 50 {
		require.Equal(t, job.Failed, target.Deliver(t.Context(), to("http://both.test:"+port)).Kind)
	}
	require.Equal(t, int64(50), arrived.Load())
	require.Zero(t, connects.Load(), "forbidden connections")
}

// TestRedirectsToForbidden (S7): redirects are not followed.
func TestRedirectsToForbidden(t *testing.T) {
	t.Parallel()
	port, connects := everywhere(t)
	for _, status := range []int{300, 301, 302, 303, 305, 307, 308} {
		target, url := setup(t, func(w nethttp.ResponseWriter, _ *nethttp.Request) {
			w.Header().Set("Location", "http://127.0.0.1:"+port+"/")
			w.Header().Set("Refresh", "0; url=http://127.0.0.1:"+port+"/")
			w.WriteHeader(status)
		})
		require.Equal(t, job.Failed, target.Deliver(t.Context(), to(url)).Kind)
	}
	require.Zero(t, connects.Load())
}

// TestNoProxy: a proxy from the environment would connect to addresses the guard never sees. Go reads the
// environment once per process, so this test runs in its own.
func TestNoProxy(t *testing.T) {
	t.Parallel()
	if os.Getenv("HTTP_PROXY") == "" {
		port, connects := counter(t, "127.0.0.1:0")
		proxy := "http://127.0.0.1:" + port
		child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestNoProxy$")
		child.Env = append(os.Environ(), "HTTP_PROXY="+proxy, "HTTPS_PROXY="+proxy, "ALL_PROXY="+proxy, "NO_PROXY=")
		out, err := child.CombinedOutput()
		require.NoError(t, err, string(out))
		require.Zero(t, connects.Load())
		return
	}
	dns, resolver := startNames(t)
	// Go never uses a proxy for a loopback address, so the test needs a name.
	dns.set("hooks.test", []netip.Addr{netip.MustParseAddr("127.0.0.1")})
	url, got := listen(t)
	g, err := guard.New(guard.Options{Resolver: resolver, Allow: []string{"127.0.0.0/8"}})
	require.NoError(t, err)
	require.Equal(t, job.Succeeded,
		newTarget(t, http.Options{Guard: g}).Deliver(t.Context(),
			to(strings.Replace(url, "127.0.0.1", "hooks.test", 1))).Kind)
	require.Len(t, got, 1)
}
