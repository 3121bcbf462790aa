package store

import (
	"cmp"
	"context"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// hosts remembers which of several hosts was the primary. New connections try that one first: a host in front of it
// that is frozen would cost each of them the whole timeout.
type hosts struct {
	mu      sync.Mutex
	names   map[string]string // of addresses
	primary string            // host and port; empty: not known
	tries   int               // since a connection succeeded
}

// hurriedTimeout is how long the next host waits for one that does not answer.
const hurriedTimeout = 2 * time.Second

// watch learns from the connections of config, if that has several hosts.
func (h *hosts) watch(config *pgx.ConnConfig) {
	if !slices.ContainsFunc(config.Fallbacks, func(f *pgconn.FallbackConfig) bool {
		return f.Host != config.Host || f.Port != config.Port // not the same host without TLS
	}) {
		return
	}
	lookup, validate := config.LookupFunc, config.ValidateConnect
	config.LookupFunc = func(ctx context.Context, host string) ([]string, error) {
		addresses, err := lookup(ctx, host)
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.names == nil {
			h.names = map[string]string{}
		}
		for _, a := range addresses {
			h.names[a] = host
		}
		return addresses, err
	}
	config.ValidateConnect = func(ctx context.Context, conn *pgconn.PgConn) error {
		if err := validate(ctx, conn); err != nil {
			return err
		}
		if address, port, err := net.SplitHostPort(conn.Conn().RemoteAddr().String()); err == nil {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.primary, h.tries = net.JoinHostPort(h.names[address], port), 0
		}
		return nil
	}
}

// reorder puts the primary first. A host that does not answer is left soon for the next one: a frozen primary must not
// keep a node from its successor. If no host answers that soon, the next try is patient.
func (h *hosts) reorder(config *pgx.ConnConfig) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.primary == "" {
		return
	}
	all := append([]*pgconn.FallbackConfig{{Host: config.Host, Port: config.Port, TLSConfig: config.TLSConfig}},
		config.Fallbacks...)
	slices.SortStableFunc(all, func(a, b *pgconn.FallbackConfig) int { return cmp.Compare(h.rank(a), h.rank(b)) })
	config.Host, config.Port, config.TLSConfig = all[0].Host, all[0].Port, all[0].TLSConfig
	config.Fallbacks = all[1:]
	if h.tries++; h.tries%2 == 1 {
		config.ConnectTimeout = hurriedTimeout
	}
}

func (h *hosts) rank(f *pgconn.FallbackConfig) int {
	if net.JoinHostPort(f.Host, strconv.Itoa(int(f.Port))) == h.primary {
		return 0
	}
	return 1
}
