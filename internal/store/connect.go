package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

const connectTimeout = 5 * time.Second // per host

// readOnly is the SQLSTATE of a write to a server that only lets clients read: a standby, or a primary that was demoted.
const readOnly = "25006"

// Config reads a database URL for a single connection, such as that of a migration.
func Config(url string) (*pgx.ConnConfig, error) {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("read the database URL (want postgres://user@host:port/database): %w", err)
	}
	toPrimary(config)
	// No named prepared statements: behind PgBouncer, the next statement may run on another server connection.
	config.DefaultQueryExecMode = pgx.QueryExecModeExec
	return config, nil
}

// Connect opens a single connection.
func Connect(ctx context.Context, url string) (*pgx.Conn, error) {
	config, err := Config(url)
	if err != nil {
		return nil, err
	}
	return pgx.ConnectConfig(ctx, config)
}

// toPrimary makes a connection refuse hosts that cannot be written to, unless the URL says which hosts it wants.
func toPrimary(config *pgx.ConnConfig) {
	config.ConnectTimeout = connectTimeout
	config.DialFunc = dial
	if config.ValidateConnect == nil { // no target_session_attrs
		config.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
}

// Refusals are the causes why a server cannot write, by SQLSTATE.
var Refusals = map[string]string{"53100": "disk_full", "53200": "out_of_memory", "58030": "io_error"}

// watchErrors reports statements that the server refuses. It resets the pool when a statement finds its server
// read-only: the other connections lead to the same server, and would stay there until they are an hour old. New ones
// find the primary.
func (p *Pool) watchErrors(config *pgx.ConnConfig) {
	next := config.OnPgError
	config.OnPgError = func(conn *pgconn.PgConn, err *pgconn.PgError) bool {
		if cause := Refusals[err.Code]; cause != "" && p.observer != nil {
			p.observer.Refused(cause)
		}
		if err.Code != readOnly {
			return next(conn, err)
		}
		p.conns.Reset()
		return false
	}
}
