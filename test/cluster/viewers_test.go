package cluster_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
)

// poll is a request that a screen of the web UI repeats.
type poll struct {
	path  string
	every time.Duration
}

// overviewPoll is part of every screen.
var overviewPoll = poll{"/overview", 2 * time.Second}

// screenPolls is what a viewer of each screen sends besides, as in web/src/screens.
func screenPolls(jobID string) map[string][]poll {
	const s = time.Second
	one := "/jobs/" + jobID
	return map[string][]poll{
		"Overview":     {},
		"Jobs":         {{"/jobs?include=recent&page_size=50", 5 * s}},
		"Job":          {{one + "?include=recent", 5 * s}, {one + "/timeline", 5 * s}},
		"Runs":         {{"/runs?page_size=50", 5 * s}},
		"Dead letters": {{"/dead-letters:summary?by=cause", 5 * s}},
		"Load":         {{"/load", 30 * s}},
		"Queues":       {{"/queues?include=counts&page_size=100", 2 * s}},
		"Cluster":      {{"/cluster", 2 * s}, {"/schedules:broken", 10 * s}},
		"Operations":   {{"/operations?page_size=50", 2 * s}},
		"Audit":        {{"/audit?page_size=50", 5 * s}},
	}
}

// TestMeasureViewers compares the CPU time of a node and the lateness of its runs with 50 viewers of the web UI and
// with none, in turns.
func TestMeasureViewers(t *testing.T) {
	if os.Getenv("BELFRY_VIEWERS") == "" {
		t.Skip("set BELFRY_VIEWERS to the number of viewers, such as 50")
	}
	viewers, rounds := number("BELFRY_VIEWERS", 50), number("ROUNDS", 4)
	phase := time.Duration(number("SECONDS", 15)) * time.Second
	c := newCluster(t, setup{nodes: 1, api: true, slow: immediately})
	c.create(number("JOBS", 200), time.Duration(2*rounds+2)*phase+10*time.Second, spread)
	u := c.caller(10 * time.Second)
	wait, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	require.NoError(t, until(wait, func() bool { return len(c.sink.all()) > 5*len(c.jobs) }), "warm")
	screens := screenPolls(job.FormatJobID(c.jobs[0].ID))
	for _, name := range sortedNames(screens) {
		sum := time.Minute / overviewPoll.every
		for _, p := range screens[name] {
			sum += time.Minute / p.every
		}
		t.Logf("%-12s %3d requests a minute, %d without input for a minute, 0 if hidden", name, sum, sum/5)
	}
	var cpu, requests [2]time.Duration
	var late [2]figures
	for range rounds {
		for with := range 2 {
			stop, sent := func() {}, new(atomic.Int64)
			if with == 1 {
				stop = u.watch(screens, viewers, sent)
			}
			began, before := c.now(), c.nodes[0].cpu(t)
			<-time.After(phase)
			cpu[with] += c.nodes[0].cpu(t) - before
			stop()
			requests[with] += time.Duration(sent.Load())
			late[with] = append(late[with], c.latenessSince(began)...)
		}
	}
	total := time.Duration(rounds) * phase
	for with, name := range []string{"no viewers", fmt.Sprintf("%d viewers", viewers)} {
		t.Logf("%-12s %5.1f requests/s, CPU %4.1f %% of a core, lateness p50 %s p99 %s", name,
			float64(requests[with])/total.Seconds(), 100*cpu[with].Seconds()/total.Seconds(),
			late[with].percentile(50).Round(100*time.Microsecond), late[with].percentile(99).Round(100*time.Microsecond))
	}
	t.Logf("ratio of CPU %.3f, of lateness p99 %.2f", cpu[1].Seconds()/cpu[0].Seconds(),
		late[1].percentile(99).Seconds()/late[0].percentile(99).Seconds())
}

func sortedNames(screens map[string][]poll) (out []string) {
	for _, name := range []string{
		"Overview", "Jobs", "Job", "Runs", "Dead letters", "Load", "Queues", "Cluster", "Operations", "Audit",
	} {
		if _, ok := screens[name]; ok {
			out = append(out, name)
		}
	}
	return out
}

// cpu is the time that a process has computed so far.
func (n *node) cpu(t *testing.T) time.Duration {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", n.cmd.Process.Pid))
	require.NoError(t, err)
	fields := strings.Fields(string(text[strings.LastIndex(string(text), ")"):]))
	ticks := 0
	for _, field := range fields[12:14] { // user and system, of 100 a second
		v, err := strconv.Atoi(field)
		require.NoError(t, err)
		ticks += v
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// latenessSince is how long after its run time the sink received each run that was due since an instant.
func (c *cluster) latenessSince(at time.Time) (out figures) {
	c.t.Helper()
	received := map[string]time.Time{}
	for _, x := range c.sink.since(at) {
		received[x.run] = x.received
	}
	rows, err := c.pool.Query(c.t.Context(), `SELECT job_id, due_at, seq, run_at FROM run_history WHERE run_at >= $1`, at)
	require.NoError(c.t, err)
	defer rows.Close()
	for rows.Next() {
		var k job.Key
		var runAt time.Time
		require.NoError(c.t, rows.Scan(&k.Job, &k.DueAt, &k.Seq, &runAt))
		if got, ok := received[job.FormatRunID(k)]; ok {
			out = append(out, got.Sub(runAt))
		}
	}
	require.NoError(c.t, rows.Err())
	return out
}

// watch starts viewers, spread over the screens, each with a key of its own.
func (u *caller) watch(screens map[string][]poll, viewers int, sent *atomic.Int64) (stop func()) {
	u.c.t.Helper()
	ctx, cancel := context.WithCancel(u.c.t.Context())
	var all sync.WaitGroup
	names := sortedNames(screens)
	for i := range viewers {
		_, secret, err := u.c.store.CreateKey(ctx, access.KeyParams{
			Namespace: access.DefaultNamespace, Name: "viewer-" + uuid.NewString(), Role: access.Admin, Actor: "test",
		})
		require.NoError(u.c.t, err)
		one := *u
		one.key = secret
		for j, p := range append([]poll{overviewPoll}, screens[names[i%len(names)]]...) {
			all.Go(func() { one.repeat(ctx, p, time.Duration(i*37+j*11)*time.Millisecond%p.every, sent) })
		}
	}
	return func() {
		cancel()
		all.Wait()
	}
}

// repeat sends a request again and again, with the ETag of the last answer.
func (u *caller) repeat(ctx context.Context, p poll, after time.Duration, sent *atomic.Int64) {
	etag := ""
	for wait := after; ; wait = p.every {
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, u.anyNode()+p.path, http.NoBody)
		if err != nil {
			return
		}
		r.Header.Set("Authorization", "Bearer "+u.key)
		if etag != "" {
			r.Header.Set("If-None-Match", etag)
		}
		resp, err := u.http.Do(r)
		if err != nil {
			continue
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		if sent.Add(1); resp.StatusCode >= 400 {
			u.c.t.Errorf("%s: status %d", p.path, resp.StatusCode)
		}
		etag = resp.Header.Get("ETag")
	}
}
