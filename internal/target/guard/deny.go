package guard

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"code.dny.dev/ssrf"
)

// resolveTimeout is for a name in a list of denials.
const resolveTimeout = 5 * time.Second

// denial is where targets may not connect to.
type denial struct {
	network netip.Prefix
	port    uint16 // 0: all
}

// readDenial reads an entry. A name stands for the addresses that it has now.
func readDenial(resolver *net.Resolver, machine []netip.Addr, entry string) ([]denial, error) {
	if network, err := netip.ParsePrefix(entry); err == nil {
		network = network.Masked()
		if ip := network.Addr(); ip.Is4In6() { // addresses are compared as IPv4
			network = netip.PrefixFrom(ip.Unmap(), network.Bits()-96)
		}
		return []denial{{network: network}}, nil
	}
	host, port, err := net.SplitHostPort(entry)
	n, bad := strconv.ParseUint(port, 10, 16)
	if err != nil || bad != nil || n == 0 || host == "" || strings.ContainsAny(host, "/*= ") {
		return nil, fmt.Errorf("targets.deny: %q is neither a network such as 10.0.0.0/8 nor host:port such as "+
			"db.internal:5432", entry)
	}
	ips := []netip.Addr{}
	if ip, err := netip.ParseAddr(host); err == nil {
		ips = append(ips, ip)
	} else {
		ctx, cancel := context.WithTimeout(context.Background(), resolveTimeout)
		defer cancel()
		if resolver == nil {
			resolver = net.DefaultResolver
		}
		if ips, err = resolver.LookupNetIP(ctx, "ip", host); err != nil {
			return nil, fmt.Errorf("targets.deny: find the addresses of %s: %w", host, err)
		}
	}
	return denialsOf(ips, machine, uint16(n)), nil
}

// denialsOf denies a port of addresses. A program that listens on the unspecified address is reached by every address of
// this machine.
func denialsOf(ips, machine []netip.Addr, port uint16) (out []denial) {
	for _, ip := range ips {
		ip = ip.Unmap().WithZone("")
		out = append(out, denial{netip.PrefixFrom(ip, ip.BitLen()), port})
		if !ip.IsUnspecified() {
			continue
		}
		out = append(out, denial{netip.MustParsePrefix("127.0.0.0/8"), port}, denial{netip.MustParsePrefix("::1/128"), port})
		for _, own := range machine {
			out = append(out, denial{netip.PrefixFrom(own, own.BitLen()), port})
		}
	}
	return out
}

// machineAddresses returns the addresses of this machine, by a function that lists them; nil: the system's.
func machineAddresses(list func() ([]net.Addr, error)) (out []netip.Addr, err error) {
	if list == nil {
		list = net.InterfaceAddrs
	}
	interfaces, err := list()
	if err != nil {
		return nil, fmt.Errorf("list the addresses of this machine: %w", err)
	}
	for _, i := range interfaces {
		if network, err := netip.ParsePrefix(i.String()); err == nil {
			out = append(out, network.Addr().Unmap().WithZone(""))
		}
	}
	return out, nil
}

// covers reports whether a list denies an address, in any of the forms that lead to it. The kernel connects to the
// loopback address if the address is unspecified.
func covers(list []denial, to netip.AddrPort) bool {
	ip := to.Addr().Unmap().WithZone("")
	forms := []netip.Addr{ip}
	if ip.IsUnspecified() {
		forms = append(forms, netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback())
	}
	if ssrf.IPv6NAT64Prefix.Contains(ip) {
		forms = append(forms, embeddedIPv4(ip))
	}
	return slices.ContainsFunc(list, func(d denial) bool {
		return (d.port == 0 || d.port == to.Port()) && slices.ContainsFunc(forms, d.network.Contains)
	})
}
