package cluster_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// binary is the program of the nodes, crasher that of the workers, and attackers that of a hostile namespace. They are
// built once for all tests.
var binary, crasher, attackers string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "belfry-cluster-")
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	binary, crasher = filepath.Join(dir, "belfry"), filepath.Join(dir, "crasher")
	attackers = filepath.Join(dir, "attacker")
	code := 1
	if out, err := exec.Command("go", "build", "-o", dir, "github.com/belfry-dev/belfry/cmd/belfry",
		"github.com/belfry-dev/belfry/test/cluster/crasher",
		"github.com/belfry-dev/belfry/test/cluster/attacker").CombinedOutput(); err == nil {
		code = m.Run()
	} else {
		_, _ = fmt.Fprintf(os.Stderr, "build belfry: %v\n%s", err, out)
	}
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// drain is how long a stopping node waits for attempts.
const drain = 10 * time.Second

// node is a belfry server process.
type node struct {
	program string
	name    string
	listen  string
	cmd     *exec.Cmd
	done    chan error
}

// start starts a node that has a program, a name and an address.
func (n *node) start(url, log string, env ...string) error {
	file, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	n.done = make(chan error, 1)
	n.cmd = exec.Command(n.program, "server", "--listen", n.listen, "--name", n.name, "--connections", "6",
		"--api-key-rate", "100000", "--api-key-burst", "100000", "--drain", drain.String(),
		"--targets-allow", "127.0.0.0/8")
	n.cmd.Env = append(append(os.Environ(), "BELFRY_DATABASE_URL="+url, "BELFRY_SLOTS=200",
		"BELFRY_WORKER_TTL="+workerTTL.String(), "BELFRY_CANARY=false"), env...) // the checker knows all jobs
	n.cmd.Stdout, n.cmd.Stderr = file, file
	n.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // no node outlives a killed test
	if err := n.cmd.Start(); err != nil {
		return err
	}
	go func() { n.done <- n.cmd.Wait() }()
	return nil
}

// end ends the node with a signal and waits for it.
func (n *node) end(signal syscall.Signal) error {
	if err := n.cmd.Process.Signal(signal); err != nil {
		return err
	}
	return <-n.done
}
