package cluster_test

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/schedule"
)

const (
	podSlots = 32
	maxPods  = 20
	podStart = 10 * time.Second // until a new pod works
	podWork  = 200 * time.Millisecond
	podDrain = 5 * time.Second
)

// scaler is an autoscaler: a number of the API, divided by what one pod does of it.
type scaler struct {
	name  string
	value func(counts map[string]any) float64
	pod   float64
}

// TestMeasureAutoscale: many runs are due at once, and workers are scaled by desired_slots or by the number of due runs,
// in turns. Pods take a while to start. What the scalers know is all that differs.
func TestMeasureAutoscale(t *testing.T) {
	jobs := number("BELFRY_AUTOSCALE", 0)
	if jobs == 0 {
		t.Skip("set BELFRY_AUTOSCALE to the number of jobs, such as 20000; make measure-autoscale")
	}
	pods := min(float64(jobs)*podWork.Seconds()/podDrain.Seconds()/podSlots, maxPods)
	field := func(name string) func(map[string]any) float64 {
		return func(counts map[string]any) float64 { return counts[name].(float64) }
	}
	p99 := map[string]figures{}
	for range 2 {
		for _, s := range []scaler{
			{"desired_slots", field("desired_slots"), podSlots}, {"due", field("due"), float64(jobs) / pods},
		} {
			late, ready := scaled(t, jobs, s)
			t.Logf("%s: lateness %s, %d pods ready when the runs were due", s.name, late.precise(), ready)
			p99[s.name] = append(p99[s.name], late.percentile(99))
			if s.name == "desired_slots" {
				require.GreaterOrEqual(t, float64(ready), pods*0.9, "pods are ready before the runs are due")
			}
		}
	}
	ratio := p99["desired_slots"].percentile(50).Seconds() / p99["due"].percentile(50).Seconds()
	t.Logf("p99 of lateness: %.2f of that with the number of due runs alone", ratio)
	require.LessOrEqual(t, ratio, 0.5)
}

// scaled lets jobs come due and returns how late they started, and how many pods were ready by then.
func scaled(t *testing.T, jobs int, s scaler) (late figures, ready int) {
	t.Helper()
	c := newCluster(t, setup{nodes: 1, api: true})
	defer c.stop()
	w, u := c.workers(), c.caller(time.Minute)
	p := &podSet{workers: w}
	defer p.stop()
	p.scale(1)
	create := func(name string, at time.Time, n int) {
		var all sync.WaitGroup
		for first := range 8 {
			all.Go(func() {
				for i := first; i < n; i += 8 {
					_, err := c.store.CreateJob(t.Context(), job.CreateParams{
						Namespace: access.DefaultNamespace, Actor: "test", Definition: job.Definition{
							Name: fmt.Sprintf("%s-%d", name, i), Queue: "work",
							Schedule: schedule.Spec{At: at.UTC().Format(time.RFC3339)},
							Target:   job.Target{Kind: job.WorkerKind, Config: json.RawMessage(`{"handler":"work"}`)},
						},
					})
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
	}
	// Some attempts before, so that their time is known.
	create("before", c.now().Add(5*time.Second), 50)
	require.Eventually(t, func() bool {
		var counted int
		require.NoError(t, c.pool.QueryRow(t.Context(),
			`SELECT coalesce(sum(attempts), 0) FROM stat_minute s JOIN queue q ON q.id = s.queue_id WHERE q.name = 'work'`).
			Scan(&counted))
		return counted >= 50
	}, 5*time.Minute, 100*time.Millisecond)
	due := c.now().Add(2*time.Minute + time.Duration(jobs)*2*time.Millisecond).Truncate(time.Second)
	create("many", due, jobs)
	require.True(t, c.now().Before(due.Add(-time.Minute)), "creating the jobs took too long")
	for ended := 0; ended < jobs+50; {
		got, text := u.call(t.Context(), "GET", "/queues/work?include=counts&drain="+podDrain.String(), "")
		require.Equal(t, acknowledged, got, string(text))
		var queue struct{ Counts map[string]any }
		require.NoError(t, json.Unmarshal(text, &queue))
		p.scale(min(maxPods, int((s.value(queue.Counts)+s.pod-1)/s.pod)))
		if ready == 0 && c.now().After(due) {
			ready = p.ready()
		}
		<-time.After(2 * time.Second)
		require.NoError(t, c.pool.QueryRow(t.Context(), `SELECT count(*) FROM run_history WHERE ended = 1`).Scan(&ended))
	}
	rows, err := c.pool.Query(t.Context(), `SELECT started_at - run_at FROM run_history WHERE run_at = $1`, due)
	require.NoError(t, err)
	defer rows.Close()
	for rows.Next() {
		var d time.Duration
		require.NoError(t, rows.Scan(&d))
		late = append(late, d)
	}
	require.NoError(t, rows.Err())
	require.Len(t, late, jobs)
	return late, ready
}

// podSet is the workers that an autoscaler has started. Within the time of a test it stops none.
type podSet struct {
	*workers
	mu     sync.Mutex
	asked  int
	began  []time.Duration
	timers []*time.Timer
	all    []*exec.Cmd
}

// scale asks for a number of pods. Those that are new work after podStart, and the first one immediately.
func (p *podSet) scale(pods int) {
	for ; p.asked < max(pods, 1); p.asked++ {
		after := podStart
		if p.asked == 0 {
			after = 0
		}
		p.timers = append(p.timers, time.AfterFunc(after, func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.all = append(p.all, p.start("", podSlots, "NOOP=1", "LINGER="+podWork.String()))
			p.began = append(p.began, clock.Elapsed())
		}))
	}
}

// ready returns how many pods have worked for a second.
func (p *podSet) ready() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, began := range p.began {
		if clock.Elapsed()-began > time.Second {
			n++
		}
	}
	return n
}

func (p *podSet) stop() {
	for _, timer := range p.timers {
		timer.Stop()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, cmd := range p.all {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	}
}
