package postgres_test

import (
	"errors"
	"net"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/pgtest"
	"github.com/belfry-dev/belfry/internal/postgres"
)

func TestUnreachable(t *testing.T) {
	t.Parallel()
	good, err := url.Parse(pgtest.URL(t))
	require.NoError(t, err)
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())

	away, missing := *good, *good
	away.Host = l.Addr().String()
	missing.Path = "/there_is_no_such_database"
	for address, want := range map[string]bool{
		good.String():                     false,
		away.String():                     true, // it may come back
		missing.String():                  false,
		"postgres://host:port/not-a-port": false,
	} {
		_, _, err := postgres.Version(t.Context(), address)
		require.Equal(t, want, postgres.Unreachable(err), "%s: %v", address, err)
	}
	require.False(t, postgres.Unreachable(nil))
	require.False(t, postgres.Unreachable(errors.New("something else")))

	// What a server says that goes down while it is asked.
	pool := pgtest.New(t)
	_, err = pool.Exec(t.Context(), `SELECT pg_terminate_backend(pg_backend_pid())`)
	require.True(t, postgres.Unreachable(err), "%v", err)
}
