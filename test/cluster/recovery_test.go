package cluster_test

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/schedule"
)

// recoveryEvery is how often each job is due, so that it has several late runs after an outage.
const recoveryEvery = 5 * time.Second

// recoveryPolicies are the groups of jobs. Each has a queue of its own, with its name.
var recoveryPolicies = []struct {
	name string
	edit func(i int, in *job.NewJob)
}{
	{"allow", func(_ int, in *job.NewJob) { in.Definition.Overlap = job.OverlapAllow }},
	{"skip", func(_ int, in *job.NewJob) { in.Definition.Overlap = job.OverlapSkip }},
	{"queue", func(_ int, in *job.NewJob) { in.Definition.Overlap = job.OverlapQueue }},
	{"queue_all", func(_ int, in *job.NewJob) { in.Definition.Overlap = job.OverlapQueueAll }},
	{"replace", func(_ int, in *job.NewJob) { in.Definition.Overlap = job.OverlapReplace }},
	{"deadline", func(_ int, in *job.NewJob) { in.Definition.Deadline = job.Duration(time.Hour) }},
	{"limit", func(_ int, in *job.NewJob) { in.Definition.Overlap = job.OverlapSkip }},
	{"key", func(i int, in *job.NewJob) {
		in.Definition.Concurrency = job.Concurrency{Key: fmt.Sprintf("key-%d", i%20), Max: 20}
	}},
	{"work", func(i int, in *job.NewJob) { pulled(i, in) }},
}

// recovery is one case: a rate of runs a second, a round trip to the database in milliseconds, and an outage in seconds.
type recovery struct{ rate, rtt, down int }

// recovered is how a group of jobs recovered.
type recovered struct {
	name    string
	most    int           // runs that were late at the same time
	after   time.Duration // from the end of the outage until nothing was late
	ended   bool
	growing bool
}

// TestRecovery: PostgreSQL is down for a while. Then the cluster works off what is late, whatever the policies of the jobs,
// and how far away the database is. The long form is make recovery.
func TestRecovery(t *testing.T) {
	t.Parallel()
	var lines []string
	cases, growing, worst := 0, 0, 0.0
	for _, rate := range numbers("RATES", 90) {
		for _, rtt := range numbers("RTT", 4) {
			for _, down := range numbers("DOWN", 8) {
				r := recovery{rate, rtt, down}
				t.Run(fmt.Sprintf("rate=%d,rtt=%d,down=%d", rate, rtt, down), func(t *testing.T) {
					groups := r.run(t)
					allow := max(groups[0].after, time.Second)
					for _, g := range groups {
						ratio := max(g.after, time.Second).Seconds() / allow.Seconds()
						cases++
						worst = max(worst, ratio)
						if g.growing || !g.ended {
							growing++
						}
						lines = append(lines, fmt.Sprintf("%6d %6d %6d  %-10s %8d %8.0f %6.1f  ended=%v growing=%v", rate, rtt, down,
							g.name, g.most, g.after.Seconds(), ratio, g.ended, g.growing))
					}
				})
			}
		}
	}
	t.Logf("%6s %6s %6s  %-10s %8s %8s %6s", "runs/s", "rtt ms", "down s", "policy", "late", "back s", "ratio")
	for _, l := range lines {
		t.Log(l)
	}
	t.Logf("recovery: cases=%d growing=%d worst_ratio=%.1f", cases, growing, worst)
	require.Zero(t, growing)
}

// numbers reads a list of numbers.
func numbers(name string, short ...int) (out []int) {
	for text := range strings.SplitSeq(os.Getenv(name), ",") {
		if n, err := strconv.Atoi(strings.TrimSpace(text)); err == nil {
			out = append(out, n)
		}
	}
	if len(out) == 0 {
		return short
	}
	return out
}

func (r recovery) run(t *testing.T) []recovered {
	t.Helper()
	c := newCluster(t, setup{
		nodes: 3, own: true, api: true, proxied: true, rtt: time.Duration(r.rtt) * time.Millisecond,
		env: []string{"BELFRY_SLOTS=1000"},
	})
	groups := r.create(c)
	c.awaitLate(groups, time.Minute, false) // until they run on time
	back := killDatabase(c, time.Duration(r.down)*time.Second)
	for i := range groups {
		groups[i] = recovered{name: groups[i].name}
	}
	begun := c.now()
	t.Logf("the database accepted connections at %s", back.Format(time.RFC3339))
	c.awaitLate(groups, allowed(time.Minute)+4*time.Duration(r.down)*time.Second, true)
	t.Logf("%+v, after %s", groups, c.now().Sub(begun).Round(time.Second))
	return groups
}

// create creates the jobs of all groups, which share the rate, and returns the groups. POLICIES selects some of them.
func (r recovery) create(c *cluster) (groups []recovered) {
	c.t.Helper()
	chosen := recoveryPolicies
	if names := os.Getenv("POLICIES"); names != "" {
		chosen = slices.DeleteFunc(slices.Clone(chosen), func(p struct {
			name string
			edit func(int, *job.NewJob)
		},
		) bool {
			return p.name != "allow" && !slices.Contains(strings.Split(names, ","), p.name)
		})
	}
	require.NoError(c.t, c.store.CreateQueue(c.t.Context(), job.QueueParams{
		Namespace: access.DefaultNamespace, Name: "limit", Limits: job.QueueLimits{MaxRunning: 500}, Actor: "test",
	}))
	each := max(1, r.rate*int(recoveryEvery/time.Second)/len(chosen))
	for _, p := range chosen {
		groups = append(groups, recovered{name: p.name})
		c.create(each, time.Hour, func(i int, in *job.NewJob) {
			d := &in.Definition
			d.Name, d.Queue, d.Policy = fmt.Sprintf("%s-%d", p.name, i), p.name, job.Policy{Overlap: job.OverlapAllow}
			d.Schedule = schedule.Spec{Every: recoveryEvery.String(), Jitter: recoveryEvery.String()}
			d.Target = job.Target{Kind: "noop"}
			p.edit(i, in)
		})
		if p.name == "work" {
			cmd := c.workers().start("", 200)
			c.t.Cleanup(func() {
				_ = cmd.Process.Kill()
				_ = cmd.Wait()
			})
		}
	}
	return groups
}

// lateRuns counts the runs of each queue that should have started two seconds ago, and cursors that are behind.
const lateRuns = `
SELECT q.name, count(r.queue_id), now(), (SELECT count(*) FROM cursor WHERE next_due_at < now())
FROM queue q LEFT JOIN (
    SELECT queue_id FROM run WHERE state = 0 /* pending */ AND run_at < now() - interval '2 s') r ON r.queue_id = q.id
GROUP BY q.name`

// awaitLate samples how many runs of each group are late, by the clock of the database, until none has been for a
// while, and notes when that began. A group that is not done then is growing if it has more late runs in the second half.
func (c *cluster) awaitLate(groups []recovered, within time.Duration, enforce bool) {
	c.t.Helper()
	const quiet = 5 // samples
	var first time.Time
	halves := map[string][2]int{}
	for zero := 0; zero < quiet; <-time.After(time.Second) {
		late, now, behind := c.lateNow()
		if now.IsZero() {
			continue // the database is not back yet
		}
		if first.IsZero() {
			first = now
		}
		zero++
		for i := range groups {
			g, n := &groups[i], late[groups[i].name]
			g.most = max(g.most, n)
			if n > 0 || behind > 0 {
				g.after, zero = now.Sub(first), 0
			}
			h := halves[g.name]
			h[min(1, int(2*now.Sub(first)/within))] += n
			halves[g.name] = h
			g.ended = n == 0
		}
		if now.Sub(first) > within {
			break
		}
	}
	for i := range groups {
		h := halves[groups[i].name]
		groups[i].growing = enforce && !groups[i].ended && h[1] > h[0]
	}
}

func (c *cluster) lateNow() (late map[string]int, now time.Time, behind int) {
	late = map[string]int{}
	rows, err := c.pool.Query(c.t.Context(), lateRuns)
	if err != nil {
		return late, time.Time{}, 0
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		var n int
		if rows.Scan(&name, &n, &now, &behind) != nil {
			return late, time.Time{}, 0
		}
		late[name] = n
	}
	return late, now, behind
}
