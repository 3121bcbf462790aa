package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/job"
)

// patroni are three servers that Patroni manages. It decides who is the primary, by Raft among its own processes. They
// have no proxies.
type patroni struct {
	*replicas
	program string
	configs []string // of the servers
}

// patroniConfig is what a server needs: its name, the ports of the REST API, of Raft and of PostgreSQL, its directory,
// the addresses of the others, and where the programs of PostgreSQL are. ttl has its smallest value.
const patroniConfig = `
scope: belfry
name: %[1]s
restapi: {listen: "127.0.0.1:%[2]d", connect_address: "127.0.0.1:%[2]d"}
raft: {data_dir: %[5]s/raft, self_addr: "127.0.0.1:%[3]d", partner_addrs: [%[6]s]}
bootstrap:
  dcs:
    ttl: 20
    loop_wait: 2
    retry_timeout: 5
    synchronous_mode: true
    synchronous_mode_strict: true
    postgresql:
      use_pg_rewind: true
      use_slots: false
      parameters: {wal_keep_size: 256MB, max_connections: 100}
  initdb: [{encoding: UTF8}, {locale: C.UTF-8}, data-checksums]
postgresql:
  listen: 127.0.0.1:%[4]d
  connect_address: 127.0.0.1:%[4]d
  data_dir: %[5]s/data
  bin_dir: %[7]s
  pgpass: %[5]s/pgpass
  pg_hba: ["host all all 127.0.0.1/32 trust", "host replication all 127.0.0.1/32 trust", "local all all trust"]
  authentication: {superuser: {username: belfry, password: x}, replication: {username: belfry, password: x}}
  parameters: {unix_socket_directories: %[5]s}
`

func newPatroni(t *testing.T) *patroni {
	t.Helper()
	program, err := exec.LookPath("patroni")
	require.NoError(t, err)
	p := &patroni{replicas: &replicas{t: t}, program: program}
	raft := make([]int, 3)
	for i := range raft {
		raft[i] = freePort(t)
	}
	for i := range raft {
		s := &replica{name: fmt.Sprintf("server%d", i), database: emptyDatabase(t)}
		var others []string
		for j, port := range raft {
			if j != i {
				others = append(others, fmt.Sprintf("'127.0.0.1:%d'", port))
			}
		}
		dir := filepath.Dir(s.dir)
		text := fmt.Sprintf(patroniConfig, s.name, freePort(t), raft[i], s.port, dir, strings.Join(others, ","), s.bin)
		config := filepath.Join(dir, "patroni.yml")
		require.NoError(t, os.WriteFile(config, []byte(text), 0o644)) // another user reads it
		p.all, p.configs = append(p.all, s), append(p.configs, config)
		require.NoError(t, p.launch(i))
	}
	require.NoError(t, p.elected(t.Context(), nil))
	require.NoError(t, p.streaming(t.Context(), 2))
	return p
}

// launch starts Patroni, which starts PostgreSQL.
func (p *patroni) launch(i int) error {
	s := p.all[i]
	s.server = s.command("patroni", p.configs[i])
	s.server.Path = p.program
	return s.server.Start()
}

// elected waits until a server other than the old primary acknowledges a write.
func (p *patroni) elected(ctx context.Context, old *replica) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	return until(ctx, func() bool {
		for _, s := range p.all {
			if s != old && s.write(ctx, 10*time.Second) == nil {
				p.primary = s
				return true
			}
		}
		return false
	})
}

// failOverPatroni makes the machine of the primary fail, waits until Patroni has promoted another server, lets the machine
// come back, and waits until Patroni has made a standby of it.
func (c *cluster) failOverPatroni(ctx context.Context, f fault) (accepted time.Time, err error) {
	p, old := c.ruled, c.ruled.primary
	if err := old.strike(f); err != nil {
		return accepted, err
	}
	if f == stopped {
		err = old.server.Process.Signal(syscall.SIGSTOP)
	}
	if err := errors.Join(err, p.elected(ctx, old)); err != nil {
		return accepted, fmt.Errorf("%s %s, and no other server was elected: %w", old.name, f, err)
	}
	accepted = clock.Now()
	c.awaitRecovery(accepted)
	if f == killed {
		for i, s := range p.all {
			if s == old {
				err = p.launch(i)
			}
		}
	} else {
		err = errors.Join(old.server.Process.Signal(syscall.SIGCONT), old.revive(ctx, f))
	}
	return accepted, errors.Join(err, p.streaming(ctx, 2))
}

// TestFailoverPatroni is TestFailover with Patroni in the place of the test, which then only makes machines fail. It
// needs Patroni, so only `make failover-patroni` runs it.
func TestFailoverPatroni(t *testing.T) {
	if os.Getenv("PATRONI") == "" {
		t.Skip("make failover-patroni runs it")
	}
	t.Parallel()
	c := newCluster(t, setup{nodes: 3, patroni: true, api: true})
	c.create(job.Partitions, 24*time.Hour, inPartition, spread)
	c.drillFailovers(number("FAILOVERS", 4), []fault{killed, stopped}, c.failOverPatroni)
}
