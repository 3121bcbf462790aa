package pgtest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// maxConns is the size of a test's pool. Many parallel tests must fit into the server's max_connections.
const maxConns = 8

// timeout is for one step, such as a clone. It is generous, because a machine that runs all tests is slow.
const timeout = 2 * time.Minute

// New returns a pool on a migrated database that only this test uses. The URL of the database is
// pool.Config().ConnString().
func New(t testing.TB) *pgxpool.Pool {
	t.Helper()
	return open(t, URL(t))
}

// Kept returns a pool on a migrated database with a fixed name, which stays when the test ends. It is for data that
// takes long to load.
func Kept(t testing.TB, name string) *pgxpool.Pool {
	t.Helper()
	s := shared(t)
	if err := s.exec(t.Context(), `CREATE DATABASE `+quote(name)); err != nil && !is(err, duplicateDatabase) {
		t.Fatalf("pgtest: create %s: %v", name, err)
	}
	if err := migrate(t.Context(), s.at(name).String()); err != nil {
		t.Fatalf("pgtest: migrate %s: %v", name, err)
	}
	return open(t, s.at(name).String())
}

func open(t testing.TB, url string) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatalf("pgtest: read the URL of the test's database: %v", err)
	}
	config.MaxConns = maxConns
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		t.Fatalf("pgtest: open a pool: %v", err)
	}
	t.Cleanup(func() { closePool(t, pool) })
	return pool
}

// URL returns the URL of a migrated database that only this test uses.
func URL(t testing.TB) string {
	t.Helper()
	return shared(t).give(t, (*server).clone)
}

// EmptyURL returns the URL of a database that only this test uses and that has no schema, for tests of migrations.
func EmptyURL(t testing.TB) string {
	t.Helper()
	return shared(t).give(t, (*server).create)
}

// give creates a database for t, and drops or keeps it when t ends.
func (s *server) give(t testing.TB, create func(*server, context.Context, string) error) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	started, err := s.start(ctx)
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	name := databaseName(started, t.Name())
	s.enter()
	if err := create(s, ctx, name); err != nil {
		t.Fatalf("pgtest: %v", errors.Join(err, s.leave(name, true)))
	}
	t.Cleanup(func() {
		drop := !t.Failed()
		if !drop {
			t.Logf("pgtest: the test failed, its database is kept: psql '%s'", s.at(name).Redacted())
		}
		if err := s.leave(name, drop); err != nil {
			t.Errorf("pgtest: %v", err)
		}
	})
	return s.at(name).String()
}

// databaseName returns a new name: belfry_test_<when, in seconds>_<random>_<which test>.
func databaseName(started int64, test string) string {
	slug := notWord.ReplaceAllString(strings.ToLower(test), "_")
	name := fmt.Sprintf("%s%d_%s_%s", testPrefix, started, strings.ToLower(rand.Text()[:8]), slug)
	return name[:min(len(name), maxName)]
}

const maxName = 63 // PostgreSQL truncates longer names

var notWord = regexp.MustCompile(`[^a-z0-9]+`)

// closePool closes the pool. It does not wait indefinitely for a connection that the test did not release.
func closePool(t testing.TB, pool *pgxpool.Pool) {
	closed := make(chan struct{})
	go func() {
		pool.Close()
		close(closed)
	}()
	select {
	case <-closed:
	case <-time.After(time.Minute):
		t.Errorf("pgtest: the test did not release %d connections: are there Rows without Close or a Tx without end?",
			pool.Stat().AcquiredConns())
	}
}
