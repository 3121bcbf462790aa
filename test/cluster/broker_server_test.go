package cluster_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/target/broker/brokertest"
)

// brokerServer is a broker for one test, which may kill and wipe it. The scripts of dev/service start it with its own
// directory and ports.
type brokerServer struct {
	t     *testing.T
	name  string // of the service
	dir   string
	env   []string
	port  int
	proxy *brokertest.Proxy // between it and the nodes
}

// ports are the variables for the ports of each service. Clients connect to the first.
var brokerPorts = map[string][]string{
	"nats": {"BELFRY_NATS_PORT", "BELFRY_NATS_MONITOR_PORT", "BELFRY_NATS_TLS_PORT"},
	"rabbitmq": {
		"BELFRY_RABBITMQ_PORT", "BELFRY_RABBITMQ_DIST_PORT", "BELFRY_RABBITMQ_EPMD_PORT", "BELFRY_RABBITMQ_TLS_PORT",
	},
	"kafka": {
		"BELFRY_KAFKA_PORT", "BELFRY_KAFKA_CONTROLLER_PORT", "BELFRY_KAFKA_TLS_PORT", "BELFRY_KAFKA_MUTUAL_PORT",
		"BELFRY_KAFKA_EXPIRED_PORT",
	},
}

func newBrokerServer(t *testing.T, name string) *brokerServer {
	t.Helper()
	services := os.Getenv("BELFRY_TEST_SERVICES_DIR")
	if services == "" {
		t.Skip("no brokers; run: make test-brokers")
	}
	dir, err := os.MkdirTemp("", "belfry-broker-") // not t.TempDir, which other users cannot enter
	require.NoError(t, err)
	require.NoError(t, os.Chmod(dir, 0o755))
	require.NoError(t, os.Symlink(filepath.Join(services, "tool"), filepath.Join(dir, "tool")))
	b := &brokerServer{t: t, name: name, dir: dir, env: append(os.Environ(), "BELFRY_SERVICES_DIR="+dir)}
	for i, variable := range brokerPorts[name] {
		port := freePort(t)
		b.env = append(b.env, fmt.Sprintf("%s=%d", variable, port))
		if i == 0 {
			b.port = port
		}
	}
	b.proxy = brokertest.NewProxy(t, b.address())
	b.env = append(b.env, "BELFRY_KAFKA_ADVERTISED="+b.proxy.Address(), "BELFRY_KAFKA_HEAP=384m")
	t.Cleanup(func() {
		b.run("stop")
		keepLog(t, name, filepath.Join(dir, "run", name, name+".log"))
		_ = os.RemoveAll(dir)
	})
	b.start()
	return b
}

// address is the address of the broker itself, for the test.
func (b *brokerServer) address() string { return fmt.Sprintf("127.0.0.1:%d", b.port) }

func (b *brokerServer) run(function string) {
	cmd := exec.Command("bash", "../../dev/service/run", b.name, function)
	cmd.Env = b.env
	if out, err := cmd.CombinedOutput(); err != nil {
		b.t.Errorf("%s %s: %v\n%s", b.name, function, err, out)
	}
}

// start starts the broker and returns when it replies.
func (b *brokerServer) start() {
	b.run("ensure_installed")
	b.run("ensure_started")
}

// kill ends the broker as a crash does. The file has the process id and the start time.
func (b *brokerServer) kill() {
	text, err := os.ReadFile(filepath.Join(b.dir, "run", b.name, b.name+".pid"))
	require.NoError(b.t, err)
	pid, err := strconv.Atoi(strings.Fields(string(text))[0])
	require.NoError(b.t, err)
	require.NoError(b.t, syscall.Kill(pid, syscall.SIGKILL))
	// The process ends a moment later, and may remain as a zombie.
	require.NoError(b.t, until(b.t.Context(), func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		return err != nil || strings.Contains(string(stat), ") Z ")
	}))
}

// wipe stops the broker and removes all its data.
func (b *brokerServer) wipe() {
	b.run("stop")
	require.NoError(b.t, os.RemoveAll(filepath.Join(b.dir, "run", b.name, "data")))
}
