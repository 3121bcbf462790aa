package noop_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/target/noop"
	"github.com/belfry-dev/belfry/internal/target/targettest"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	targettest.Run(t, targettest.Suite{
		New: func(*testing.T, targettest.Environment) targettest.Target { return noop.New() },
	})
}

func TestConfigIsOptional(t *testing.T) {
	t.Parallel()
	for _, config := range []string{``, `null`, `{}`} {
		require.NoError(t, noop.New().Check(json.RawMessage(config)), config)
	}
}
