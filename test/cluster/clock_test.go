package cluster_test

import (
	"bytes"
	"context"
	native "encoding/binary"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/schedule"
)

// newDatabaseWithClock is a PostgreSQL whose wall clock the test can set. Its monotonic clock is that of the machine.
func newDatabaseWithClock(t *testing.T) *database {
	t.Helper()
	d := emptyDatabase(t)
	d.clock = filepath.Join(filepath.Dir(d.dir), "clock")
	require.NoError(t, os.WriteFile(d.clock, make([]byte, 8), 0o644))
	out, err := exec.Command("gcc", "-shared", "-fPIC", "-O2", "-Wall", "-Werror", "-o", d.clock+".so",
		"testdata/clock.c").CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.NoError(t, os.Chmod(d.clock+".so", 0o755))
	d.create(t)
	return d
}

// clockEnvironment preloads testdata/clock.c.
func (d *database) clockEnvironment() []string {
	return []string{"LD_PRELOAD=" + d.clock + ".so", "BELFRY_TEST_CLOCK=" + d.clock}
}

// setClock sets how far the clock of the server is off.
func (d *database) setClock(t *testing.T, off time.Duration) {
	t.Helper()
	file, err := os.OpenFile(d.clock, os.O_RDWR, 0) // not truncated: the server has mapped it
	require.NoError(t, err)
	defer func() { require.NoError(t, file.Close()) }()
	_, err = file.WriteAt(native.NativeEndian.AppendUint64(nil, uint64(off/time.Second)), 0)
	require.NoError(t, err)
}

// ledgerCounts is what a wrong clock may not change.
type ledgerCounts struct {
	days     int // of history, of the last month; a wrong clock may create others
	history  int // runs from long ago
	finished int // one-offs that are removed in months
	waiting  int // one-offs that are due in months, as they were created
	started  int // runs of those
}

func (c *cluster) ledgerCounts() (n ledgerCounts) {
	c.t.Helper()
	require.NoError(c.t, c.pool.QueryRow(c.t.Context(), `
WITH future AS (SELECT * FROM job WHERE name LIKE 'future-%')
SELECT (SELECT count(*) FROM pg_inherits WHERE inhparent = 'run_history'::regclass
        AND inhrelid::regclass::text BETWEEN
            (SELECT to_char(min(created_at) AT TIME ZONE 'UTC' - interval '30 days', '"run_history_"YYYYMMDD') FROM future)
        AND (SELECT to_char(min(created_at) AT TIME ZONE 'UTC', '"run_history_"YYYYMMDD') FROM future)),
       (SELECT count(*) FROM run_history WHERE job_id = '00000000-0000-7000-8000-0000000000aa'),
       (SELECT count(*) FROM job WHERE name LIKE 'finished-%'),
       (SELECT count(*) FROM future j JOIN cursor c ON c.partition = j.partition AND c.id = j.cursor_id
        WHERE j.state = 1 AND c.next_due_at > j.created_at + interval '1 day'),
       (SELECT count(*) FROM run WHERE job_id IN (SELECT id FROM future))
     + (SELECT count(*) FROM run_history WHERE job_id IN (SELECT id FROM future))`).
		Scan(&n.days, &n.history, &n.finished, &n.waiting, &n.started))
	return n
}

// createPast creates days of history, with a run each, and finished one-offs that are kept for months.
func (c *cluster) createPast(days int) {
	c.t.Helper()
	for i := range days {
		_, err := c.pool.Exec(c.t.Context(), fmt.Sprintf(`
DO $$
DECLARE day timestamp := date_trunc('day', now() AT TIME ZONE 'UTC') - interval '%d days';
BEGIN
    EXECUTE format('CREATE TABLE IF NOT EXISTS %%I PARTITION OF run_history FOR VALUES FROM (%%L) TO (%%L)',
        'run_history_' || to_char(day, 'YYYYMMDD'), day || '+00', (day + interval '1 day') || '+00');
END $$`, i+2))
		require.NoError(c.t, err)
		_, err = c.pool.Exec(c.t.Context(), `
INSERT INTO run_history (partition, seq, version, job_id, due_at, run_at, started_at, ended_at, ended, attempt, origin,
    status)
SELECT 0, 0, 1, '00000000-0000-7000-8000-0000000000aa', t, t, t, t, 1, 1, 0, 200
FROM (SELECT date_trunc('day', now() AT TIME ZONE 'UTC') AT TIME ZONE 'UTC' - $1 * interval '1 day' + interval '1 h')
    AS x (t)`, i+2)
		require.NoError(c.t, err)
	}
}

// oneOffs creates one-offs that are due at a time.
func (c *cluster) oneOffs(name string, n int, at time.Time) {
	c.t.Helper()
	for i := range n {
		_, err := c.store.CreateJob(c.t.Context(), job.CreateParams{
			Namespace: uuid.MustParse("00000000-0000-7000-8000-000000000001"), Actor: "test",
			Definition: job.Definition{
				Name: fmt.Sprintf("%s-%d", name, i), Schedule: schedule.Spec{At: at.UTC().Format(time.RFC3339)},
				Target: job.Target{Kind: "noop", Config: []byte(`{}`)},
				Policy: job.Policy{KeepFinishedFor: job.Duration(90 * 24 * time.Hour)},
			},
		})
		require.NoError(c.t, err)
	}
}

// probe asks a node for a page that needs no key. It returns nothing while the node does not answer.
func (n *node) probe(ctx context.Context, path string) (status int, body string) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+n.listen+path, nil)
	if err != nil {
		return 0, ""
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, ""
	}
	defer func() { _ = response.Body.Close() }()
	text, _ := io.ReadAll(response.Body)
	return response.StatusCode, string(text)
}

// alarmed returns whether a node reports that it does not trust the clock: readiness and metric.
func (n *node) alarmed(ctx context.Context) bool {
	status, ready := n.probe(ctx, "/readyz")
	_, metrics := n.probe(ctx, "/metrics")
	return status == http.StatusServiceUnavailable && strings.Contains(ready, `"clock"`) &&
		strings.Contains(ready, "belfry clock confirm") && strings.Contains(metrics, "\nbelfry_clock_in_doubt 1\n")
}

func (n *node) ready(ctx context.Context) bool {
	status, _ := n.probe(ctx, "/readyz")
	return status == http.StatusOK
}

// await waits until all of some nodes are in a state, and returns how long that took.
func (c *cluster) await(what string, nodes []*node, state func(*node, context.Context) bool) time.Duration {
	c.t.Helper()
	begun := clock.Elapsed()
	ctx, cancel := context.WithTimeout(c.t.Context(), 5*time.Minute)
	defer cancel()
	for _, n := range nodes {
		require.NoError(c.t, until(ctx, func() bool { return state(n, ctx) }), "%s: %s", n.name, what)
	}
	return clock.Elapsed() - begun
}

func (c *cluster) logged(text string) int {
	log, _ := os.ReadFile(c.log)
	return bytes.Count(log, []byte(text))
}

// TestDatabaseClock: the clock of PostgreSQL is wrong by a year or by an hour, under nodes that run and under nodes
// that start meanwhile. They notice and say so. Nothing is dropped, removed, started or rescued until the clock is
// right. Then every occurrence happens.
func TestDatabaseClock(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip("gcc is not installed; run: dev/need --install gcc")
	}
	const day = 24 * time.Hour
	faults := []time.Duration{365 * day, -time.Hour}
	if os.Getenv("KILLS") != "" {
		faults = append(faults, time.Hour, 2*time.Minute, -365*day, 20*day)
	}
	hold := time.Duration(number("SECONDS", 2)) * time.Second
	run := func(name string, test func(*testing.T, *cluster)) {
		t.Run(name, func(t *testing.T) {
			if os.Getenv("KILLS") == "" {
				t.Parallel()
			}
			test(t, newCluster(t, setup{nodes: 2, clock: true, api: true, named: true}))
		})
	}
	for _, off := range faults {
		run(off.String(), func(t *testing.T, c *cluster) { wrongClock(t, c, off, hold) })
	}
	run("all nodes die", deadUnderWrongClock)
}

// deadUnderWrongClock: all nodes die while the clock is a year ahead. Nodes that start when it is right take all
// partitions: the sessions of the dead ones do not live for a year.
func deadUnderWrongClock(t *testing.T, c *cluster) {
	t.Helper()
	c.balanced()
	c.create(10, 20*time.Second, spread)
	c.db.setClock(t, 365*24*time.Hour)
	c.await("no alarm", c.nodes, (*node).alarmed)
	c.kills += len(c.nodes)
	c.stop()
	var ahead int
	require.NoError(t, c.pool.QueryRow(t.Context(), `SELECT count(*) FROM partition p JOIN session s ON s.id = p.owner
		WHERE s.expires_at > now()`).Scan(&ahead))
	require.Positive(t, ahead, "partitions of dead nodes")

	c.db.setClock(t, 0)
	begun := clock.Elapsed()
	c.nodes = []*node{c.start(), c.start()}
	c.publish()
	c.await("owns nothing", c.nodes, func(n *node, ctx context.Context) bool { return n.ready(ctx) && len(c.owned(n)) > 0 })
	recovered := clock.Elapsed() - begun
	c.finish(2 * time.Minute)
	r := c.check()
	t.Logf("all nodes died while the clock was a year ahead: recovered after %s", recovered.Round(time.Millisecond))
	t.Log(r)
	require.LessOrEqual(t, recovered, allowed(15*time.Second))
	c.clean(r)
}

func wrongClock(t *testing.T, c *cluster, off, hold time.Duration) {
	t.Helper()
	c.createPast(25)
	c.oneOffs("future", 20, c.now().AddDate(0, 6, 0).Truncate(time.Second))
	c.oneOffs("finished", 20, c.now().Add(-time.Minute).Truncate(time.Second))
	c.balanced()
	c.await("not ready", c.nodes, (*node).ready)
	c.create(10, 2*hold+8*time.Second, spread)
	received := len(c.sink.all())
	require.Eventually(t, func() bool { return len(c.sink.all()) > received+20 }, time.Minute, 20*time.Millisecond)
	before := c.ledgerCounts()
	require.Equal(t, ledgerCounts{before.days, 25, 20, 20, 0}, before)

	c.db.setClock(t, off)
	running := c.await("no alarm", c.nodes, (*node).alarmed)
	fresh := c.start()
	c.nodes = append(c.nodes, fresh)
	begun := clock.Elapsed()
	started := c.await("no alarm of a new node", []*node{fresh}, (*node).alarmed)
	<-time.After(hold)
	_ = c.nodes[0].end(syscall.SIGKILL) // "signal: killed"; its runs are not rescued yet
	c.kills++
	c.nodes = c.nodes[1:]
	<-time.After(hold)
	held := clock.Elapsed() - begun
	assert.Equal(t, before, c.ledgerCounts(), "while the clock was wrong")
	assert.Equal(t, 3, c.logged("database clock in doubt"), "nodes that logged it")
	c.await("the alarm is over", c.nodes, (*node).alarmed)

	c.db.setClock(t, 0)
	recovered := c.await("not recovered", c.nodes, (*node).ready)
	c.finish(2 * time.Minute)
	after := c.ledgerCounts()
	r := c.check()
	// The checker expects only the jobs that are due every second. The audit knows the one-offs too.
	r.phantom, r.occurrences = r.phantom-after.history-after.finished, r.occurrences+after.finished
	t.Logf("clock off by %s for %s: history days %d -> %d, runs of future one-offs %d, finished one-offs %d -> %d, "+
		"alarm of running nodes after %s, of a new one after %s, recovered after %s", off,
		held.Round(time.Second), before.days, after.days, after.started, before.finished, after.finished,
		running.Round(time.Millisecond), started.Round(time.Millisecond), recovered.Round(time.Millisecond))
	t.Log(r)
	require.Equal(t, before, after)
	require.LessOrEqual(t, max(running, started), allowed(10*time.Second))
	require.LessOrEqual(t, recovered, allowed(10*time.Second))
	c.clean(r)
}
