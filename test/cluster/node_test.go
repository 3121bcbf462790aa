package cluster_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// build makes the binary that the nodes run.
func build(t *testing.T) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "belfry")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", bin, "github.com/belfry-dev/belfry/cmd/belfry").CombinedOutput()
	require.NoError(t, err, "%s", out)
	return bin
}

// node is a belfry server process.
type node struct {
	cmd  *exec.Cmd
	done chan error
}

func startNode(t *testing.T, bin, url, log string) *node {
	t.Helper()
	file, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	require.NoError(t, err)
	defer func() { _ = file.Close() }()
	n := &node{cmd: exec.Command(bin, "server", "--listen", "127.0.0.1:0", "--name", "one-name-for-all", "--slots", "200", "--connections", "6", "--drain", "10s"), done: make(chan error, 1)}
	n.cmd.Env = append(os.Environ(), "BELFRY_DATABASE_URL="+url)
	n.cmd.Stdout, n.cmd.Stderr = file, file
	n.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // no node outlives a test that is killed
	require.NoError(t, n.cmd.Start())
	go func() { n.done <- n.cmd.Wait() }()
	return n
}

// end ends the node with a signal and waits for it.
func (n *node) end(signal syscall.Signal) error {
	if err := n.cmd.Process.Signal(signal); err != nil {
		return err
	}
	return <-n.done
}
