package store

import (
	"context"
	"net"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/belfry-dev/belfry/internal/clock"
)

// How long a peer may be silent. A server that is gone without a word, its
// machine or the network between, would otherwise be waited for a quarter of an
// hour: so long does TCP try.
const (
	maxSilence    = 10 * time.Second // with something sent and not acknowledged
	probeAfter    = 5 * time.Second  // of waiting for an answer
	probeInterval = 2 * time.Second
	probes        = 3
)

// closeLimit bounds the end of a connection that pgx gives up on: it sends a request to cancel the statement, on another
// connection, and reads what is left. The pool cannot replace the connection before, and a frozen server would hold its
// place for 15 s.
const closeLimit = time.Second

// limitClose bounds the end of one connection. A dial after it is connected is for the request to cancel.
func limitClose(config *pgx.ConnConfig) {
	var connected atomic.Bool
	validate, dial := config.ValidateConnect, config.DialFunc
	config.ValidateConnect = func(ctx context.Context, conn *pgconn.PgConn) error {
		err := validate(ctx, conn)
		connected.Store(err == nil)
		return err
	}
	config.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		ending := connected.Load()
		if ending {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, closeLimit)
			defer cancel()
		}
		conn, err := dial(ctx, network, address)
		if err == nil && ending {
			err = conn.SetDeadline(clock.Now().Add(closeLimit))
		}
		return limitedConn{conn}, err
	}
}

// limitedConn shortens deadlines: pgx sets one in the future only to end a connection.
type limitedConn struct{ net.Conn }

func (c limitedConn) SetDeadline(t time.Time) error {
	if latest := clock.Now().Add(closeLimit); t.After(latest) {
		t = latest
	}
	return c.Conn.SetDeadline(t)
}

func dial(ctx context.Context, network, address string) (net.Conn, error) {
	d := net.Dialer{
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: probeAfter, Interval: probeInterval, Count: probes},
		Control:         limitSilence,
	}
	return d.DialContext(ctx, network, address)
}
