package cluster_test

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/job"
)

// workerTTL is the TTL of a worker's session.
const workerTTL = 3 * time.Second

// pulled turns the jobs of a cluster into jobs for workers.
func pulled(_ int, in *job.NewJob) {
	in.Definition.Queue = "work"
	in.Definition.Target = job.Target{Kind: job.WorkerKind, Config: json.RawMessage(`{"handler":"work"}`)}
}

// workers are processes of test/cluster/crasher.
type workers struct {
	c   *cluster
	key string
	log *os.File
	n   int
}

func (c *cluster) workers() *workers {
	c.t.Helper()
	_, secret, err := c.store.CreateKey(c.t.Context(), access.KeyParams{
		Namespace: access.DefaultNamespace, Name: "w", Role: access.Worker, Queues: []string{"work"}, Actor: "test",
	})
	require.NoError(c.t, err)
	log, err := os.OpenFile(c.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	require.NoError(c.t, err)
	c.t.Cleanup(func() { _ = log.Close() })
	return &workers{c: c, key: secret, log: log}
}

// start starts a worker that dies at a step, empty for none.
func (w *workers) start(step string, slots int, env ...string) *exec.Cmd {
	n := w.c.nodes[w.n%len(w.c.nodes)]
	w.n++
	cmd := exec.Command(crasher)
	cmd.Env = append(os.Environ(), append(env, "CRASH_AT="+step, "SLOTS="+strconv.Itoa(slots), "SINK="+w.c.sink.url,
		"BELFRY_SERVER=http://"+n.listen, "BELFRY_KEY="+w.key)...)
	cmd.Stdout, cmd.Stderr = w.log, w.log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	require.NoError(w.c.t, cmd.Start())
	return cmd
}

// stale sums the late reports that the nodes have counted.
func (w *workers) stale() (n int) {
	for _, node := range w.c.nodes {
		r, err := http.Get("http://" + node.listen + "/metrics")
		require.NoError(w.c.t, err)
		text, err := io.ReadAll(r.Body)
		_ = r.Body.Close()
		require.NoError(w.c.t, err)
		found := regexp.MustCompile(`(?m)^belfry_worker_reports_stale_total (\d+)`).FindSubmatch(text)
		require.NotNil(w.c.t, found)
		one, _ := strconv.Atoi(string(found[1]))
		n += one
	}
	return n
}

// steps are where workers die, one after the other.
var steps = []string{"opened", "beat", "answered", "claimed", "running", "effect", "completed"}

// TestWorkerCrashes (F26): workers die at each step, and some are suspended until their session has expired and then
// report. No run is lost, and late reports change nothing.
func TestWorkerCrashes(t *testing.T) {
	t.Parallel()
	f := form{faults: 40, seconds: 20, jobs: 30}.long()
	c := newCluster(t, setup{nodes: 2, api: true})
	c.create(f.jobs, f.duration(), pulled)
	w := c.workers()
	healthy := []*exec.Cmd{w.start("", 20), w.start("", 20)}
	var mu sync.Mutex
	crashes, paused, started := map[string]int{}, 0, 0
	var all sync.WaitGroup
	over := clock.Now().Add(f.duration())
	for range 4 {
		all.Go(func() {
			for {
				mu.Lock()
				if clock.Now().After(over) && started >= len(steps) { // on a slow machine too, each step has its turn
					mu.Unlock()
					return
				}
				total := paused
				for _, n := range crashes {
					total += n
				}
				if total >= f.faults {
					mu.Unlock()
					return
				}
				step := steps[started%len(steps)]
				started++
				cmd := w.start(step, 2)
				mu.Unlock()
				_ = cmd.Wait()
				mu.Lock()
				crashes[step]++
				mu.Unlock()
			}
		})
	}
	all.Go(func() { // one is suspended for longer than its session lasts, while it has runs
		for clock.Now().Before(over.Add(-2 * workerTTL)) {
			mu.Lock()
			cmd := w.start("", 2, "LINGER=1s")
			mu.Unlock()
			<-time.After(time.Second)
			_ = cmd.Process.Signal(syscall.SIGSTOP)
			<-time.After(workerTTL + 2*time.Second)
			_ = cmd.Process.Signal(syscall.SIGCONT)
			<-time.After(2 * time.Second)
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			mu.Lock()
			paused++
			mu.Unlock()
		}
	})
	all.Wait()
	c.finish(3 * time.Minute)
	for _, cmd := range healthy {
		require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
		require.NoError(t, cmd.Wait())
	}
	stale := w.stale()
	r := c.check()
	for _, n := range crashes {
		r.kills += n
	}
	t.Logf("crashes at %v, paused beyond their session %d, reports refused as stale %d, lateness %s", crashes, paused,
		stale, c.lateness())
	t.Log(r)
	var accepted int
	require.NoError(t,
		c.pool.QueryRow(t.Context(),
			`SELECT count(*) - count(DISTINCT (job_id, due_at, seq)) FROM run_history WHERE ended = 1`).Scan(&accepted))
	require.Zero(t, accepted, "two reports were accepted for one run")
	c.clean(r)
	for _, step := range steps {
		require.Positive(t, crashes[step], step)
	}
	// of the few workers that are suspended in the short form, each may find its session expired before it reports
	if r.kills >= 500 {
		require.Positive(t, stale, "nobody tried")
	}
	require.Positive(t, paused)
}
