package store

import (
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// ErrUnconfirmed says that a commit did not wait for a standby until the end, because its wait was cancelled. The rows
// are visible, and a failover removes them, so the outcome is unknown, and no caller may act on it.
var ErrUnconfirmed = errors.New("the wait for a synchronous standby was cancelled; the outcome is unknown")

// Confirm makes the commit of a transaction that wrote nothing wait for a standby, like that of one that wrote. What it
// read may come from a transaction whose own wait was cancelled, and be gone after a failover.
const Confirm = `SELECT pg_logical_emit_message(true, 'belfry', '')`

// syncWait is the function of PostgreSQL that waits for a standby. The text of its warning is translated, and its
// SQLSTATE is that of any warning.
const syncWait = "SyncRepWaitForLSN"

// watchCommits counts commits whose wait for a standby was cancelled. PostgreSQL reports success for them, with a
// warning.
func (p *Pool) watchCommits(config *pgx.ConnConfig) {
	config.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) {
		if n.Routine == syncWait {
			p.unconfirmed.Add(1)
		}
	}
}

// confirmed returns an error if a commit was not confirmed since before was read. It may have been that of another
// transaction: this is rare, and asking for the outcome of a transaction that committed does no harm.
func (p *Pool) confirmed(before int64) error {
	if p.unconfirmed.Load() != before {
		return ErrUnconfirmed
	}
	return nil
}

// confirmedResults are the results of a batch. Close also fails if its commit was not confirmed.
type confirmedResults struct {
	pgx.BatchResults
	pool        *Pool
	unconfirmed int64
}

func (r confirmedResults) Close() error {
	if err := r.BatchResults.Close(); err != nil {
		return err
	}
	return r.pool.confirmed(r.unconfirmed)
}
