package postgres

import (
	"errors"
	"net"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// Unreachable says that an error means the database is away, and may come back:
// nobody answers, it starts or stops, or has no connection to spare.
func Unreachable(err error) bool {
	if server, ok := errors.AsType[*pgconn.PgError](err); ok {
		// connection_exception, insufficient_resources; admin_shutdown, crash_shutdown, cannot_connect_now
		return strings.HasPrefix(server.Code, "08") || strings.HasPrefix(server.Code, "53") || strings.HasPrefix(server.Code, "57P0")
	}
	if _, ok := errors.AsType[*pgconn.ParseConfigError](err); ok {
		return false
	}
	_, connecting := errors.AsType[*pgconn.ConnectError](err)
	_, network := errors.AsType[net.Error](err)
	return connecting || network || pgconn.SafeToRetry(err)
}
