package bulk_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/cli"
	"github.com/belfry-dev/belfry/internal/cli/clitest"
	belfry "github.com/belfry-dev/belfry/sdk/go"
)

func TestOperations(t *testing.T) {
	t.Parallel()
	a := clitest.New(t, cli.New)
	require.Contains(t, a.Belfry("", "operation", "list").Err, "no operations")
	a.Good("dlq", "redrive", "--all", "--detach")
	out := a.Good("operation", "list")
	require.Regexp(t, `redrive +\w+ +0 of 0 +test · key_\w+… +op_\w{26}`, out)
	id := strings.Fields(strings.Split(out, "\n")[1])
	require.Contains(t, a.Good("operation", "get", id[len(id)-1]), "redrive")
	require.Equal(t, "not_found", belfry.CodeOf(a.Belfry("", "operation", "get", "op_x").Failure))
}
