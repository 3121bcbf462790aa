package store_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/pgtest"
	"github.com/belfry-dev/belfry/internal/store"
)

const write = `INSERT INTO namespace (id, name) VALUES (gen_random_uuid(), $1)`

func open(t *testing.T, url string, connections int32) *store.Pool {
	t.Helper()
	p, err := store.Open(t.Context(), url, store.Options{Connections: connections, Application: "belfry"})
	require.NoError(t, err)
	t.Cleanup(p.Close)
	return p
}

// standby starts a server that is the one at address, but only lets clients read. It returns its address.
func standby(t *testing.T, address string) string {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go readOnly(client, address)
		}
	}()
	return listener.Addr().String()
}

// readOnly passes a connection on, with a startup parameter that makes all its transactions read-only.
func readOnly(client net.Conn, address string) {
	defer func() { _ = client.Close() }()
	first, err := pgproto3.NewBackend(client, client).ReceiveStartupMessage()
	start, ok := first.(*pgproto3.StartupMessage)
	if err != nil || !ok {
		return
	}
	start.Parameters["default_transaction_read_only"] = "on"
	server, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	to := pgproto3.NewFrontend(server, server)
	to.Send(start)
	if to.Flush() != nil {
		return
	}
	go func() { _, _ = io.Copy(client, server) }()
	_, _ = io.Copy(server, client)
}

// A URL with several hosts finds the one that accepts writes, wherever it stands in the list.
func TestSeveralHostsFindThePrimary(t *testing.T) {
	t.Parallel()
	direct, err := url.Parse(pgtest.URL(t))
	require.NoError(t, err)
	several := *direct
	several.Host = standby(t, direct.Host) + "," + direct.Host
	p := open(t, several.String(), 2)
	_, err = p.All().Exec(t.Context(), write, "found")
	require.NoError(t, err)

	// A server that cannot be written to is refused when a node connects, not when it writes.
	alone := *direct
	alone.Host = standby(t, direct.Host)
	err = open(t, alone.String(), 2).Ping(t.Context())
	require.ErrorIs(t, err, pgconn.ErrReadOnlyConnection)
}

// When a statement finds its server read-only, no connection to that server is used again. Otherwise a pool would
// stay on a primary that was demoted until its connections are an hour old.
func TestAReadOnlyServerResetsThePool(t *testing.T) {
	t.Parallel()
	const connections = 3
	p := open(t, pgtest.URL(t), connections)
	err := inEach(t.Context(), p, connections, `SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY`)
	require.NoError(t, err)
	_, err = p.All().Exec(t.Context(), write, "refused")
	require.ErrorContains(t, err, "25006")
	for i := range connections {
		_, err := p.All().Exec(t.Context(), write, fmt.Sprintf("written-%d", i))
		require.NoError(t, err)
	}
}

// inEach runs a statement in each connection of a pool, by opening that many transactions at the same time.
func inEach(ctx context.Context, p *store.Pool, connections int, sql string) error {
	if connections == 0 {
		return nil
	}
	return p.All().Tx(ctx, "transaction", func(tx pgx.Tx) error {
		if err := inEach(ctx, p, connections-1, sql); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, sql)
		return err
	})
}

// A host that accepts connections and never answers stands before the primary. It delays the first connection by a
// timeout, and none after that.
func TestAFrozenHostIsNotTriedFirstAgain(t *testing.T) {
	t.Parallel()
	frozen, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = frozen.Close() }()
	var tried atomic.Int32
	go func() {
		for {
			if _, err := frozen.Accept(); err != nil {
				return
			}
			tried.Add(1)
		}
	}()
	several, err := url.Parse(pgtest.URL(t))
	require.NoError(t, err)
	several.Host = frozen.Addr().String() + "," + several.Host
	p := open(t, several.String(), 4)
	require.NoError(t, p.Ping(t.Context()))
	first := tried.Load() // the pool may have opened several connections at once
	require.Positive(t, first)
	require.NoError(t, inEach(t.Context(), p, 4, `SELECT`))
	require.Equal(t, first, tried.Load())
}

// freezer passes connections on. While it is frozen it accepts connections and answers nothing, as a stopped server does.
type freezer struct {
	listener net.Listener
	to       string
	frozen   atomic.Bool
	held     chan net.Conn // accepted while frozen
}

func newFreezer(t *testing.T, to string) *freezer {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	f := &freezer{listener: listener, to: to, held: make(chan net.Conn, 100)}
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			if f.frozen.Load() {
				f.held <- client
				continue
			}
			server, err := net.Dial("tcp", f.to)
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(client, server) }()
			go func() { _, _ = io.Copy(server, client) }()
		}
	}()
	return f
}

// When pgx gives up on a connection it cancels the statement and reads what is left. A frozen server does not answer, and
// until pgx stops waiting, the pool cannot open another connection instead: 15 s unless that is bounded.
func TestAFrozenServerHoldsNoPlace(t *testing.T) {
	t.Parallel()
	direct := pgtest.URL(t)
	watch := open(t, direct, 1)
	u, err := url.Parse(direct)
	require.NoError(t, err)
	f := newFreezer(t, u.Host)
	u.Host = f.listener.Addr().String()
	p := open(t, u.String(), 1)
	require.NoError(t, p.Ping(t.Context()))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := p.All().Exec(ctx, `SELECT pg_sleep(60)`)
		ended <- err
	}()
	const sleeping = `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'`
	require.Eventually(t, func() bool {
		var n int
		return watch.All().QueryRow(t.Context(), sleeping).Scan(&n) == nil && n == 1
	}, time.Minute, 5*time.Millisecond)
	f.frozen.Store(true)
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
	<-f.held // the request to cancel
	f.frozen.Store(false)
	begun := clock.Elapsed()
	require.NoError(t, p.Ping(t.Context()))
	require.Less(t, clock.Elapsed()-begun, 14*time.Second)
}
