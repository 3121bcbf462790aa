package guard

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"code.dny.dev/ssrf"
	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/target/settings"
)

const (
	dialTimeout = 10 * time.Second
	keepAlive   = 30 * time.Second
	maxAllow    = 1000 // entries in targets.allow
)

// ErrRefused says that Belfry may not connect to an address. It is a permanent failure, because waiting
// does not change it. The text does not contain the address a name resolved to, because that would reveal
// the internal network to users.
var ErrRefused = errors.New("it has an address that this Belfry may not connect to; " +
	"use another one, or have the operator allow it (setting targets.allow)")

// special refuses the addresses that need the operator's permission.
var special = ssrf.New(ssrf.WithAnyPort(), ssrf.WithDeniedV4Prefixes(netip.MustParsePrefix("168.63.129.16/32")))

// metadata are the addresses at which clouds hand out credentials to their machines and containers.
// Allowing a network that contains one of them does not allow it.
var metadata = []netip.Prefix{
	netip.MustParsePrefix("169.254.169.254/32"),     // AWS, Google, Azure and others
	netip.MustParsePrefix("169.254.170.2/32"),       // AWS ECS
	netip.MustParsePrefix("169.254.170.23/32"),      // AWS EKS pods
	netip.MustParsePrefix("168.63.129.16/32"),       // Azure's second
	netip.MustParsePrefix("169.254.0.23/32"),        // Tencent
	netip.MustParsePrefix("169.254.42.42/32"),       // Scaleway
	netip.MustParsePrefix("100.100.100.200/32"),     // Alibaba
	netip.MustParsePrefix("192.0.0.192/32"),         // Oracle, in older images
	netip.MustParsePrefix("fd00:ec2::/32"),          // AWS over IPv6
	netip.MustParsePrefix("fd20:ce::254/128"),       // Google over IPv6
	netip.MustParsePrefix("fd00:c1::a9fe:a9fe/128"), // Oracle over IPv6
	netip.MustParsePrefix("fd00:42::42/128"),        // Scaleway over IPv6
}

// publicEntry is the entry of targets.allow that means the public internet.
const publicEntry = "public"

// Guard decides which addresses targets may connect to. The zero value allows the public internet only.
// Safe for concurrent use.
type Guard struct {
	networks  []netip.Prefix
	addresses map[netip.AddrPort]bool
	hosts     map[string]bool // host:port
	denied    []denial        // whatever else is allowed
	own       []denial        // unless an address or a name with a port is allowed
	machine   []netip.Addr    // unless an entry names the address alone
	noPublic  bool            // see Options
	resolver  *net.Resolver   // nil: the system's

	scoped map[string]*Guard // for the namespaces that entries name
	names  settings.Names
}

// Options of a Guard.
type Options struct {
	Allow    []string      // networks, addresses and names with a port, and "public"; NAMESPACE= before it: for that one
	Deny     []string      // networks, addresses with a port, and names with a port, which take precedence over Allow
	Own      []string      // addresses and names with a port, which take precedence over networks in Allow
	NoPublic bool          // public addresses need an entry too
	Resolver *net.Resolver // nil: the system's

	// Interfaces returns the addresses of this machine; nil: net.InterfaceAddrs.
	Interfaces func() ([]net.Addr, error)

	// Namespace returns the name of a namespace. It is asked if an entry of Allow names one.
	Namespace func(ctx context.Context, id uuid.UUID) (string, error)

	// Unresolved is called for a name in Own that has no address; may be nil.
	Unresolved func(entry string, err error)
}

// New creates a Guard from the operator's lists. It resolves the names in Deny and Own, and reads the addresses of this
// machine. A name in Own that has no address is left out: one of several hosts of the database may be gone.
func New(o Options) (*Guard, error) {
	for key, list := range map[string][]string{"targets.allow": o.Allow, "targets.deny": o.Deny} {
		if len(list) > maxAllow {
			return nil, fmt.Errorf("%s has %d entries; at most %d are allowed: join networks", key, len(list), maxAllow)
		}
	}
	machine, err := machineAddresses(o.Interfaces)
	if err != nil {
		return nil, err
	}
	g := &Guard{
		addresses: map[netip.AddrPort]bool{}, hosts: map[string]bool{}, noPublic: o.NoPublic, resolver: o.Resolver,
		machine: slices.DeleteFunc(slices.Clone(machine), netip.Addr.IsLoopback),
		scoped:  map[string]*Guard{}, names: settings.Names{Read: o.Namespace},
	}
	for _, entry := range o.Allow {
		if entry = strings.TrimSpace(entry); strings.Contains(entry, "=") {
			continue
		}
		if err := g.allow(entry); err != nil {
			return nil, err
		}
	}
	for _, entry := range o.Deny {
		found, err := readDenial(g.resolver, machine, strings.TrimSpace(entry))
		if err != nil {
			return nil, err
		}
		g.denied = append(g.denied, found...)
	}
	for _, entry := range o.Own {
		found, err := readDenial(g.resolver, machine, entry)
		if unknown, ok := errors.AsType[*net.DNSError](err); err != nil && !ok {
			return nil, err
		} else if ok && o.Unresolved != nil {
			o.Unresolved(entry, unknown)
		}
		g.own = append(g.own, found...)
	}
	return g, g.scope(o.Allow)
}

// scope creates the guards of the namespaces that entries name. Each allows what all may reach, too.
func (g *Guard) scope(entries []string) error {
	for _, entry := range entries {
		namespace, rest, ok := strings.Cut(strings.TrimSpace(entry), "=")
		if !ok {
			continue
		}
		s := g.scoped[namespace]
		if s == nil {
			s = &Guard{
				networks: slices.Clone(g.networks), addresses: maps.Clone(g.addresses), hosts: maps.Clone(g.hosts),
				denied: g.denied, own: g.own, machine: g.machine, noPublic: g.noPublic, resolver: g.resolver,
			}
			g.scoped[namespace] = s
		}
		if err := s.allow(rest); err != nil {
			return err
		}
	}
	return nil
}

// For returns the guard for the targets of a namespace. Its connections must not serve other namespaces.
func (g *Guard) For(ctx context.Context, namespace uuid.UUID) (*Guard, error) {
	if g == nil || len(g.scoped) == 0 {
		return g, nil
	}
	name, err := g.names.Get(ctx, namespace)
	if err != nil {
		return nil, err
	}
	if s := g.scoped[name]; s != nil {
		return s, nil
	}
	return g, nil
}

func (g *Guard) allow(entry string) error {
	if entry == publicEntry {
		g.noPublic = false
		return nil
	}
	if network, err := netip.ParsePrefix(entry); err == nil {
		g.networks = append(g.networks, network.Masked())
		return nil
	}
	if address, err := netip.ParseAddrPort(entry); err == nil {
		g.addresses[netip.AddrPortFrom(address.Addr().Unmap(), address.Port())] = true
		return nil
	}
	host, port, err := net.SplitHostPort(entry)
	n, bad := strconv.ParseUint(port, 10, 16)
	if err != nil || bad != nil || n == 0 || host == "" || strings.ContainsAny(host, "/*:= ") {
		return fmt.Errorf("targets.allow: %q is neither a network such as 10.0.0.0/8 "+
			"nor host:port such as hooks.internal:443, with NAMESPACE= before it or not", entry)
	}
	g.hosts[nameKey(host, port)] = true
	return nil
}

// nameKey returns a name and its port in the form in which they are compared.
func nameKey(host, port string) string {
	return strings.ToLower(strings.TrimSuffix(host, ".")) + ":" + port
}

// DialContext connects over TCP to host:port, or returns an error that wraps [ErrRefused]. Clients of all
// protocols connect with it.
func (g *Guard) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	dialer := net.Dialer{Timeout: dialTimeout, KeepAlive: keepAlive, Resolver: g.resolver, Control: g.Control}
	if host, port, err := net.SplitHostPort(address); err == nil && g.hosts[nameKey(host, port)] {
		dialer.Control = g.controlNamed
	}
	return dialer.DialContext(ctx, network, address)
}

// Dial is DialContext for clients without contexts.
func (g *Guard) Dial(network, address string) (net.Conn, error) {
	return g.DialContext(context.Background(), network, address)
}

// Control is for clients that use their own net.Dialer. It does not see names, so entries of targets.allow
// with a name have no effect.
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

// controlNamed is Control for a name that is allowed: only what is denied is refused.
func (g *Guard) controlNamed(network, address string, c syscall.RawConn) error {
	if err := onlyTCP(network, address, c); err != nil {
		return err
	}
	to, err := netip.ParseAddrPort(address)
	if err != nil || covers(g.denied, to) {
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
	switch {
	case covers(g.denied, to):
		return false
	case g.addresses[to]:
		return true
	case covers(g.own, to):
		return false
	}
	// Services of this machine may trust it: a firewall that keeps others out does not see these connections.
	isMachine := slices.Contains(g.machine, ip.WithZone(""))
	alone := isMachine || slices.ContainsFunc(metadata, func(p netip.Prefix) bool { return p.Contains(ip) })
	for _, network := range g.networks {
		if network.Contains(ip) && (!alone || network.IsSingleIP()) {
			// A NAT64 address embeds an IPv4 address, which must be allowed too.
			return !ssrf.IPv6NAT64Prefix.Contains(ip) || g.allowed(netip.AddrPortFrom(embeddedIPv4(ip), to.Port()))
		}
	}
	return !g.noPublic && !isMachine && special.SafeAddr(ip) == nil
}

// embeddedIPv4 returns the last four bytes of an IPv6 address as an IPv4 address.
func embeddedIPv4(ip netip.Addr) netip.Addr {
	b := ip.As16()
	return netip.AddrFrom4([4]byte(b[12:]))
}
