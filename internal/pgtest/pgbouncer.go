package pgtest

import (
	neturl "net/url"
	"os"
	"testing"
)

// ThroughPgBouncer returns the URL of the same database behind PgBouncer in transaction mode.
func ThroughPgBouncer(t testing.TB, direct string) string {
	t.Helper()
	address := os.Getenv("BELFRY_TEST_PGBOUNCER_URL")
	if address == "" {
		t.Skip(`no BELFRY_TEST_PGBOUNCER_URL; run: dev/services up pgbouncer && eval "$(dev/services env)"`)
	}
	bouncer, err := neturl.Parse(address)
	if err != nil {
		t.Fatalf("pgtest: read the URL of PgBouncer: %v", err)
	}
	database, err := neturl.Parse(direct)
	if err != nil {
		t.Fatalf("pgtest: read a URL: %v", err)
	}
	database.Host = bouncer.Host
	return database.String()
}
