package pgtest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/belfry-dev/belfry/internal/postgres"
)

const (
	variable   = "BELFRY_TEST_DATABASE_URL"
	defaultURL = "postgres://belfry@127.0.0.1:5544/belfry?sslmode=disable" // of `dev/services up postgres`
)

// SQLSTATEs
const (
	undefinedDatabase = "3D000"
	duplicateDatabase = "42P04"
)

// server is a PostgreSQL server and what this process has on it. There is one for all tests of a process.
//
// It keeps no connection. Each step opens its own, which costs a few milliseconds and leaves no goroutine behind for
// tests that check for leaks.
type server struct {
	url     *url.URL // of the database that CREATE DATABASE and the like are sent to
	origin  string   // where the URL comes from
	files   fs.FS    // the migrations
	migrate func(ctx context.Context, url string) error

	starting sync.Mutex // locked while the template is found or created
	started  int64      // when this process first used the server, in seconds by the server's clock; 0 if not yet
	template string     // empty if it is not known

	mu    sync.Mutex
	live  int      // tests that have a database
	trash []string // databases of passed tests, waiting to be dropped
}

var fromEnvironment = sync.OnceValues(func() (*server, error) {
	return newServer(os.Getenv(variable))
})

// shared returns the server that all tests of the process share.
func shared(t testing.TB) *server {
	t.Helper()
	s, err := fromEnvironment()
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	return s
}

func newServer(address string) (*server, error) {
	origin := variable
	if address == "" {
		address, origin = defaultURL, "the default, as "+variable+" is not set"
	}
	// The error of url.Parse would print a password.
	u, err := url.Parse(address)
	if err != nil || !strings.HasPrefix(u.Scheme, "postgres") {
		return nil, fmt.Errorf("%s is not a URL of the form postgres://user@host:port/database", variable)
	}
	return &server{url: u, origin: origin, files: postgres.Migrations(), migrate: migrate}, nil
}

func migrate(ctx context.Context, url string) error {
	_, err := postgres.Migrate(ctx, url, postgres.MigrateParams{})
	return err
}

// at returns the URL of the database called name.
func (s *server) at(name string) *url.URL {
	u := *s.url
	u.Path, u.RawPath = "/"+name, ""
	return &u
}

// connect connects to the database in which CREATE DATABASE and the like run.
func (s *server) connect(ctx context.Context) (*pgx.Conn, error) {
	conn, err := pgx.Connect(ctx, s.url.String())
	if err != nil {
		return nil, fmt.Errorf("no PostgreSQL at %s (%s): %w\nrun: dev/services up postgres",
			s.url.Redacted(), s.origin, err)
	}
	return conn, nil
}

// exec runs statements outside of transactions, on a new connection.
func (s *server) exec(ctx context.Context, statements ...string) (err error) {
	conn, err := s.connect(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	for _, statement := range statements {
		if _, err := conn.Exec(ctx, statement, pgx.QueryExecModeSimpleProtocol); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	return nil
}

// is reports whether err is an error of the server with this SQLSTATE.
func is(err error, code string) bool {
	server, ok := errors.AsType[*pgconn.PgError](err)
	return ok && server.Code == code
}

func quote(name string) string { return pgx.Identifier{name}.Sanitize() }
