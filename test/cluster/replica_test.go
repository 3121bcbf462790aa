package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/store"
)

// replica is one of the servers of a replicated database. Nodes and standbys reach it through its proxy.
type replica struct {
	*database
	name  string
	proxy *proxy
}

// replicas are a primary and its standbys. The test is what decides who is the primary.
type replicas struct {
	t       *testing.T
	all     []*replica
	primary *replica
}

// walKept is for standbys that come back. pg_rewind copies all of it, and reads it from the files of the server.
const walKept = "256MB"

// newReplicas starts a primary and two standbys. synchronous: a commit waits until one of the standbys has it on disk.
func newReplicas(t *testing.T, synchronous bool) *replicas {
	t.Helper()
	const quorum = "ANY 1 (server0, server1, server2)"
	settings := []string{"wal_retrieve_retry_interval=100ms"}
	first := settings // no commit waits before there are standbys
	if synchronous {
		settings = append(settings, "synchronous_standby_names="+quorum)
	}
	r := &replicas{t: t}
	for i := range 3 {
		s := &replica{name: fmt.Sprintf("server%d", i)}
		if i == 0 {
			s.database = newDatabase(t, first...)
			s.settings = settings
			r.primary = s
			require.NoError(t, s.set(t.Context(), "wal_keep_size", walKept))
		} else {
			s.database = emptyDatabase(t, settings...)
		}
		s.proxy = newProxy(t, fmt.Sprintf("127.0.0.1:%d", s.port), 0)
		r.all = append(r.all, s)
		if i > 0 {
			require.NoError(t, s.copyFrom(r.primary))
			require.NoError(t, s.follow(t.Context(), r.primary))
		}
	}
	if synchronous {
		require.NoError(t, r.primary.set(t.Context(), "synchronous_standby_names", quorum))
	}
	require.NoError(t, r.streaming(t.Context(), 2))
	return r
}

// urlOf lists all servers, with their proxies for nodes.
func (r *replicas) urlOf(role string, proxied bool) string {
	var hosts []string
	for _, s := range r.all {
		if proxied {
			hosts = append(hosts, s.proxy.listener.Addr().String())
		} else {
			hosts = append(hosts, fmt.Sprintf("127.0.0.1:%d", s.port))
		}
	}
	return fmt.Sprintf("postgres://%s@%s/postgres?sslmode=disable&target_session_attrs=read-write", role,
		strings.Join(hosts, ","))
}

// standbys are the servers other than the primary.
func (r *replicas) standbys() (out []*replica) {
	for _, s := range r.all {
		if s != r.primary {
			out = append(out, s)
		}
	}
	return out
}

// streaming waits until n standbys stream from the primary.
func (r *replicas) streaming(ctx context.Context, n int) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	err := until(ctx, func() bool {
		got, err := ask[int](ctx, r.primary, `SELECT count(*)::int FROM pg_stat_replication WHERE state = 'streaming'`)
		return err == nil && got == n
	})
	if err != nil {
		return fmt.Errorf("%d standbys do not stream from %s: %w", n, r.primary.name, err)
	}
	return nil
}

// ask asks a server for one value, on a connection of its own. A standby cancels queries that are in the way of what it
// receives, so it asks again.
func ask[T any](ctx context.Context, s *replica, sql string) (value T, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	c, err := pgx.Connect(ctx, s.url())
	if err != nil {
		return value, err
	}
	defer func() { _ = c.Close(context.WithoutCancel(ctx)) }()
	for {
		err = c.QueryRow(ctx, sql).Scan(&value)
		if store.Code(err) != "40001" {
			return value, err
		}
	}
}

// set changes a setting of a server that runs.
func (s *replica) set(ctx context.Context, name, value string) error {
	if err := s.exec(ctx, fmt.Sprintf(`ALTER SYSTEM SET %s = '%s'`, name, value)); err != nil {
		return err
	}
	return s.exec(ctx, `SELECT pg_reload_conf()`)
}

// exec runs a statement on a connection of its own.
func (s *replica) exec(ctx context.Context, sql string) error {
	c, err := pgx.Connect(ctx, s.url())
	if err != nil {
		return err
	}
	defer func() { _ = c.Close(context.WithoutCancel(ctx)) }()
	_, err = c.Exec(ctx, sql)
	return err
}

// copyFrom replaces the data of a server that does not run by that of another.
func (s *replica) copyFrom(primary *replica) error {
	if err := os.RemoveAll(s.dir); err != nil {
		return err
	}
	return s.command("pg_basebackup", "-D", s.dir, "-d", primary.url(), "-X", "stream", "-c", "fast", "--no-sync").Run()
}

// rewind makes the data of a server that does not run a copy of another, from the point where their histories part.
func (s *replica) rewind(ctx context.Context, primary *replica) error {
	if err := until(ctx, func() bool { return len(s.processes()) == 0 }); err != nil {
		return err
	}
	_ = os.Remove(filepath.Join(s.dir, "postmaster.pid"))
	// pg_rewind reads the timeline of the other one from its last checkpoint.
	if err := primary.exec(ctx, `CHECKPOINT`); err != nil {
		return err
	}
	return s.command("pg_rewind", "-D", s.dir, "--source-server", primary.url(), "--no-sync").Run()
}

// follow starts a server as a standby of another.
func (s *replica) follow(ctx context.Context, primary *replica) error {
	auto := filepath.Join(s.dir, "postgresql.auto.conf")
	text := fmt.Sprintf("primary_conninfo = '%s'\nwal_keep_size = '%s'\n", s.source(primary), walKept)
	if err := os.WriteFile(auto, []byte(text), 0o600); err != nil {
		return err
	}
	signal := filepath.Join(s.dir, "standby.signal")
	if err := os.WriteFile(signal, nil, 0o600); err != nil {
		return err
	}
	if s.user != nil {
		if err := errors.Join(os.Chown(auto, int(s.user.Uid), int(s.user.Gid)),
			os.Chown(signal, int(s.user.Uid), int(s.user.Gid))); err != nil {
			return err
		}
	}
	_, err := s.start(ctx)
	return err
}

// source is how a standby reaches a primary.
func (s *replica) source(primary *replica) string {
	port := primary.proxy.listener.Addr().String()
	return fmt.Sprintf("host=127.0.0.1 port=%s user=belfry application_name=%s",
		port[strings.LastIndex(port, ":")+1:], s.name)
}

// fault is what happens to a primary.
type fault int

const (
	killed      fault = iota // kill -9, all of its processes
	stopped                  // SIGSTOP: connections stay, and nothing answers
	partitioned              // nothing reaches it, and nothing comes from it
)

func (f fault) String() string { return [...]string{"killed", "stopped", "partitioned"}[f] }

func (s *replica) strike(f fault) error {
	switch f {
	case killed:
		return s.kill(true)
	case stopped:
		s.signal(syscall.SIGSTOP)
	case partitioned:
		s.proxy.cut()
	}
	return nil
}

func (s *replica) signal(signal syscall.Signal) {
	for _, pid := range s.processes() {
		_ = syscall.Kill(pid, signal) // some may have ended
	}
}

// revive undoes a fault. The server then still believes that it is the primary.
func (s *replica) revive(ctx context.Context, f fault) error {
	switch f {
	case killed:
		_, err := s.start(ctx)
		return err
	case stopped:
		s.signal(syscall.SIGCONT)
	case partitioned:
		s.proxy.heal()
	}
	return nil
}

// detach makes the standbys stop to receive.
func (r *replicas) detach(ctx context.Context) error {
	for _, s := range r.standbys() {
		if err := s.set(ctx, "primary_conninfo", ""); err != nil {
			return err
		}
	}
	for _, s := range r.standbys() {
		if err := until(ctx, func() bool {
			n, err := ask[int](ctx, s, `SELECT count(*)::int FROM pg_stat_wal_receiver`)
			return err == nil && n == 0
		}); err != nil {
			return fmt.Errorf("%s still receives: %w", s.name, err)
		}
	}
	return nil
}

// promote makes the most advanced standby the primary, and the other one its standby. It returns when the new primary
// acknowledged a write.
//
// First both standbys are detached: a standby that still receives could confirm commits of the old primary that the new
// one does not have.
func (r *replicas) promote(ctx context.Context) (accepted time.Time, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := r.detach(ctx); err != nil {
		return accepted, err
	}
	standbys := r.standbys()
	received := make([]uint64, len(standbys))
	for i, s := range standbys {
		const position = `SELECT (coalesce(pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn()) - '0/0')::bigint`
		if received[i], err = ask[uint64](ctx, s, position); err != nil {
			return accepted, err
		}
	}
	next, other := standbys[0], standbys[1]
	if received[1] > received[0] {
		next, other = other, next
	}
	if _, err := ask[bool](ctx, next, `SELECT pg_promote(false)`); err != nil {
		return accepted, fmt.Errorf("promote %s: %w", next.name, err)
	}
	if err := other.set(ctx, "primary_conninfo", other.source(next)); err != nil {
		return accepted, err
	}
	r.primary = next
	if err := until(ctx, func() bool { return next.write(ctx, 10*time.Second) == nil }); err != nil {
		return accepted, fmt.Errorf("%s does not accept writes: %w", next.name, err)
	}
	return clock.Now(), nil
}

// write is acknowledged if it returns nil.
func (s *replica) write(ctx context.Context, within time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	return s.exec(ctx, `CREATE TABLE IF NOT EXISTS written (at timestamptz); INSERT INTO written VALUES (now())`)
}

// rejoin fences a server that was the primary, by ending it, and makes it a standby of the new one.
func (r *replicas) rejoin(ctx context.Context, s *replica) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	if err := s.kill(true); err != nil {
		return err
	}
	s.proxy.heal()
	if err := s.rewind(ctx, r.primary); err != nil {
		log, _ := os.ReadFile(s.log.Name())
		r.t.Logf("pg_rewind of %s: %v; copying it instead: %s", s.name, err, log[max(0, len(log)-500):])
		if err := s.copyFrom(r.primary); err != nil {
			return err
		}
	}
	if err := s.follow(ctx, r.primary); err != nil {
		return err
	}
	return r.streaming(ctx, 2)
}

// refuses checks that a revived primary acknowledges nothing: its standbys have left it.
func (s *replica) refuses(ctx context.Context, within time.Duration) error {
	err := s.write(ctx, within)
	var refusal *pgconn.PgError
	switch {
	case err == nil:
		return fmt.Errorf("the old primary %s acknowledged a write", s.name)
	case errors.As(err, &refusal):
		return fmt.Errorf("the old primary %s: %w", s.name, err)
	}
	return nil
}

// anyTime is a random pause below d.
func anyTime(d time.Duration) { <-time.After(time.Duration(rand.Int64N(int64(d)))) }
