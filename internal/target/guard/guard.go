package guard

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"code.dny.dev/ssrf"
)

const (
	dialTimeout = 10 * time.Second
	keepAlive   = 30 * time.Second
	maxAllow    = 1000 // entries of the operator's list
)

// ErrRefused says that an address is not one that Belfry may connect to. Waiting
// does not change that: it is a failure for good. It does not say which address a
// name led to, as that would tell users about the network inside.
var ErrRefused = errors.New("it has an address that this Belfry may not connect to; use another one, or have the operator allow it (setting targets.allow)")

// special are the addresses that are refused unless the operator allows them.
var special = ssrf.New(ssrf.WithAnyPort(), ssrf.WithDeniedV4Prefixes(netip.MustParsePrefix("168.63.129.16/32")))

// metadata are the addresses at which clouds hand out credentials to their
// machines and containers: AWS, Google, Azure and others; AWS's for ECS and for pods of EKS; Azure's second; Tencent;
// Alibaba; AWS over IPv6, for machines and for pods.
// A network that was allowed for other reasons does not take them in.
var metadata = []netip.Addr{
	netip.MustParseAddr("169.254.169.254"), netip.MustParseAddr("169.254.170.2"), netip.MustParseAddr("169.254.170.23"), netip.MustParseAddr("168.63.129.16"),
	netip.MustParseAddr("169.254.0.23"), netip.MustParseAddr("100.100.100.200"), netip.MustParseAddr("fd00:ec2::254"), netip.MustParseAddr("fd00:ec2::23"),
}

// Guard decides which addresses may be connected to. The zero value allows what
// is on the open internet, and nothing else. Safe for concurrent use.
type Guard struct {
	networks  []netip.Prefix
	addresses map[netip.AddrPort]bool
	names     map[string]bool // host:port
	resolver  *net.Resolver   // nil: the system's
}

// Options of a Guard.
type Options struct {
	Allow    []string      // networks, addresses with a port, and names with a port
	Resolver *net.Resolver // nil: the system's
}

// New makes a Guard of the operator's list.
func New(o Options) (*Guard, error) {
	if len(o.Allow) > maxAllow {
		return nil, fmt.Errorf("targets.allow has %d entries; at most %d are taken: join networks", len(o.Allow), maxAllow)
	}
	g := &Guard{addresses: map[netip.AddrPort]bool{}, names: map[string]bool{}, resolver: o.Resolver}
	for _, entry := range o.Allow {
		if err := g.allow(strings.TrimSpace(entry)); err != nil {
			return nil, err
		}
	}
	return g, nil
}

func (g *Guard) allow(entry string) error {
	if network, err := netip.ParsePrefix(entry); err == nil {
		g.networks = append(g.networks, network.Masked())
		return nil
	}
	if address, err := netip.ParseAddrPort(entry); err == nil {
		g.addresses[netip.AddrPortFrom(address.Addr().Unmap(), address.Port())] = true
		return nil
	}
	host, port, err := net.SplitHostPort(entry)
	if n, bad := strconv.ParseUint(port, 10, 16); err != nil || bad != nil || n == 0 || host == "" || strings.ContainsAny(host, "/*: ") {
		return fmt.Errorf("targets.allow: %q is neither a network such as 10.0.0.0/8 nor host:port such as hooks.internal:443", entry)
	}
	g.names[nameOf(host, port)] = true
	return nil
}

// nameOf is how a name and its port are compared.
func nameOf(host, port string) string {
	return strings.ToLower(strings.TrimSuffix(host, ".")) + ":" + port
}

// DialContext connects over TCP to host:port, or returns an error that wraps
// [ErrRefused]. It is what a client of any protocol is given to connect with.
func (g *Guard) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	dialer := net.Dialer{Timeout: dialTimeout, KeepAlive: keepAlive, Resolver: g.resolver}
	if host, port, err := net.SplitHostPort(address); err != nil || !g.names[nameOf(host, port)] {
		dialer.Control = g.Control
	} else {
		dialer.Control = onlyTCP
	}
	return dialer.DialContext(ctx, network, address)
}

// Dial is DialContext for clients that know no contexts.
func (g *Guard) Dial(network, address string) (net.Conn, error) {
	return g.DialContext(context.Background(), network, address)
}

// Control is for the net.Dialer of a client that insists on its own. It does not
// see names, so that entries with a name do not count.
func (g *Guard) Control(network, address string, c syscall.RawConn) error {
	if err := onlyTCP(network, address, c); err != nil {
		return err
	}
	to, err := netip.ParseAddrPort(address)
	if err != nil || !g.allowed(netip.AddrPortFrom(to.Addr().Unmap(), to.Port())) {
		return ErrRefused
	}
	return nil
}

func onlyTCP(network, _ string, _ syscall.RawConn) error {
	if network != "tcp4" && network != "tcp6" {
		return ErrRefused
	}
	return nil
}

func (g *Guard) allowed(to netip.AddrPort) bool {
	ip := to.Addr()
	if g.addresses[to] {
		return true
	}
	secret := slices.Contains(metadata, ip)
	for _, network := range g.networks {
		if network.Contains(ip) && (!secret || network.IsSingleIP()) {
			// NAT64 carries an IPv4 address, which has to be allowed by itself.
			return !ssrf.IPv6NAT64Prefix.Contains(ip) || g.allowed(netip.AddrPortFrom(within(ip), to.Port()))
		}
	}
	return special.SafeAddr(ip) == nil
}

// within is the IPv4 address that the last four bytes of an IPv6 address are.
func within(ip netip.Addr) netip.Addr {
	b := ip.As16()
	return netip.AddrFrom4([4]byte(b[12:]))
}
