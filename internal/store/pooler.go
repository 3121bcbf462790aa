package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// pooler knows whether connections lead to a pooler, such as PgBouncer, or to PostgreSQL itself. In transaction mode a
// pooler runs each transaction on a server connection that it shares with other clients. Settings of a session and
// prepared statements would then stay with a server connection that the next transaction does not get.
type pooler struct {
	fixed  bool // the URL sets default_query_exec_mode, so it is not chosen here
	mu     sync.Mutex
	known  bool        // guarded by mu
	direct atomic.Bool // there is none; false also before that is known
}

// bounds keep a transaction of a node that is paused or unreachable from holding locks: between statements, within one,
// and while the server sends results that no client takes. local is whether they hold only until its end.
func bounds(local string) string {
	var b strings.Builder
	for _, s := range [][2]string{
		{"idle_in_transaction_session_timeout", "5s"},
		{"statement_timeout", "60s"},
		{"tcp_user_timeout", fmt.Sprint(maxSilence.Milliseconds())},
		{"tcp_keepalives_idle", fmt.Sprint(probeAfter.Seconds())},
		{"tcp_keepalives_interval", fmt.Sprint(probeInterval.Seconds())},
		{"tcp_keepalives_count", fmt.Sprint(probes)},
	} {
		fmt.Fprintf(&b, ", set_config('%s', '%s', %s)", s[0], s[1], local)
	}
	return b.String()[2:]
}

var (
	boundTx  = "SELECT " + bounds("true")
	beginTx  = "begin; " + boundTx
	greeting = `SELECT s.pooled, ` + bounds("s.pooled") + ` FROM (SELECT pg_backend_pid() <> %d AS pooled) s`
)

// watch makes each connection of config find out what it leads to. A pooler answers as another process than the one
// that runs the statements, with an id that it made up. Without a pooler the bounds are set once for the connection.
// They are no startup parameters, because poolers refuse those that they do not know.
func (p *pooler) watch(config *pgx.ConnConfig, url string) {
	p.fixed = strings.Contains(url, "default_query_exec_mode")
	config.AfterConnect = func(ctx context.Context, conn *pgconn.PgConn) error {
		results, err := conn.Exec(ctx, fmt.Sprintf(greeting, conn.PID())).ReadAll()
		if err == nil {
			p.direct.Store(string(results[0].Rows[0][0]) == "f")
		}
		return err
	}
}

// choose decides, before a connection, whether it may use named prepared statements. The first connection of all
// closes again: what it leads to is known only afterwards.
func (p *pooler) choose(ctx context.Context, config *pgx.ConnConfig) error {
	if p.fixed {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.known {
		conn, err := pgconn.ConnectConfig(ctx, &config.Config)
		if err != nil {
			return err
		}
		p.known = true
		_ = conn.Close(ctx) // it was asked already
	}
	if !p.direct.Load() {
		config.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	}
	return nil
}

// check refuses a connection whose choice was wrong, because a pooler was put in between meanwhile.
func (p *pooler) check(_ context.Context, conn *pgx.Conn) error {
	if !p.fixed && !p.direct.Load() && conn.Config().DefaultQueryExecMode == pgx.QueryExecModeCacheStatement {
		return errors.New("a pooler was put in front of the database: connect again")
	}
	return nil
}

// begin is how a transaction begins.
func (p *pooler) begin() pgx.TxOptions {
	if p.direct.Load() {
		return pgx.TxOptions{}
	}
	return pgx.TxOptions{BeginQuery: beginTx}
}

// bound adds the bounds to a batch that is a transaction.
func (p *pooler) bound(b *pgx.Batch) *pgx.Batch {
	if !p.direct.Load() {
		b.QueuedQueries = append([]*pgx.QueuedQuery{{SQL: boundTx}}, b.QueuedQueries...)
	}
	return b
}
