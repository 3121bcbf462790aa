package runner

import (
	"os/exec"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// TestSweep: a new runner kills what previous runners of its node left behind, and nothing of other nodes.
func TestSweep(t *testing.T) {
	t.Parallel()
	of := func() *sandbox {
		return &sandbox{settings: &Settings{Node: uuid.NewString(), Bubblewrap: "/no/such/bwrap"}}
	}
	mine, other := of(), of()
	leave := func(b *sandbox) *exec.Cmd {
		cmd := exec.Command("sleep", "600")
		cmd.Args[0] = b.name()
		require.NoError(t, cmd.Start())
		t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
		return cmd
	}
	one, two := leave(mine), leave(mine)
	leave(other)
	require.Len(t, mine.left(), 2)
	require.ErrorContains(t, mine.check(t.Context()), "bubblewrap is not there")
	require.Empty(t, mine.left())
	require.ErrorContains(t, one.Wait(), "killed")
	require.ErrorContains(t, two.Wait(), "killed")
	require.Len(t, other.left(), 1)
}
