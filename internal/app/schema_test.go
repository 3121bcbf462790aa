package app

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/pgtest"
)

// TestWaitForSchema starts a node and migrates later, as in Kubernetes, where both start at the same time.
func TestWaitForSchema(t *testing.T) {
	t.Parallel()
	owner := pgtest.EmptyURL(t)
	role := pgtest.Role(t, owner, "LOGIN")
	c := testConfig(pgtest.As(t, owner, role))
	c.Listen, c.WaitForSchema = freeAddress(t), time.Hour
	s := serveNode(t, c)
	waits := s.log.await(t, "schema check failed")
	require.Contains(t, waits["error"], "run: belfry migrate")
	awaitReady(t, "http://"+c.Listen, http.StatusServiceUnavailable, "start")
	_, body := get(t, "http://"+c.Listen+"/readyz")
	require.Contains(t, body, forSchema)
	status, _ := get(t, "http://"+c.Listen+"/healthz")
	require.Equal(t, http.StatusOK, status, "nothing must restart a node that waits")

	_, err := readSchema(t.Context(), c.DatabaseURL)
	require.True(t, notMigrated(err), "%v", err)
	_, err = Migrate(t.Context(), owner, MigrateParams{})
	require.NoError(t, err)
	_, err = readSchema(t.Context(), c.DatabaseURL)
	require.ErrorContains(t, err, "permission denied")
	require.True(t, notMigrated(err), "a node must not end between the tables and the rights")

	require.NoError(t, Grant(t.Context(), owner, GrantParams{Role: role}))
	s.log.await(t, "schema check recovered")
	awaitReady(t, "http://"+c.Listen, http.StatusOK, "")
	require.NoError(t, s.end(t))
}

func TestWaitForSchemaEnds(t *testing.T) {
	t.Parallel()
	c := testConfig(pgtest.EmptyURL(t))
	c.WaitForSchema = 30 * time.Second // the first check may take long
	s := serveNode(t, c)
	select {
	case err := <-s.ended:
		require.ErrorContains(t, err, "run: belfry migrate")
		require.NotNil(t, s.log.find(t, "schema check failed"), "it has waited")
	case <-time.After(time.Minute):
		t.Fatalf("it waits forever:\n%s", s.log)
	}
}

// TestNewerSchema: a node works on a schema that is newer than it knows, until a contract migration has removed what it
// uses. Waiting does not help then.
func TestNewerSchema(t *testing.T) {
	t.Parallel()
	url, owner := pgtest.ServerURL(t)
	change := func(sql string) {
		tag, err := owner.Exec(t.Context(), sql)
		require.NoError(t, err)
		require.EqualValues(t, 1, tag.RowsAffected())
	}
	change(`INSERT INTO belfry_migration (version_id, is_applied) VALUES (1001, true)`)
	version, err := readSchema(t.Context(), url)
	require.NoError(t, err)
	require.EqualValues(t, 1001, version)

	change(`UPDATE cluster SET oldest_schema = 1000`)
	c := testConfig(url)
	c.WaitForSchema = time.Hour
	s := serveNode(t, c)
	select {
	case err := <-s.ended:
		require.ErrorContains(t, err, "a contract migration removed what this belfry uses")
		require.ErrorContains(t, err, "start one that knows version 1000 or newer")
	case <-time.After(time.Minute):
		t.Fatalf("it waits:\n%s", s.log)
	}
}
