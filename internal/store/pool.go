package store

import (
	"cmp"
	"context"
	"fmt"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/belfry-dev/belfry/internal/job"
)

// Pool is the connections to one database. Safe for concurrent use.
type Pool struct {
	conns    *pgxpool.Pool
	observer Observer // may be nil
	onWake   func(job.Wake)
	onEnded  func([]job.End)
	servers  *Servers
	pooler   pooler

	unconfirmed atomic.Int64 // commits: see watchCommits
}

// New returns a Pool over connections that the caller opened and closes.
func New(conns *pgxpool.Pool, o Options) *Pool {
	p := &Pool{
		conns: conns, observer: o.Observer, onWake: o.OnWake, onEnded: o.OnEnded, servers: cmp.Or(o.Servers, &Servers{}),
	}
	p.pooler.direct.Store(true)
	return p
}

// Options of a Pool.
type Options struct {
	Connections int32  // the maximum
	Application string // the application_name of the connections
	Observer    Observer
	OnWake      func(job.Wake)  // called after the commit of a transaction that wrote runs that are due; may be nil
	OnEnded     func([]job.End) // called after the commit of a transaction that ended runs; may be nil
	Servers     *Servers        // shared with other pools; nil: its own
}

// Open connects to a database.
func Open(ctx context.Context, url string, o Options) (*Pool, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("read the database URL (want postgres://user@host:port/database): %w", err)
	}
	config.MaxConns, config.MinConns, config.MinIdleConns = o.Connections, 0, 0 // no connection before there is a Pool
	config.ConnConfig.RuntimeParams["application_name"] = o.Application         // the one parameter that poolers pass on
	servers := cmp.Or(o.Servers, &Servers{})
	p := &Pool{observer: o.Observer, onWake: o.OnWake, onEnded: o.OnEnded, servers: servers}
	toPrimary(config.ConnConfig)
	servers.timelines.watch(config)
	servers.hosts.watch(config.ConnConfig)
	p.pooler.watch(config.ConnConfig, url)
	p.watchErrors(config.ConnConfig)
	p.watchCommits(config.ConnConfig)
	config.BeforeConnect = func(ctx context.Context, c *pgx.ConnConfig) error {
		if err := p.pooler.choose(ctx, c); err != nil {
			return err
		}
		servers.hosts.reorder(c)
		limitClose(c)
		return nil
	}
	config.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		if err := p.pooler.check(ctx, conn); err != nil {
			return err
		}
		servers.timelines.add(conn)
		return nil
	}
	if p.conns, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return nil, fmt.Errorf("open the database: %w", err)
	}
	return p, nil
}

// Close closes the connections.
func (p *Pool) Close() { p.conns.Close() }

// Ping returns an error if the database does not answer.
func (p *Pool) Ping(ctx context.Context) error { return p.conns.Ping(ctx) }

// Stat returns how busy the connections are.
func (p *Pool) Stat() *pgxpool.Stat { return p.conns.Stat() }

// All returns the side that sees every namespace.
func (p *Pool) All() All { return All{p} }

// Namespaced returns the side that sees one namespace at a time.
func (p *Pool) Namespaced() Namespaced { return Namespaced{p} }

// All runs statements that see every namespace, with the rights of the role
// belfry_engine.
type All struct{ pool *Pool }

// Tx runs work in a transaction.
func (a All) Tx(ctx context.Context, what string, work func(pgx.Tx) error) error {
	return a.pool.inTx(ctx, what, work)
}

// Pooled returns whether a pooler stands between, as the last new connection found. Call it after a statement.
func (a All) Pooled() bool { return !a.pool.pooler.direct.Load() }

// Query runs one statement and returns its rows.
func (a All) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	return a.pool.conns.Query(ctx, sql, args...)
}

// QueryRow runs one statement that returns at most one row.
func (a All) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	return a.pool.conns.QueryRow(ctx, sql, args...)
}

// Exec runs one statement.
func (a All) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	return a.pool.conns.Exec(ctx, sql, args...)
}

// SendBatch runs statements in one round trip and, without BEGIN, one transaction,
// which has ended when Close returns. The functions of the batch read its results:
// those returned may begin with one of the pool's own.
func (a All) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	before := a.pool.unconfirmed.Load()
	return confirmedResults{a.pool.conns.SendBatch(ctx, a.pool.pooler.bound(b)), a.pool, before}
}

// Report passes to the observer what a transaction that is committed wrote into the
// ledger, for statements that do not run in Tx.
func (a All) Report(l *Ledger) { a.pool.report(l) }

// WantsEnds returns whether anything uses the ends of runs that a Ledger has.
func (a All) WantsEnds() bool { return a.pool.onEnded != nil }
