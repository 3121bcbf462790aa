package local_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/cli"
	"github.com/belfry-dev/belfry/internal/pgtest"
)

const beMain = "TEST_BE_BELFRY"

// TestMain lets this binary act as belfry, because benchmarks start their own binary again.
func TestMain(m *testing.M) {
	if os.Getenv(beMain) != "" {
		os.Exit(cli.Main("test"))
	}
	os.Exit(m.Run())
}

// process is belfry in a process of its own.
type process struct {
	cmd    *exec.Cmd
	stdout bytes.Buffer
	stderr watched
	server string // URL of the database
}

func startBelfry(t *testing.T, args ...string) *process {
	t.Helper()
	p := &process{
		cmd: exec.Command(os.Args[0], args...), server: pgtest.EmptyURL(t),
		stderr: watched{changed: make(chan struct{}, 1)},
	}
	p.cmd.Env = append(os.Environ(), beMain+"=1", "BELFRY_DATABASE_URL="+p.server)
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, &p.stderr
	require.NoError(t, p.cmd.Start())
	t.Cleanup(func() { _ = p.cmd.Process.Kill() })
	return p
}

// scratch returns the name of the database that the benchmark has created.
func (p *process) scratch(t *testing.T) string {
	t.Helper()
	found := regexp.MustCompile(`scratch database (belfry_bench_[a-z0-9]+)\n`).FindStringSubmatch(p.stderr.String())
	require.Len(t, found, 2, "%s", p.stderr.String())
	return found[1]
}

func (p *process) query(t *testing.T, query string, args ...any) (n int) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), p.server)
	require.NoError(t, err)
	defer func() { _ = conn.Close(context.Background()) }()
	require.NoError(t, conn.QueryRow(t.Context(), query, args...).Scan(&n))
	return n
}

func (p *process) requireDropped(t *testing.T) {
	t.Helper()
	require.Zero(t, p.query(t, `SELECT count(*) FROM pg_database WHERE datname = $1`, p.scratch(t)),
		"the scratch database is left")
}

// watched is output that a test can wait for.
type watched struct {
	mu      sync.Mutex
	text    bytes.Buffer
	changed chan struct{}
}

func (w *watched) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case w.changed <- struct{}{}:
	default:
	}
	return w.text.Write(b)
}

func (w *watched) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

// await waits until the text was written.
func (w *watched) await(t *testing.T, text string) {
	t.Helper()
	timeout := time.After(time.Minute)
	for !strings.Contains(w.String(), text) {
		select {
		case <-w.changed:
		case <-timeout:
			require.Fail(t, "it did not come: "+text, w.String())
		}
	}
}

func TestBench(t *testing.T) {
	t.Parallel()
	everyField := []string{
		"bench", "jobs", "target", "nodes", "rate", "duration_seconds", "postgres_version", "fsync",
		"synchronous_commit", "cores",
		"runs", "lost", "duplicates", "runs_per_second", "lateness_ms", "drain_seconds", "cpu", "wal_bytes_per_run",
		"transactions_per_run",
	}
	for _, tc := range []struct {
		args  []string
		runs  float64
		extra []string
	}{
		{[]string{"hot-second", "--jobs", "500"}, 500, nil},
		{[]string{"hot-second", "--jobs", "300", "--target", "http", "--nodes", "2"}, 300, nil},
		{[]string{"steady", "--jobs", "500", "--rate", "50", "--duration", "3s", "--target", "http"}, 150, nil},
		{[]string{"engine", "--jobs", "500"}, 1000, []string{"bare_runs_per_second", "ratio_to_bare"}},
	} {
		t.Run(tc.args[0], func(t *testing.T) {
			t.Parallel()
			report := filepath.Join(t.TempDir(), "report.html")
			p := startBelfry(t, append([]string{"bench"}, append(tc.args, "-o", "json", "--html", report)...)...)
			require.NoError(t, p.cmd.Wait(), "%s", p.stderr.String())
			var got map[string]any
			require.NoError(t, json.Unmarshal(p.stdout.Bytes(), &got))
			names := make([]string, 0, len(got))
			for name := range got {
				names = append(names, name)
			}
			require.ElementsMatch(t, append(tc.extra, everyField...), names)
			require.Equal(t, tc.args[0], got["bench"])
			require.InDelta(t, tc.runs, got["runs"], 0)
			require.Zero(t, got["lost"])
			require.Zero(t, got["duplicates"])
			require.Positive(t, got["runs_per_second"])
			require.Positive(t, got["wal_bytes_per_run"])
			require.Positive(t, got["transactions_per_run"])
			late := got["lateness_ms"].(map[string]any)
			require.GreaterOrEqual(t, late["first"], 0.0, "never early")
			for _, pair := range [][2]string{{"first", "p50"}, {"p50", "p95"}, {"p95", "p99"}, {"p99", "max"}} {
				require.LessOrEqual(t, late[pair[0]], late[pair[1]])
			}
			require.Positive(t, late["max"])
			cpu := got["cpu"].(map[string]any)
			require.NotNil(t, cpu["node"])
			require.NotNil(t, cpu["postgres"], "the server of tests is on this machine")
			require.Equal(t, got["target"] == "http", cpu["sink"] != nil)
			html, err := os.ReadFile(report)
			require.NoError(t, err)
			require.Equal(t, 3, bytes.Count(html, []byte("<svg")))
			p.requireDropped(t)
		})
	}
}

// steadyForever runs long enough to be interrupted.
var steadyForever = []string{
	"bench", "steady", "--jobs", "500", "--rate", "50", "--duration", "10m", "--target", "http",
}

func TestBenchInterrupted(t *testing.T) {
	t.Parallel()
	for _, during := range []string{"starting nodes", "measuring"} {
		t.Run(during, func(t *testing.T) {
			t.Parallel()
			p := startBelfry(t, steadyForever...)
			p.stderr.await(t, during)
			require.NoError(t, p.cmd.Process.Signal(os.Interrupt))
			var exit *exec.ExitError
			require.ErrorAs(t, p.cmd.Wait(), &exit)
			require.Equal(t, 1, exit.ExitCode())
			require.Contains(t, p.stderr.String(), "belfry: interrupted")
			p.requireDropped(t)
		})
	}
}

// TestBenchKilled checks that nodes do not outlive a benchmark that could not stop them.
func TestBenchKilled(t *testing.T) {
	t.Parallel()
	p := startBelfry(t, steadyForever...)
	p.stderr.await(t, "planning ahead")
	name := p.scratch(t)
	const connections = `SELECT count(*) FROM pg_stat_activity WHERE datname = $1 AND application_name LIKE 'belfry%'`
	require.Positive(t, p.query(t, connections, name))
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGKILL))
	require.Eventually(t, func() bool { return p.query(t, connections, name) == 0 }, time.Minute,
		100*time.Millisecond, "a node lives on")
	conn, err := pgx.Connect(t.Context(), p.server)
	require.NoError(t, err)
	_, err = conn.Exec(t.Context(), `DROP DATABASE `+name+` WITH (FORCE)`)
	require.NoError(t, err)
	require.NoError(t, conn.Close(t.Context()))
}

func TestBenchMayNotCreateDatabases(t *testing.T) {
	t.Parallel()
	server := pgtest.EmptyURL(t)
	role := "belfry_test_" + strings.ToLower(rand.Text()[:10])
	conn, err := pgx.Connect(t.Context(), server)
	require.NoError(t, err)
	_, err = conn.Exec(t.Context(), `CREATE ROLE `+role+` LOGIN`)
	require.NoError(t, err)
	t.Cleanup(func() {
		_, err := conn.Exec(context.Background(), `DROP ROLE `+role)
		require.NoError(t, err)
		require.NoError(t, conn.Close(context.Background()))
	})
	u, err := url.Parse(server)
	require.NoError(t, err)
	u.User = url.User(role)
	_, err = run(t, "bench", "engine", "--database-url", u.String())
	require.ErrorContains(t, err, "the user may not create databases; as a superuser run ALTER ROLE that user CREATEDB")
}

func TestBenchRefuses(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"hot-second --jobs 0":       "--jobs 0: use 1 or more",
		"hot-second --nodes 0":      "--nodes 0: use 1 or more",
		"hot-second --target kafka": "--target kafka: use noop or http",
		"hot-second -o xml":         "-o xml: use text or json",
		"engine --rounds 0":         "--rounds 0: use 1 or more",
		"steady --jobs 10 --rate 20": "--rate 20: use 1 to --jobs, which is 10:" +
			" no job is due more than once a second",
		"steady --duration 10ms":            "--duration: use 1s or more",
		"steady --jobs 2000 --schedules -1": "--schedules -1: use 1 to 2000, or leave it out: one for each second",
	} {
		args := strings.Fields("bench " + args + " --database-url postgres://nobody@127.0.0.1:1/none")
		_, err := run(t, args...)
		require.EqualError(t, err, want)
	}
}
