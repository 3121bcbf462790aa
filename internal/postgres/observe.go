package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/postgres/pool"
)

// countSkips reports the ranges that a transaction writes into history. A range without a count counts as one.
func countSkips(tx pgx.Tx, queue int32, skips []job.Skip) {
	for _, s := range skips {
		pool.LedgerOf(tx).Ended(queue, job.EndedSkipped, s.Reason, max(s.Count, 1))
	}
}

// SchemaVersion reads the version of the schema. It also shows that the database responds.
func (a *Admin) SchemaVersion(ctx context.Context) (version int64, err error) {
	if err := a.db.QueryRow(ctx, `SELECT coalesce(max(version_id), 0) FROM `+versionTable).Scan(&version); err != nil {
		return 0, fmt.Errorf("read the schema version: %w", err)
	}
	return version, nil
}

// Lost reports whether the connection broke while a statement or transaction was under way, or the outcome is unknown
// for another reason.
func Lost(err error) bool {
	_, network := errors.AsType[*net.OpError](err) // not net.Error, which an unreadable file of the URL is too
	return network || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) || pgconn.SafeToRetry(err) ||
		errors.Is(err, pool.ErrUnconfirmed)
}

// BadText reports whether a text has a character that the database cannot store.
func BadText(err error) bool {
	c := Code(err)
	return c == "22021" || c == "22P05" // character_not_in_repertoire, untranslatable_character
}

// TimedOut reports whether a statement was cancelled: it took longer than statement_timeout.
func TimedOut(err error) bool { return Code(err) == "57014" }

// MayPass reports whether a request may succeed later without a change: the server is unreachable, starting, stopping,
// full, or so slow that a timeout cancelled a statement, or the connection broke. A wrong password or a missing database
// needs an operator.
func MayPass(err error) bool {
	if c := Code(err); c != "" {
		return strings.HasPrefix(c, "08") || strings.HasPrefix(c, "53") || strings.HasPrefix(c, "57")
	}
	_, connecting := errors.AsType[*pgconn.ConnectError](err)
	return connecting || errors.Is(err, context.DeadlineExceeded) || Lost(err)
}
