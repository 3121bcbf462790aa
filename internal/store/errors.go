package store

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// SQLSTATEs that callers handle.
const (
	LockNotAvailable = "55P03" // a statement waited for longer than lock_timeout
	DeadlockDetected = "40P01"
)

// Code is the SQLSTATE of an error of the server; empty: it is none.
func Code(err error) string {
	if server, ok := errors.AsType[*pgconn.PgError](err); ok {
		return server.Code
	}
	return ""
}

// Lost reports whether the connection broke while a statement or transaction was under way, or the outcome is unknown
// for another reason.
func Lost(err error) bool {
	_, network := errors.AsType[*net.OpError](err) // not net.Error, which an unreadable file of the URL is too
	return network || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) || pgconn.SafeToRetry(err) ||
		errors.Is(err, ErrUnconfirmed)
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

// NoRows reports whether a statement found no row.
func NoRows(err error) bool { return errors.Is(err, pgx.ErrNoRows) }

// GaveUp reports whether the timeout cancelled a statement.
func GaveUp(ctx context.Context, err error) bool { return TimedOut(err) && ctx.Err() == nil }

// ClockInDoubt returns whether the database refused a change because its clock is in doubt.
func ClockInDoubt(err error) bool { return Code(err) == "BF001" }
