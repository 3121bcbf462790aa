package store_test

import (
	"encoding/pem"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/store"
)

// authority writes the certificate of an authority and returns the name of the file.
func authority(t *testing.T) string {
	t.Helper()
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	file := filepath.Join(t.TempDir(), "ca.crt")
	block := &pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}
	require.NoError(t, os.WriteFile(file, pem.EncodeToMemory(block), 0o600))
	return file
}

// No URL is accepted by which one of the connections that pgx would try leads over a network without verified TLS.
func TestCheckLink(t *testing.T) {
	t.Parallel()
	root := "&sslrootcert=" + authority(t)
	for _, c := range []struct {
		url  string
		host string // that is refused; empty: none
	}{
		// On this machine.
		{"postgres://u@127.0.0.1/belfry", ""},
		{"postgres://u@127.9.9.9/belfry?sslmode=disable", ""},
		{"postgres://u@[::1]:5433/belfry", ""},
		{"postgres://u@[::ffff:127.0.0.1]/belfry", ""},
		{"postgres://u@localhost/belfry", ""},
		{"postgres:///belfry?host=/run/postgresql", ""},
		{"user=u dbname=belfry host=/run/postgresql", ""},
		// Over a network.
		{"postgres://u@192.0.2.1/belfry", "192.0.2.1"},
		{"postgres://u@[2001:db8::1]/belfry", "2001:db8::1"},
		{"postgres://u@[::ffff:192.0.2.1]/belfry", "::ffff:192.0.2.1"},
		{"postgres://u@0.0.0.0/belfry", "0.0.0.0"},
		{"postgres://u@db.invalid/belfry", "db.invalid"},
		{"postgres://u@postgres/belfry", "postgres"},
		{"postgres://u@localhost.db.invalid/belfry", "localhost.db.invalid"},
		{"postgres://u@127.0.0.1.db.invalid/belfry", "127.0.0.1.db.invalid"},
		{"user=u dbname=belfry host=db.invalid", "db.invalid"},
		{"postgres:///belfry?host=db.invalid", "db.invalid"},
		{"postgres://u@db.invalid/belfry?sslmode=disable", "db.invalid"},
		{"postgres://u@db.invalid/belfry?sslmode=allow", "db.invalid"},
		{"postgres://u@db.invalid/belfry?sslmode=prefer" + root, "db.invalid"},
		{"postgres://u@db.invalid/belfry?sslmode=require", "db.invalid"},
		{"postgres://u@db.invalid/belfry?sslnegotiation=direct", "db.invalid"},
		// Without an authority of its own, verify-ca accepts any certificate that a public one has signed.
		{"postgres://u@db.invalid/belfry?sslmode=verify-ca", "db.invalid"},
		{"postgres://u@db.invalid/belfry?sslmode=verify-ca" + root, ""},
		{"postgres://u@db.invalid/belfry?sslmode=require" + root, ""}, // as verify-ca
		{"postgres://u@db.invalid/belfry?sslmode=verify-full", ""},
		{"postgres://u@192.0.2.1/belfry?sslmode=verify-full" + root, ""},
		{"postgres://u@db.invalid/belfry?sslrootcert=system", ""}, // verify-full
		// Each of several hosts.
		{"postgres://u@127.0.0.1,db.invalid/belfry", "db.invalid"},
		{"postgres://u@127.0.0.1:5432,[::1]:5433,192.0.2.1:5434/belfry?sslmode=disable", "192.0.2.1"},
		{"postgres://u@127.0.0.1,localhost/belfry", ""},
		{"postgres://u@db1.invalid,db2.invalid/belfry?sslmode=verify-full", ""},
		{"host=/run/postgresql,db.invalid user=u", "db.invalid"},
	} {
		if err := store.CheckLink(c.url); c.host == "" {
			require.NoError(t, err, c.url)
		} else {
			require.ErrorContains(t, err, "host "+c.host+" is", c.url)
			require.ErrorContains(t, err, "sslmode=verify-full", c.url)
			require.ErrorContains(t, err, "insecure_database: true", c.url)
		}
	}
	err := store.CheckLink("postgres://u:c4nary@db.invalid/belfry")
	require.NotContains(t, err.Error(), "c4nary")
}

// Hosts and modes also come from the variables of PostgreSQL and from its service file. What the URL says takes
// precedence.
func TestCheckLinkEnvironment(t *testing.T) {
	service := filepath.Join(t.TempDir(), "services")
	text := "[plain]\nhost=db.invalid\n\n[verified]\nhost=db.invalid\nsslmode=verify-full\n"
	require.NoError(t, os.WriteFile(service, []byte(text), 0o600))
	for _, c := range []struct {
		variables, url string
		refused        bool
	}{
		{"PGHOST=db.invalid", "postgres:///belfry", true},
		{"PGHOST=/run/postgresql", "postgres:///belfry", false},
		{"PGHOST=db.invalid PGSSLMODE=verify-full", "postgres:///belfry", false},
		{"PGHOST=127.0.0.1", "postgres://u@db.invalid/belfry", true},
		{"PGSSLMODE=verify-full", "postgres://u@db.invalid/belfry", false},
		{"PGSSLMODE=verify-full", "postgres://u@db.invalid/belfry?sslmode=require", true},
		{"PGSSLMODE=require PGSSLROOTCERT=" + authority(t), "postgres://u@db.invalid/belfry", false},
		{"PGSERVICEFILE=" + service, "postgres:///belfry?service=plain", true},
		{"PGSERVICEFILE=" + service, "postgres:///belfry?service=verified", false},
		{"PGSERVICE=plain PGSERVICEFILE=" + service, "postgres:///belfry", true},
	} {
		t.Run(c.variables+" "+c.url, func(t *testing.T) {
			for v := range strings.FieldsSeq(c.variables) {
				name, value, _ := strings.Cut(v, "=")
				t.Setenv(name, value)
			}
			if err := store.CheckLink(c.url); c.refused {
				require.ErrorContains(t, err, "host db.invalid is")
			} else {
				require.NoError(t, err)
			}
		})
	}
}
