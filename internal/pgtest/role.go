package pgtest

import (
	"context"
	"fmt"
	neturl "net/url"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/belfry-dev/belfry/internal/postgres"
)

// serverRole is the role that servers use in tests. It belongs to the whole PostgreSQL server and is never dropped.
const serverRole = "belfry_test_server"

// AsServer returns a pool on the same database in the role of a server: not the owner, and subject to row-level
// security.
func AsServer(t testing.TB, pool *pgxpool.Pool) *pgxpool.Pool {
	t.Helper()
	config := pool.Config().Copy()
	config.ConnConfig.User = serverRole
	grantServer(t, pool.Config().ConnString())
	out, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		t.Fatalf("pgtest: open a pool as a server: %v", err)
	}
	t.Cleanup(func() { closePool(t, out) })
	return out
}

// ServerURL returns the URL of a migrated database that only this test uses, in the role of a server.
func ServerURL(t testing.TB) (url string, pool *pgxpool.Pool) {
	t.Helper()
	pool = New(t)
	grantServer(t, pool.Config().ConnString())
	return As(t, shared(t).at(pool.Config().ConnConfig.Database).String(), serverRole), pool
}

// grantServer creates the role, unless it exists, and grants it what a server needs.
func grantServer(t testing.TB, url string) {
	t.Helper()
	s := shared(t)
	const create = `
DO $$ BEGIN
    CREATE ROLE ` + serverRole + ` LOGIN;
EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL;
END $$`
	if err := s.exec(t.Context(), create); err != nil {
		t.Fatalf("pgtest: create the role of a server: %v", err)
	}
	var err error
	for range 20 { // two grants at the same time fail with "tuple concurrently updated"
		if err = postgres.GrantServer(t.Context(), url, postgres.GrantParams{Role: serverRole}); err == nil {
			return
		}
	}
	t.Fatalf("pgtest: %v", err)
}

// Role creates a role that only this test uses, with attributes such as LOGIN, and drops it when the test ends. Objects
// that it owns in the database at url go to the user of the tests.
func Role(t testing.TB, url, attributes string) string {
	t.Helper()
	name := databaseName(0, "role")
	s := shared(t)
	if err := s.exec(t.Context(), `CREATE ROLE `+quote(name)+` `+attributes); err != nil {
		t.Fatalf("pgtest: create a role: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		conn, err := pgx.Connect(ctx, url)
		if err != nil {
			t.Errorf("pgtest: drop a role: %v", err)
			return
		}
		defer func() { _ = conn.Close(ctx) }() // the role is dropped
		for _, sql := range []string{`REASSIGN OWNED BY %s TO CURRENT_USER`, `DROP OWNED BY %s`, `DROP ROLE %s`} {
			if _, err := conn.Exec(ctx, fmt.Sprintf(sql, quote(name))); err != nil {
				t.Errorf("pgtest: drop a role: %v", err)
			}
		}
	})
	return name
}

// As returns a URL of a database for another user.
func As(t testing.TB, url, user string) string {
	t.Helper()
	u, err := neturl.Parse(url)
	if err != nil {
		t.Fatalf("pgtest: read a URL: %v", err)
	}
	u.User = neturl.User(user)
	return u.String()
}
