package app

import (
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/pgtest"
)

// manager is the socket of a service manager, with what a node has sent to it.
type manager struct {
	path string
	mu   sync.Mutex
	got  []string
}

func newManager(t *testing.T) *manager {
	t.Helper()
	m := &manager{path: filepath.Join(t.TempDir(), "notify")}
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: m.path, Net: "unixgram"})
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	go func() {
		buffer := make([]byte, 4096)
		for {
			n, err := c.Read(buffer)
			if err != nil {
				return
			}
			m.mu.Lock()
			m.got = append(m.got, string(buffer[:n]))
			m.mu.Unlock()
		}
	}()
	return m
}

// count returns how many messages begin with a string.
func (m *manager) count(text string) (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, got := range m.got {
		if strings.HasPrefix(got, text) {
			n++
		}
	}
	return n
}

func (m *manager) await(t *testing.T, text string, n int) {
	t.Helper()
	require.Eventually(t, func() bool { return m.count(text) >= n }, time.Minute, 10*time.Millisecond, "%d of %q", n, text)
}

// under makes a node report to m, with a watchdog.
func (m *manager) under(t *testing.T, c *Config) {
	t.Helper()
	n, err := NewNotifier(func(name string) string {
		return map[string]string{"NOTIFY_SOCKET": m.path, "WATCHDOG_USEC": "400000"}[name]
	})
	require.NoError(t, err)
	c.Systemd = n
}

// TestSystemdKnowsTheState: a node is ready when it works, feeds the watchdog also while the database is down, and
// reports that it does not work meanwhile, and that it stops.
func TestSystemdKnowsTheState(t *testing.T) {
	t.Parallel()
	m := newManager(t)
	database, url := newProxy(t, serverURL(t), "c4nary")
	c := testConfig(url)
	c.Listen, c.SessionTTL = freeAddress(t), 3*time.Second
	m.under(t, &c)
	s := serveNode(t, c)
	m.await(t, "STATUS=waiting for the database", 1)
	s.log.await(t, "database connection failed")
	require.Zero(t, m.count("READY=1"), "it does not work yet")
	require.Zero(t, m.count("WATCHDOG=1"))

	database.open()
	m.await(t, "READY=1\nSTATUS=working", 1)
	m.await(t, "WATCHDOG=1", 3)
	without, with := m.count("STATUS="+noSession), m.count("STATUS="+working)
	database.cut()
	awaitReady(t, "http://"+c.Listen, 503, "session")
	m.await(t, "STATUS="+noSession, without+1)
	m.await(t, "WATCHDOG=1", m.count("WATCHDOG=1")+5) // systemd must not restart a node because of its database
	require.Zero(t, m.count("STOPPING=1"))
	database.open()
	awaitReady(t, "http://"+c.Listen, 200, "")
	m.await(t, "STATUS="+working, with+1)
	require.NoError(t, s.end(t))
	m.await(t, "STOPPING=1\nSTATUS=handing over", 1)
	require.Equal(t, 1, m.count("READY=1"))
}

// TestTheWatchdogMissesALoop: a node of which one loop does not go on gets no beats, however well the others work.
func TestTheWatchdogMissesALoop(t *testing.T) {
	t.Parallel()
	m := newManager(t)
	url, pool := pgtest.ServerURL(t)
	c := testConfig(url)
	c.Listen, c.SweepPause = freeAddress(t), time.Hour // after its first round, the sweep hangs
	m.under(t, &c)
	s := serveNode(t, c)
	m.await(t, "READY=1", 1)
	s.log.await(t, "partitions gained") // until then the sweep may have a few rounds
	last := time.Time{}
	renewed := func(times int) {
		require.Eventually(t, func() bool { // each second
			var until time.Time
			require.NoError(t, pool.QueryRow(t.Context(),
				`SELECT coalesce(max(expires_at), 'epoch') FROM session`).Scan(&until))
			if until.After(last) {
				times, last = times-1, until
			}
			return times < 0
		}, time.Minute, 20*time.Millisecond)
	}
	renewed(2)
	beats := m.count("WATCHDOG=1")
	renewed(10)
	require.LessOrEqual(t, m.count("WATCHDOG=1"), beats+1)
	require.NoError(t, s.end(t))
}

func TestSystemdIsOptional(t *testing.T) {
	t.Parallel()
	for name, env := range map[string]map[string]string{
		"not started by systemd":      {},
		"a watchdog without a socket": {"WATCHDOG_USEC": "1"},
	} {
		n, err := NewNotifier(func(key string) string { return env[key] })
		require.NoError(t, err, name)
		require.Nil(t, n, name)
		require.NoError(t, n.Ready("x"), name)
		n.Round("plan")
		n.Beat(t.Context())
	}
	for name, env := range map[string]map[string]string{
		"NOTIFY_SOCKET": {"NOTIFY_SOCKET": "relative"},
		"WATCHDOG_USEC": {"NOTIFY_SOCKET": "/x", "WATCHDOG_USEC": "30s"},
	} {
		_, err := NewNotifier(func(key string) string { return env[key] })
		require.ErrorContains(t, err, name)
	}
	// A watchdog for another process is not fed, so this returns.
	m := newManager(t)
	env := map[string]string{"NOTIFY_SOCKET": m.path, "WATCHDOG_USEC": "1000", "WATCHDOG_PID": "1"}
	n, err := NewNotifier(func(key string) string { return env[key] })
	require.NoError(t, err)
	n.Beat(t.Context())
}

// TestANodeOutlivesItsManager: a socket that has gone is logged, and the node works.
func TestANodeOutlivesItsManager(t *testing.T) {
	t.Parallel()
	m := &manager{path: filepath.Join(t.TempDir(), "gone")}
	s, c := serveAPI(t, func(c *Config) { m.under(t, c) })
	s.log.await(t, "report to systemd failed")
	awaitReady(t, c.base, 200, "")
	require.NoError(t, s.end(t))
}
