package cluster_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/clock/clocktest"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/pgtest"
	"github.com/belfry-dev/belfry/internal/postgres"
	"github.com/belfry-dev/belfry/internal/schedule"
)

// ttl is the TTL of a node's session.
const ttl = 5 * time.Second

// patience is how long a test that does not judge by time waits for what must happen.
const patience = 10 * time.Minute

// steady are settings of nodes that do not die: they lose no session when the machine is suspended for a while.
var steady = []string{"BELFRY_SESSION_TTL=1m", "BELFRY_LOOK_AHEAD=2m"}

// number reads a setting of the long form.
func number(name string, short int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return short
}

// form is the size of a test: the number of faults, the seconds, and the jobs that are due every second.
type form struct{ faults, seconds, jobs int }

// long reads the settings of the long form.
func (f form) long() form {
	return form{number("KILLS", f.faults), number("SECONDS", f.seconds), number("JOBS", f.jobs)}
}

func (f form) duration() time.Duration { return time.Duration(f.seconds) * time.Second }

// allowed returns how long something may take. The short form runs together with all other tests, so it may take three
// times as long, and longer if the machine is busy.
func allowed(d time.Duration) time.Duration {
	if os.Getenv("KILLS") == "" && os.Getenv("FAILOVERS") == "" {
		return clocktest.Allow(3 * d)
	}
	return d
}

// setup says how to create a cluster.
type setup struct {
	nodes int
	named bool      // each node has its own name
	own   bool      // its own PostgreSQL, which the test can kill
	ha    bool      // its own PostgreSQL with two synchronous standbys
	async bool      // the standbys are asynchronous
	clock bool      // its own PostgreSQL, whose clock the test can set
	on    *database // a PostgreSQL that the test has created
	small bool      // its own PostgreSQL on a small disk

	patroni bool // its own PostgreSQL with two synchronous standbys, managed by Patroni

	slow func(*rand.Rand) time.Duration

	proxied bool          // a proxy between nodes and database
	rtt     time.Duration // that the proxy adds
	api     bool          // clients talk to the nodes
	env     []string      // additional, for the nodes
	program string        // of the nodes; empty: the one that is tested
}

// cluster has nodes, a database, a sink, and jobs that are due every second until an end.
type cluster struct {
	setup
	t     *testing.T
	pool  *pgxpool.Pool // as the owner
	store *pgtest.Store
	db    *database // nil for the one that all tests share
	group *replicas // nil if the database has no standbys
	ruled *patroni  // nil if Patroni does not manage it
	proxy *proxy    // nil if there is none
	disk  string    // the small one
	url   string    // of the database, for nodes
	sink  *sink
	log   string
	nodes []*node
	made  int                      // number of nodes so far
	bases atomic.Pointer[[]string] // of the nodes' APIs
	jobs  []job.Job
	end   time.Time
	kills int
	// When nodes were killed one by one.
	killed []time.Time
	stops  figures // how long killed nodes took to end
}

func newCluster(t *testing.T, s setup) *cluster {
	t.Helper()
	seed := uint64(number("SEED", int(rand.Int32())))
	t.Logf("SEED=%d", seed)
	if s.slow == nil {
		s.slow = nowAndThen
	}
	c := &cluster{setup: s, t: t, sink: newSink(t, seed, s.slow), log: filepath.Join(t.TempDir(), "nodes.log")}
	switch {
	case s.ha || s.async:
		c.group = newReplicas(t, s.ha)
		c.migrate(c.group.primary.database, c.group.urlOf("belfry", false))
		c.url = c.group.urlOf(serverRole, true)
	case s.patroni:
		c.ruled = newPatroni(t)
		c.group = c.ruled.replicas
		c.migrate(c.group.primary.database, c.group.urlOf("belfry", false))
		c.url = c.group.urlOf(serverRole, false)
	case s.clock:
		c.db = newDatabaseWithClock(t)
		c.url = c.migrate(c.db, c.db.url())
	case s.small:
		c.db, c.disk = newSmallDatabase(t)
		c.url = c.migrate(c.db, c.db.url())
	case s.on != nil:
		c.db = s.on
		c.url = c.migrate(c.db, c.db.url())
	case s.own || pooled():
		c.db = newDatabase(t)
		c.url = c.migrate(c.db, c.db.url())
	default:
		c.url, c.pool = pgtest.ServerURL(t)
	}
	c.store = pgtest.NewStore(c.pool)
	if pooled() && c.group == nil {
		c.url = throughPgBouncer(t, c.url)
	}
	if s.proxied {
		c.proxy, c.url = through(t, c.url, s.rtt/2)
	}
	require.NoError(t, c.store.CreateHistory(t.Context(), 1))
	t.Cleanup(func() {
		c.stop()
		keepLog(t, "nodes", c.log)
	})
	for range s.nodes {
		c.nodes = append(c.nodes, c.start())
	}
	c.publish()
	return c
}

// keepLog keeps a log of a failed test and shows its last lines: few, because before them is what failed.
func keepLog(t *testing.T, name, path string) {
	t.Helper()
	if !t.Failed() {
		return
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Log(err)
		return
	}
	kept, err := os.CreateTemp("", fmt.Sprintf("belfry-%s-%s-*.log", strings.ReplaceAll(t.Name(), "/", "-"), name))
	if err != nil {
		t.Log(err)
		return
	}
	_, err = kept.Write(text)
	if err = errors.Join(err, kept.Close()); err != nil {
		t.Log(err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	t.Logf("%s ends with:\n%s", kept.Name(), strings.Join(lines[max(0, len(lines)-5):], "\n"))
}

// migrate creates the schema, connects as the owner, and returns the URL for nodes.
func (c *cluster) migrate(d *database, owner string) string {
	c.t.Helper()
	_, err := postgres.Migrate(c.t.Context(), d.url(), postgres.MigrateParams{})
	require.NoError(c.t, err)
	c.pool, err = pgxpool.New(c.t.Context(), owner)
	require.NoError(c.t, err)
	c.t.Cleanup(c.pool.Close)
	return d.serverURL(c.t)
}

// publish gives clients the addresses of the nodes.
func (c *cluster) publish() {
	var bases []string
	for _, n := range c.nodes {
		bases = append(bases, "http://"+n.listen+"/api/v1")
	}
	c.bases.Store(&bases)
}

// start starts a node. All have the same name, which decides nothing, unless the test must distinguish them.
func (c *cluster) start() *node {
	name := "one-name-for-all"
	if c.named {
		name = fmt.Sprintf("node-%d", c.made)
	}
	c.made++
	listen := "127.0.0.1:0"
	if c.api {
		listen = fmt.Sprintf("127.0.0.1:%d", freePort(c.t))
	}
	n := &node{program: cmp.Or(c.program, binary), name: name, listen: listen}
	require.NoError(c.t, n.start(c.url, c.log, c.env...))
	return n
}

func (c *cluster) stop() {
	for _, n := range c.nodes {
		_ = n.end(syscall.SIGKILL)
	}
	c.nodes = nil
}

// now is the time by the database clock.
func (c *cluster) now() (now time.Time) {
	c.t.Helper()
	require.NoError(c.t, c.pool.QueryRow(c.t.Context(), `SELECT clock_timestamp()`).Scan(&now))
	return now
}

// create creates jobs that are due every second until the end. Every run must happen, however late. They are created
// together, because one after another they would take much of the time until the end on a busy machine.
func (c *cluster) create(n int, d time.Duration, edit ...func(int, *job.NewJob)) {
	c.t.Helper()
	c.end = c.now().Add(d).Truncate(time.Second)
	in := make([]job.NewJob, n)
	for i := range in {
		in[i].Definition = job.Definition{
			Name: fmt.Sprintf("job-%d", i), Schedule: schedule.Spec{Every: "1s", EndAt: c.end},
			Target: job.Target{Kind: "http", Config: json.RawMessage(`{"url":"` + c.sink.url + `"}`)},
			Policy: job.Policy{
				Overlap: job.OverlapAllow, Timeout: job.Duration(10 * time.Second),
				Retry: job.Retry{MaxAttempts: 100, Backoff: job.BackoffNone},
				Missed: job.Missed{
					Policy: job.MissedAll, CatchUpWindow: job.Duration(time.Hour), Max: 10_000,
					Pace: job.Duration(time.Millisecond),
				},
			},
		}
		for _, e := range edit {
			e(i, &in[i])
		}
	}
	for part := range slices.Chunk(in, 100) {
		made, err := c.store.CreateJobs(c.t.Context(),
			job.BulkParams{Namespace: access.DefaultNamespace, Actor: "test", Jobs: part})
		require.NoError(c.t, err)
		for _, m := range made {
			require.NoError(c.t, m.Err)
			c.jobs = append(c.jobs, m.Job)
		}
	}
}

// unhurried lets attempts last, because those that time out on a busy machine are repeated.
func unhurried(_ int, in *job.NewJob) { in.Definition.Timeout = job.Duration(5 * time.Minute) }

// spread makes runs start all over the second and not only at its beginning, so that the time until the next start is a
// useful measurement.
func spread(_ int, in *job.NewJob) { in.Definition.Schedule.Jitter = "1s" }

// every calls a fault n times, evenly over d.
func every(d time.Duration, n int, fault func(i int)) {
	tick := time.NewTicker(d / time.Duration(n))
	defer tick.Stop()
	for i := range n {
		<-tick.C
		fault(i)
	}
}

// endAll stops all nodes in order.
func (c *cluster) endAll() {
	c.t.Helper()
	for _, n := range c.nodes {
		if err := n.end(syscall.SIGTERM); !early(err) {
			assert.NoError(c.t, err)
		}
	}
	c.nodes = nil
}

// early is whether a process was terminated before it listened to signals. On a busy machine that takes a while.
func early(err error) bool {
	exit, ok := errors.AsType[*exec.ExitError](err)
	return ok && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGTERM
}

// kill ends a random node with a signal and starts another one.
func (c *cluster) kill(signal syscall.Signal) {
	i := rand.IntN(len(c.nodes))
	begun := clock.Elapsed()
	c.killed = append(c.killed, clock.Now())
	err := c.nodes[i].end(signal)
	c.stops = append(c.stops, clock.Elapsed()-begun)
	if signal == syscall.SIGTERM && err != nil && !early(err) {
		c.t.Errorf("a node that was asked to stop ended with %v", err)
	}
	c.nodes[i] = c.start()
	c.publish()
	c.kills++
}

// killAtRandom kills nodes at random times. Runs are due at full seconds, so nodes that are killed at equal intervals are
// often killed at the same time after that: always while runs are in flight, or never.
func (c *cluster) killAtRandom(f form) {
	every(f.duration(), f.faults, func(int) {
		<-time.After(rand.N(f.duration() / time.Duration(f.faults)))
		c.kill(syscall.SIGKILL)
	})
}

// remaining describes the work that is left until $1, among runs that are due before $2. It is empty if nothing is.
const remaining = `
WITH open AS (
    SELECT r.state, r.run_at, s.expires_at FROM run r LEFT JOIN session s ON s.id = r.session_id WHERE r.due_at < $2)
SELECT CASE
    WHEN runs + cursors + early = 0 THEN ''
    ELSE format('%s runs (%s), %s cursors', runs, states, cursors) END
FROM (
    SELECT
        (SELECT count(*) FROM open) AS runs,
        (SELECT count(*) FROM cursor WHERE next_due_at < $1) AS cursors,
        (now() < $1)::int AS early,
        (SELECT string_agg(format('%s in state %s, sessions expire at %s, to run from %s', n, state, expires_at, run_at), '; ')
         FROM (SELECT state, expires_at, min(run_at) AS run_at, count(*) AS n FROM open GROUP BY 1, 2) s) AS states) x`

// finish waits until the last due time has passed and no work is left. The checker finds what remains.
func (c *cluster) finish(within time.Duration) {
	c.t.Helper()
	assert.NoError(c.t, c.ended("infinity", within))
}

// ended waits until the end of the jobs has passed and no run is left that is due before an instant.
func (c *cluster) ended(before any, within time.Duration) error {
	ctx, cancel := context.WithTimeout(c.t.Context(), within)
	defer cancel()
	var left string
	err := until(ctx, func() bool {
		err := c.pool.QueryRow(ctx, remaining, c.end, before).Scan(&left)
		return err == nil && left == ""
	})
	if err != nil {
		return fmt.Errorf("not done within %s: %s", within, left)
	}
	return nil
}
