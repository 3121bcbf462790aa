package local_test

import (
	"testing"

	"github.com/belfry-dev/belfry/internal/cli"
	"github.com/belfry-dev/belfry/internal/cli/clitest"
)

// run runs a command and returns both of its outputs.
func run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	return clitest.Run(t, cli.New, args...)
}
