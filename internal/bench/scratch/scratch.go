package scratch

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/belfry-dev/belfry/internal/postgres"
	"github.com/belfry-dev/belfry/internal/store"
)

// Database is a scratch database.
type Database struct {
	Name    string
	URL     string
	NodeURL string // for nodes, with a role of their own unless Owned
	Owned   bool   // nodes log in as the owner, because the user may not create roles

	server string // the URL that it was created through
	pool   *pgxpool.Pool
}

// scratchTimeout bounds creating and dropping a database.
const scratchTimeout = time.Minute

// Create creates an empty database on the server of a URL.
func Create(ctx context.Context, server string) (*Database, error) {
	name := "belfry_bench_" + strings.ToLower(rand.Text()[:10])
	at, err := withDatabase(server, name)
	if err != nil {
		return nil, err
	}
	s := &Database{Name: name, URL: at, server: server}
	// This is not cancelled: if its outcome were unknown, the database would never be dropped.
	if err := s.onServer(context.WithoutCancel(ctx), `CREATE DATABASE `+pgx.Identifier{name}.Sanitize()); err != nil {
		if store.Code(err) == "42501" { // insufficient_privilege
			return nil, fmt.Errorf(
				"create a scratch database: the user may not create databases; "+
					"as a superuser run ALTER ROLE that user CREATEDB, or name another user: %w",
				err,
			)
		}
		return nil, fmt.Errorf("create a scratch database: %w", err)
	}
	return s, nil
}

// Open migrates the database and connects to it.
func (s *Database) Open(ctx context.Context) error {
	if _, err := postgres.Migrate(ctx, s.URL, postgres.MigrateParams{}); err != nil {
		return err
	}
	if err := s.createRole(ctx); err != nil {
		return err
	}
	pool, err := pgxpool.New(ctx, s.URL)
	if err != nil {
		return fmt.Errorf("open the scratch database: %w", err)
	}
	s.pool = pool
	return nil
}

// createRole creates the role that nodes log in as. It has the name of the database. Nodes then work under row-level
// security, as servers do.
func (s *Database) createRole(ctx context.Context) error {
	password := rand.Text()
	// This is not cancelled, as with the database.
	create := `CREATE ROLE ` + pgx.Identifier{s.Name}.Sanitize() + ` LOGIN PASSWORD '` + password + `'`
	err := s.onServer(context.WithoutCancel(ctx), create)
	switch {
	case store.Code(err) == "42501": // insufficient_privilege
		s.NodeURL, s.Owned = s.URL, true
		return nil
	case err != nil:
		return fmt.Errorf("create a role for the nodes: %w", err)
	}
	if u, err := url.Parse(s.URL); err == nil && u.Scheme != "" {
		u.User = url.UserPassword(s.Name, password)
		s.NodeURL = u.String()
	} else {
		s.NodeURL = s.URL + " user=" + s.Name + " password=" + password // the last of two counts
	}
	return postgres.GrantServer(ctx, s.URL, postgres.GrantParams{Role: s.Name})
}

// Close closes the connections.
func (s *Database) Close() {
	if s.pool != nil {
		s.pool.Close()
	}
}

// Drop drops the database, even if it has connections.
func (s *Database) Drop(ctx context.Context) error {
	if err := s.onServer(ctx,
		`DROP DATABASE IF EXISTS `+pgx.Identifier{s.Name}.Sanitize()+` WITH (FORCE)`); err != nil {
		return fmt.Errorf("drop the scratch database %s (drop it yourself): %w", s.Name, err)
	}
	if err := s.onServer(ctx, `DROP ROLE IF EXISTS `+pgx.Identifier{s.Name}.Sanitize()); err != nil && !s.Owned {
		return fmt.Errorf("drop the role %s (drop it yourself): %w", s.Name, err)
	}
	return nil
}

// onServer runs a statement in the user's database, outside of a transaction.
func (s *Database) onServer(ctx context.Context, statement string) error {
	ctx, cancel := context.WithTimeout(ctx, scratchTimeout)
	defer cancel()
	conn, err := pgx.Connect(ctx, s.server)
	if err != nil {
		return fmt.Errorf("connect to the database (is it running, and is the URL right?): %w", err)
	}
	defer func() { _ = conn.Close(ctx) }() // the statement has been executed
	_, err = conn.Exec(ctx, statement, pgx.QueryExecModeSimpleProtocol)
	return err
}

// withDatabase replaces the database in a URL, or in a string of keywords and values.
func withDatabase(text, name string) (string, error) {
	if _, err := pgx.ParseConfig(text); err != nil {
		return "", fmt.Errorf("read the database URL (want postgres://user@host:port/database): %w", err)
	}
	if !strings.HasPrefix(text, "postgres://") && !strings.HasPrefix(text, "postgresql://") {
		return text + " dbname=" + name, nil // the last of two counts
	}
	u, err := url.Parse(text)
	if err != nil {
		// The error of url.Parse would print a password.
		return "", errors.New("the database URL is not of the form postgres://user@host:port/database")
	}
	u.Path, u.RawPath = "/"+name, ""
	query := u.Query()
	query.Del("dbname")
	query.Del("database")
	u.RawQuery = query.Encode()
	return u.String(), nil
}

// ServerSettings are the settings of the server that affect a measurement.
type ServerSettings struct {
	Version, Fsync, SynchronousCommit string
	// Backend is the process id of a connection to the scratch database.
	Backend int
}

// Settings reads the settings of the server.
func (s *Database) Settings(ctx context.Context) (out ServerSettings, err error) {
	const query = `
SELECT current_setting('server_version'), current_setting('fsync'), current_setting('synchronous_commit'),
       pg_backend_pid()`
	err = s.pool.QueryRow(ctx, query).Scan(&out.Version, &out.Fsync, &out.SynchronousCommit, &out.Backend)
	if err != nil {
		return out, fmt.Errorf("read the server's settings: %w", err)
	}
	return out, nil
}

// Counters only grow. A measurement is the difference of two.
type Counters struct {
	WAL          int64 // bytes, of the whole server
	Transactions int64 // committed in the scratch database; up to a second late, exact once connections have ended
	Others       int64 // committed in other databases, whose WAL and CPU time are included
}

// Counters reads the counters.
func (s *Database) Counters(ctx context.Context) (c Counters, err error) {
	err = s.pool.QueryRow(ctx, `
SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint,
       coalesce(sum(xact_commit) FILTER (WHERE datname = current_database()), 0)::bigint,
       coalesce(sum(xact_commit) FILTER (WHERE datname <> current_database()), 0)::bigint
FROM pg_stat_database`).Scan(&c.WAL, &c.Transactions, &c.Others)
	if err != nil {
		return c, fmt.Errorf("read the server's counters: %w", err)
	}
	return c, nil
}

// Now reads the database's clock.
func (s *Database) Now(ctx context.Context) (now time.Time, err error) {
	if err := s.pool.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&now); err != nil {
		return now, fmt.Errorf("read the database's clock: %w", err)
	}
	return now.UTC(), nil
}
