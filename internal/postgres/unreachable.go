package postgres

import (
	"context"
	"errors"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// Unreachable says why no connection to the database could be opened, in one line: the driver's text repeats each host.
type Unreachable struct {
	Hosts, User, Reason string
}

// AsUnreachable returns nil if the error is another one.
func AsUnreachable(err error) *Unreachable {
	e, ok := errors.AsType[*pgconn.ConnectError](err)
	if !ok {
		return nil
	}
	hosts := []string{address(e.Config.Host, e.Config.Port)}
	for _, f := range e.Config.Fallbacks {
		hosts = append(hosts, address(f.Host, f.Port))
	}
	return &Unreachable{
		Hosts: distinct(hosts), User: e.Config.User, Reason: distinct(reasons(e.Unwrap())),
	}
}

func address(host string, port uint16) string {
	if strings.HasPrefix(host, "/") {
		return host // a Unix socket
	}
	return net.JoinHostPort(host, strconv.Itoa(int(port)))
}

// distinct joins messages without duplicates: with sslmode=prefer each host is tried twice.
func distinct(messages []string) string {
	var out []string
	for _, t := range messages {
		if !slices.Contains(out, t) {
			out = append(out, t)
		}
	}
	return strings.Join(out, ", ")
}

// reasons are the innermost errors.
func reasons(err error) (out []string) {
	if several, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range several.Unwrap() {
			out = append(out, reasons(e)...)
		}
		return out
	}
	switch e := err.(type) { //nolint:errorlint // of this very error
	case *pgconn.PgError:
		return []string{e.Message}
	case *net.DNSError:
		return []string{e.Err}
	}
	if inner := errors.Unwrap(err); inner != nil {
		return reasons(inner)
	}
	if timeout, ok := err.(net.Error); (ok && timeout.Timeout()) || err == context.Canceled { //nolint:errorlint // as above
		return []string{"no answer"}
	}
	return []string{err.Error()}
}
