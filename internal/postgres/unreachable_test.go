package postgres_test

import (
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/pgtest"
	"github.com/belfry-dev/belfry/internal/postgres"
)

// TestUnreachable: each cause is named once, however many hosts and ways there were to try.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	silent, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = silent.Close() })
	role := pgtest.Role(t, pgtest.URL(t), "NOLOGIN")
	for name, tc := range map[string]struct {
		url  string
		want postgres.Unreachable
	}{
		"refused": {
			"postgres://x:c4nary@127.0.0.1:1/belfry", postgres.Unreachable{"127.0.0.1:1", "x", "connection refused"},
		},
		"several hosts": {
			"postgres://x@127.0.0.1:1,127.0.0.2:1/belfry",
			postgres.Unreachable{"127.0.0.1:1, 127.0.0.2:1", "x", "connection refused"},
		},
		"no socket": {
			"postgres://x@/belfry?host=/no/such/directory",
			postgres.Unreachable{"/no/such/directory", "x", "no such file or directory"},
		},
		"silent": {
			"postgres://x@" + silent.Addr().String() + "/belfry?sslmode=disable",
			postgres.Unreachable{silent.Addr().String(), "x", "no answer"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, &tc.want, unreachable(t, tc.url))
		})
	}
	got := unreachable(t, pgtest.As(t, pgtest.URL(t), role))
	require.Equal(t, role, got.User)
	require.Contains(t, got.Reason, "is not permitted to log in")
	require.Nil(t, postgres.AsUnreachable(errors.New("another")))
}

func unreachable(t *testing.T, url string) *postgres.Unreachable {
	t.Helper()
	db, err := postgres.Open(t.Context(), url, 1, postgres.Options{})
	require.NoError(t, err)
	defer db.Close()
	_, _, err = db.Admin().Inspect(t.Context())
	require.Error(t, err)
	got := postgres.AsUnreachable(err)
	require.NotNil(t, got, "%s", strings.TrimSpace(err.Error()))
	return got
}
