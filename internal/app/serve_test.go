package app

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/pgtest"
)

// serving is Serve, running.
type serving struct {
	log   *lines
	ended chan error
	stop  context.CancelFunc
}

func serveNode(t *testing.T, c Config) *serving {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	s := &serving{log: &lines{}, ended: make(chan error, 1), stop: cancel}
	go func() {
		s.ended <- Serve(ctx, c, slog.New(slog.NewJSONHandler(s.log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	}()
	t.Cleanup(cancel)
	return s
}

func (s *serving) end(t *testing.T) error {
	t.Helper()
	s.stop()
	select {
	case err := <-s.ended:
		return err
	case <-time.After(time.Minute):
		t.Fatal("it does not stop")
		return nil
	}
}

func get(t *testing.T, url string) (status int, body string) {
	t.Helper()
	answer, err := http.Get(url)
	require.NoError(t, err)
	defer func() { _ = answer.Body.Close() }()
	data, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	return answer.StatusCode, string(data)
}

// awaitReady waits for an answer of /readyz and returns its problems.
func awaitReady(t *testing.T, url string, status int, problem string) {
	t.Helper()
	var body string
	require.Eventually(t, func() bool {
		var got int
		got, body = get(t, url+"/readyz")
		var r readiness
		require.NoError(t, json.Unmarshal([]byte(body), &r))
		return got == status && (problem == "" && r.Problems == nil || r.Problems[problem] != "")
	}, time.Minute, 50*time.Millisecond, "want %d and %q", status, problem)
	t.Logf("%d %s", status, body)
}

// TestDatabaseGoesAndComes starts a node without its database, lets it come, go
// and come again, and stops the node.
func TestDatabaseGoesAndComes(t *testing.T) {
	t.Parallel()
	const password = "c4nary"
	database, url := newProxy(t, serverURL(t), password)
	c := testConfig(url)
	c.Listen, c.SessionTTL = freeAddress(t), 3*time.Second
	s := serveNode(t, c)
	s.log.await(t, "database connection failed")
	base := "http://" + c.Listen
	awaitReady(t, base, http.StatusServiceUnavailable, "start")
	status, _ := get(t, base+"/healthz")
	require.Equal(t, http.StatusOK, status, "alive, though it cannot work")

	database.open()
	s.log.await(t, "database connection recovered")
	started := s.log.await(t, "node started")
	awaitReady(t, base, http.StatusOK, "")
	require.Equal(t, "test", started["version"])
	require.Equal(t, "one", started["node"])
	require.Equal(t, c.Listen, started["address"])
	require.Contains(t, started["database"], ":xxxxx@")
	require.EqualValues(t, 256, started["partitions"])
	require.Positive(t, started["schema"])

	s.log.await(t, "partitions gained") // so the loops have something to ask for
	database.cut()
	awaitReady(t, base, http.StatusServiceUnavailable, "session")
	awaitReady(t, base, http.StatusServiceUnavailable, "database")
	database.open()
	s.log.await(t, "session renewal recovered")
	awaitReady(t, base, http.StatusOK, "")
	_, metrics := get(t, base+"/metrics")
	require.Regexp(t, `(?m)^belfry_loop_failures_total\{loop="\w+"\} [1-9]`, metrics)
	require.NoError(t, s.end(t))
	require.NotNil(t, s.log.find(t, "node stopped"))
	for _, text := range []string{s.log.String(), metrics} {
		require.NotContains(t, text, password)
	}
}

// TestConnectionsBreakDuringTheStart: whenever a node loses the database while it starts, it goes on with its start.
func TestConnectionsBreakDuringTheStart(t *testing.T) {
	t.Parallel()
	server, broke := serverURL(t), ""
	serve := func(breakAt int64) {
		database, url := openProxy(t, server, "x")
		database.breakAt.Store(breakAt)
		c := testConfig(url)
		c.Canary = true
		s := serveNode(t, c)
		defer func() { _ = s.end(t) }()
		require.Eventually(t, func() bool { return len(s.ended) > 0 || s.log.find(t, "node started") != nil },
			time.Minute, 10*time.Millisecond)
		require.Empty(t, s.ended, "it ended after answer %d", breakAt)
		if failed := s.log.find(t, "preparation failed"); failed != nil {
			broke += fmt.Sprintln(failed["error"])
		}
	}
	steps := []string{"check the database role", "history", "canary", "keys of run tokens"}
	notBroken := func(step string) bool { return !strings.Contains(broke, step) }
	for i := int64(1); slices.ContainsFunc(steps, notBroken); i++ {
		require.Less(t, i, int64(500), "steps that were never broken: %v in\n%s", steps, broke)
		serve(i)
	}
}

// TestNothingIsPreparedAfterTheEnd: a node that is asked to stop while it starts does not go on without its preparation.
func TestNothingIsPreparedAfterTheEnd(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.Error(t, persist(ctx, slog.New(slog.DiscardHandler), func(context.Context) error { return nil }))
}

// freeAddress returns an address for a node whose health is requested before the log has the address, or for a proxy
// that is closed for a while. The port is below those that the system gives to other listeners and connections.
func freeAddress(t *testing.T) string {
	t.Helper()
	for range 100 {
		address := fmt.Sprintf("127.0.0.1:%d", 20_000+rand.IntN(10_000))
		if l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", address); err == nil {
			require.NoError(t, l.Close())
			return address
		}
	}
	require.Fail(t, "no free port")
	return ""
}

func TestStopWhileTheDatabaseIsAway(t *testing.T) {
	t.Parallel()
	_, url := newProxy(t, serverURL(t), "x")
	c := testConfig(url)
	c.Drain = time.Hour // it has nothing to wait for
	s := serveNode(t, c)
	s.log.await(t, "database connection failed")
	require.NoError(t, s.end(t))
}

func TestStopAfterTheDatabaseWent(t *testing.T) {
	t.Parallel()
	database, url := newProxy(t, serverURL(t), "x")
	database.open()
	c := testConfig(url)
	c.SessionTTL = 3 * time.Second
	s := serveNode(t, c)
	s.log.await(t, "partitions gained")
	database.cut()
	s.log.await(t, "session renewal failed")
	require.ErrorContains(t, s.end(t), "the other nodes take over when it expires")
	require.Nil(t, s.log.find(t, "session renewal recovered"))
	require.NotNil(t, s.log.find(t, "node stopped"))
}

func TestServeRefuses(t *testing.T) {
	t.Parallel()
	migrated := serverURL(t)
	badOption := strings.Replace(withUser(t, migrated, "u"), "sslmode=disable", "sslmode=maybe", 1)
	noFile := strings.Replace(migrated, "sslmode=disable", "sslmode=verify-full&sslrootcert=/not/there", 1)
	for name, tc := range map[string]struct{ url, want string }{
		"no schema":   {pgtest.EmptyURL(t), "run: belfry migrate"},
		"no database": {strings.Replace(migrated, "?", "_not_there?", 1), "does not exist"},
		"no role":     {withUser(t, migrated, "nobody_here"), "connect to the database"},
		"bad option":  {badOption, "read the database URL"},
		"no file":     {noFile, "read the database URL"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serveNode(t, testConfig(tc.url))
			select {
			case err := <-s.ended:
				require.ErrorContains(t, err, tc.want)
				require.NotContains(t, err.Error(), "c4nary")
			case <-time.After(time.Minute):
				t.Fatalf("it waits:\n%s", s.log)
			}
		})
	}
	c := testConfig(migrated)
	c.Listen, c.InsecureListen = "203.0.113.1:1", true
	taken := serveNode(t, c)
	require.ErrorContains(t, <-taken.ended, "listen for the API, health and metrics (another address: --listen)")
}

func TestReadinessIsKept(t *testing.T) {
	t.Parallel()
	b := start(t)
	h := &health{}
	h.watch(t.Context(), b.node, 1<<40)
	first := h.ready(t.Context())
	require.Contains(t, first.Problems["schema"], "run: belfry migrate")
	begun, checked, checks := clock.Elapsed(), h.checked, 0
	for range 1000 {
		if h.ready(t.Context()); h.checked != checked {
			checked, checks = h.checked, checks+1
		}
	}
	require.LessOrEqual(t, checks, 1+int((clock.Elapsed()-begun)/readyFor), "asked once in that time")
	h.checked -= 2 * readyFor
	h.ready(t.Context())
	require.Greater(t, h.checked, checked, "and again when it is old")

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	h.watch(ctx, b.node, 1)
	require.Contains(t, h.ready(t.Context()).Problems, "stop")
}

func withUser(t *testing.T, database, user string) string {
	t.Helper()
	u, err := url.Parse(database)
	require.NoError(t, err)
	u.User = url.UserPassword(user, "c4nary")
	return u.String()
}
