package app

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/target/guard"
)

func TestNoPublicTargets(t *testing.T) {
	t.Parallel()
	const public = "93.184.216.34:443"
	decide := func(c *Config) error {
		g, err := c.guard()
		require.NoError(t, err)
		return g.Control("tcp4", public, nil) // decides, and opens no connection
	}
	require.NoError(t, decide(&Config{}))
	c := Config{NoPublicTargets: true}
	require.ErrorIs(t, decide(&c), guard.ErrRefused)
	c.Targets.Allow = "127.0.0.0/8, public"
	require.NoError(t, decide(&c))
}
