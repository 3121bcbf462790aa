package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/job"
)

// sites are two places with nodes and servers of their own: server0 and server1 are in the first, server2 is in the
// second. The steps are those of docs/guide/sites.md.
type sites struct {
	*cluster
	users  sync.WaitGroup
	worked [][]*created
}

// atSites starts two nodes in the first site, and clients. Commits wait for the other site.
func atSites(t *testing.T) (s *sites, stop func()) {
	t.Helper()
	if os.Getenv("SITES") == "" {
		t.Skip("takes minutes; run: make test-sites")
	}
	s = &sites{cluster: newCluster(t, setup{nodes: 2, async: true, api: true}), worked: make([][]*created, 2)}
	require.NoError(t, s.waitFor(t.Context(), s.group.all[2]))
	s.create(number("JOBS", job.Partitions), 24*time.Hour, inPartition, spread)
	ctx, cancel := context.WithCancel(t.Context())
	u := s.caller(5 * time.Second)
	for i := range s.worked {
		s.users.Go(func() { s.worked[i] = u.createBulks(ctx, i, 20, 100*time.Millisecond) })
	}
	s.balanced()
	return s, func() {
		cancel()
		s.users.Wait()
	}
}

// waitFor makes commits wait for some of the standbys. Without any, commits wait for none.
func (s *sites) waitFor(ctx context.Context, standbys ...*replica) error {
	names := ""
	for _, r := range standbys {
		if names != "" {
			names += ", "
		}
		names += r.name
	}
	if names != "" {
		names = "ANY 1 (" + names + ")"
	}
	return s.group.primary.set(ctx, "synchronous_standby_names", names)
}

// moveNodes starts nodes in the site that takes over, and then stops those of the other: they hand their work over.
func (s *sites) moveNodes() {
	before := s.nodes
	s.nodes = append([]*node(nil), before...)
	for range before {
		s.nodes = append(s.nodes, s.start())
	}
	s.balanced()
	s.nodes = s.nodes[len(before):]
	s.publish()
	for _, n := range before {
		require.NoError(s.t, n.end(syscall.SIGTERM))
	}
	s.balanced()
}

// switchOver makes a standby the primary, after the primary has stopped and sent it everything.
func (s *sites) switchOver(ctx context.Context, next *replica) (accepted time.Time, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	old := s.group.primary
	if err := s.waitFor(ctx, next); err != nil {
		return accepted, err
	}
	if err := old.command("pg_ctl", "stop", "-D", old.dir, "-m", "fast").Run(); err != nil {
		return accepted, fmt.Errorf("stop %s: %w", old.name, err)
	}
	_ = old.server.Wait()
	old.server = nil
	out := old.command("pg_controldata", "-D", old.dir)
	out.Stdout = nil
	text, err := out.Output()
	if err != nil {
		return accepted, err
	}
	found := regexp.MustCompile(`Latest checkpoint location: *(\S+)`).FindSubmatch(text)
	if found == nil {
		return accepted, fmt.Errorf("no checkpoint of %s in:\n%s", old.name, text)
	}
	last := string(found[1])
	received, err := ask[bool](ctx, next, `SELECT pg_last_wal_receive_lsn() > '`+last+`'`)
	if err != nil || !received {
		return accepted, errors.Join(err, fmt.Errorf("%s has not received the last checkpoint %s", next.name, last))
	}
	if _, err := ask[bool](ctx, next, `SELECT pg_promote()`); err != nil {
		return accepted, err
	}
	accepted = clock.Now()
	s.group.primary = next
	for _, r := range s.group.standbys() {
		if r == old {
			err = r.follow(ctx, next) // without pg_rewind: nothing was written on it that the others do not have
		} else {
			err = r.set(ctx, "primary_conninfo", r.source(next))
		}
		if err != nil {
			return accepted, err
		}
	}
	return accepted, s.group.streaming(ctx, 2)
}

// TestSwitchover moves nodes and database from one site to the other and back while jobs run and clients create more.
// No occurrence and no acknowledged write is lost, and nothing is delivered twice.
func TestSwitchover(t *testing.T) {
	t.Parallel()
	s, stop := atSites(t)
	var accepted []time.Time
	for i := range number("SWITCHOVERS", 2) {
		s.moveNodes()
		away := i%2 == 0
		next := s.group.all[0]
		if away {
			next = s.group.all[2]
		}
		begun := clock.Now()
		at, err := s.switchOver(t.Context(), next)
		require.NoError(t, err)
		t.Logf("switchover %d: to %s, without a primary for %s", i+1, next.name, at.Sub(begun).Round(time.Millisecond))
		accepted = append(accepted, at)
		other := s.group.all[2:]
		if away {
			other = s.group.all[:2]
		}
		require.NoError(t, s.waitFor(t.Context(), other...))
		s.pool.Reset()
		s.awaitRecovery(at)
	}
	stop()
	s.finishBefore(s.now().Add(5*time.Second), 5*time.Minute)

	r := s.checkFailovers(flatten(s.worked), accepted)
	t.Logf("lateness %s", s.lateness())
	t.Log(r)
	r.clean(t)
	require.Zero(t, r.duplicates)
	s.failovers(len(accepted))
}

// TestSiteLost kills the nodes and both servers of a site at once. The other site takes over. No acknowledged write and
// no occurrence is lost. What was in flight is delivered again, as another attempt.
func TestSiteLost(t *testing.T) {
	t.Parallel()
	s, stop := atSites(t)
	for _, n := range s.nodes {
		require.NoError(t, n.cmd.Process.Kill())
		<-n.done
	}
	lost, next := s.group.all[:2], s.group.all[2]
	for _, r := range lost {
		require.NoError(t, r.kill(true))
	}
	stop()

	_, err := ask[bool](t.Context(), next, `SELECT pg_promote()`)
	require.NoError(t, err)
	s.group.primary = next
	require.NoError(t, s.waitFor(t.Context())) // until the first site is back, there is nothing to wait for
	accepted := clock.Now()
	s.pool.Reset()
	for i := range s.nodes {
		s.nodes[i] = s.start()
	}
	s.publish()
	s.balanced()
	s.awaitRecovery(accepted)
	for _, r := range lost { // each may have writes that were never acknowledged, so they are copied again
		require.NoError(t, r.copyFrom(next))
		require.NoError(t, r.follow(t.Context(), next))
	}
	require.NoError(t, s.group.streaming(t.Context(), 2))
	require.NoError(t, s.waitFor(t.Context(), lost...))
	s.finishBefore(s.now().Add(5*time.Second), 5*time.Minute)

	r := s.checkFailovers(flatten(s.worked), []time.Time{accepted})
	t.Logf("lateness %s", s.lateness())
	t.Log(r)
	r.clean(t)
	s.failovers(1)
}

// failovers requires that the nodes noticed n failovers, and that none lost a write.
func (s *sites) failovers(n int) {
	s.t.Helper()
	var all, unsafe int
	require.NoError(s.t, s.pool.QueryRow(s.t.Context(),
		`SELECT count(*), count(*) FILTER (WHERE lost OR NOT synchronous) FROM failover`).Scan(&all, &unsafe))
	require.Equal(s.t, [2]int{n, 0}, [2]int{all, unsafe})
}
