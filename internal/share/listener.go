package share

import (
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/google/uuid"
	"golang.org/x/time/rate"
)

// ipv6Network is how many bits of an IPv6 address name a network, which one client may have as a whole.
const ipv6Network = 64

// maxConnections is how many connections a node takes at an address. A worker needs two or three.
const maxConnections = 20_000

// LimitByFiles limits a listener to a quarter of the files that the process may open, because it needs descriptors for
// targets and the database as well. 0 files means that there is no such limit. It logs once a minute what it rejects.
func LimitByFiles(l net.Listener, files uint64, log *slog.Logger) *Listener {
	size := uint64(maxConnections)
	if files > 0 {
		size = min(size, max(files/4, 1))
	}
	warn := rate.Sometimes{Interval: time.Minute}
	return limit(l, int64(size), func(from net.Addr) {
		warn.Do(func() { log.Warn("connection rejected, too many are open", "address", from.String(), "limit", size) })
	})
}

// Listener limits the connections of a listener, and shares them among the addresses that they come from.
type Listener struct {
	net.Listener
	pool    *Pool
	refused func(from net.Addr)
}

// limit returns a listener with at most size connections. It closes connections beyond that, or beyond the share of an
// address, and calls refused.
func limit(l net.Listener, size int64, refused func(from net.Addr)) *Listener {
	return &Listener{Listener: l, pool: New(size), refused: refused}
}

// Accept returns the next connection that is within the limits.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		from := network(c.RemoteAddr())
		if l.pool.Take(from, 1) == nil {
			return &conn{Conn: c, give: sync.OnceFunc(func() { l.pool.Give(from, 1) })}, nil
		}
		l.refused(c.RemoteAddr())
		_ = c.Close() // nothing was read or written
	}
}

type conn struct {
	net.Conn
	give func()
}

func (c *conn) Close() error {
	defer c.give()
	return c.Conn.Close()
}

// network returns the owner that stands for an address. Addresses that are not of IP share one.
func network(from net.Addr) uuid.UUID {
	at, err := netip.ParseAddrPort(from.String())
	if err != nil {
		return uuid.Nil
	}
	ip := at.Addr().Unmap()
	if ip.Is6() {
		p, err := ip.WithZone("").Prefix(ipv6Network)
		if err != nil {
			return uuid.Nil
		}
		ip = p.Addr()
	}
	return ip.As16()
}
