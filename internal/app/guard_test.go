package app

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/postgres"
	"github.com/belfry-dev/belfry/internal/target/guard"
)

func TestNoPublicTargets(t *testing.T) {
	t.Parallel()
	const public = "93.184.216.34:443"
	decide := func(c *Config) error {
		g, err := c.guard(&postgres.Views{}, slog.New(slog.DiscardHandler))
		require.NoError(t, err)
		return g.Control("tcp4", public, nil) // decides, and opens no connection
	}
	require.NoError(t, decide(&Config{}))
	c := Config{NoPublicTargets: true}
	require.ErrorIs(t, decide(&c), guard.ErrRefused)
	c.Targets.Allow = "127.0.0.0/8, public"
	require.NoError(t, decide(&c))
}

// Targets reach this machine, as in belfry dev, and neither its database nor the node itself, unless the operator allows
// that by name.
func TestTargetsDoNotReachTheDatabase(t *testing.T) {
	t.Parallel()
	c := Config{listening: []string{"127.0.0.1:8420", "[::]:8422"}}
	c.DatabaseURL = "postgres://belfry@localhost:5432,127.0.0.2:5433/belfry"
	c.Targets.Allow = "127.0.0.0/8,::1/128"
	for address, ok := range map[string]bool{
		"127.0.0.1:8421": true, "[::1]:8421": true, "127.0.0.2:5432": true,
		"127.0.0.1:8420": false, "127.0.0.1:5432": false, "127.0.0.2:5433": false,
		"127.0.0.9:8422": false, "[::1]:8422": false, "[::ffff:127.0.0.1]:5432": false,
	} {
		g, err := c.guard(&postgres.Views{}, slog.New(slog.DiscardHandler))
		require.NoError(t, err)
		if err := g.Control("tcp4", address, nil); ok {
			require.NoError(t, err, address)
		} else {
			require.ErrorIs(t, err, guard.ErrRefused, address)
		}
	}
	c.Targets.Allow += ",127.0.0.1:8420"
	g, err := c.guard(&postgres.Views{}, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	require.NoError(t, g.Control("tcp4", "127.0.0.1:8420", nil))
	logged := &strings.Builder{}
	c.DatabaseURL = "postgres://belfry@127.0.0.2:5433,no..host:5434/belfry"
	g, err = c.guard(&postgres.Views{}, slog.New(slog.NewTextHandler(logged, nil)))
	require.NoError(t, err)
	require.ErrorIs(t, g.Control("tcp4", "127.0.0.2:5433", nil), guard.ErrRefused)
	require.Regexp(t, `^\S+ level=WARN msg="lookup of a database host failed, [^"]+" host=no..host:5434 error=.+\n$`, logged)
	c.DatabaseURL = "postgres:///belfry?host=/run/postgresql"
	_, err = c.guard(&postgres.Views{}, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
}
