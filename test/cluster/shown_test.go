package cluster_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
)

// The kinds of jobs whose numbers are compared, in turns.
const (
	plain       = iota
	fails       // a dead letter each second
	retries     // its first attempt fails
	overlapping // each second run is skipped
	held        // in a queue that is paused for a third of the time
	kinds
)

// longPeriods are those of jobs whose load is compared.
var longPeriods = []time.Duration{10 * time.Minute, time.Hour, 7 * time.Minute}

// shownJob makes the jobs of the test differ.
func (c *cluster) shownJob(i int, in *job.NewJob) {
	d := &in.Definition
	to := func(path string) {
		d.Target.Config = json.RawMessage(`{"url":"` + c.sink.url + path + `"}`)
	}
	switch i % kinds {
	case fails:
		to("/fail")
		d.Retry.MaxAttempts = 1
	case retries:
		to("/retry")
	case overlapping:
		to("/slow")
		d.Overlap = job.OverlapSkip
	case held:
		d.Queue = "held"
	}
}

// TestShownWhileKilled: while nodes are killed, what the API shows to people is what the ledger says. It never shows
// that no run is late while one has been late for more than 3 seconds. What a killed node had counted and not written is
// missing in statistics, and they say so.
func TestShownWhileKilled(t *testing.T) {
	t.Parallel()
	f := form{faults: 6, seconds: 15, jobs: 20}.long()
	s := newShown(t, f)
	half := f.faults / 2
	s.during(f, func(i int) {
		if i == half {
			s.c.killAll()
			return
		}
		s.c.kill(syscall.SIGKILL)
	})
	s.finish()
	s.statistics(true)
}

// TestShownWhileRestarted: nodes that stop in order lose nothing of the statistics.
func TestShownWhileRestarted(t *testing.T) {
	t.Parallel()
	f := form{faults: 4, seconds: 15, jobs: 20}.long()
	s := newShown(t, f)
	s.during(f, func(int) { s.c.kill(syscall.SIGTERM) })
	s.finish()
	s.statistics(false)
}

// killAll kills all nodes at once, and starts as many when their sessions have expired.
func (c *cluster) killAll() {
	for _, n := range c.nodes {
		if err := n.end(syscall.SIGKILL); err == nil {
			c.t.Error("a killed node ended without an error")
		}
	}
	c.kills += len(c.nodes)
	<-time.After(ttl)
	for i := range c.nodes {
		c.nodes[i] = c.start()
	}
	c.publish()
}

// shown compares what nodes show with the ledger.
type shown struct {
	c *cluster
	u *caller

	mu       sync.Mutex
	asked    map[string]int // answers by path
	late     int            // overviews that had to have late runs
	silent   int            // requests without an answer
	failures int
}

func newShown(t *testing.T, f form) *shown {
	t.Helper()
	c := newCluster(t, setup{nodes: 3, api: true})
	s := &shown{c: c, u: c.caller(10 * time.Second), asked: map[string]int{}}
	c.create(f.jobs, f.duration(), c.shownJob)
	for i, period := range longPeriods {
		in := job.CreateParams{Namespace: c.jobs[0].Namespace, Actor: "test", Definition: c.jobs[0].Definition}
		in.Definition.Name, in.Definition.Schedule.Every = fmt.Sprintf("long-%d", i), period.String()
		in.Definition.Schedule.EndAt = time.Time{}
		_, err := c.store.CreateJob(t.Context(), in)
		require.NoError(t, err)
	}
	return s
}

// during looks at what is shown while faults happen, and pauses a queue in the middle.
func (s *shown) during(f form, fault func(i int)) {
	ctx, stop := context.WithCancel(s.c.t.Context())
	var viewers, faults sync.WaitGroup
	for _, look := range []func(context.Context){s.overview, s.overview, s.job, s.load} {
		viewers.Go(func() {
			for ctx.Err() == nil {
				look(ctx)
				<-time.After(time.Duration(50+rand.IntN(100)) * time.Millisecond)
			}
		})
	}
	faults.Go(func() {
		for i, verb := range []string{"pause", "resume"} {
			<-time.After(f.duration() / 3)
			wait, cancel := context.WithTimeout(ctx, time.Minute)
			err := until(wait, func() bool {
				got, _ := s.u.call(ctx, "POST", "/queues/held:"+verb, "")
				return got == acknowledged
			})
			cancel()
			if err != nil {
				s.c.t.Errorf("%d: %s the queue: %v", i, verb, err)
			}
		}
	})
	every(f.duration(), f.faults, fault)
	faults.Wait()
	stop()
	viewers.Wait()
}

// wrong reports what is shown and not so. A hundred of one kind help no more than ten.
func (s *shown) wrong(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failures++; s.failures <= 10 {
		s.c.t.Errorf(format, args...)
	}
}

// get reads from any node. It returns false if that has no answer: its node was killed, is starting, or lost the database.
func (s *shown) get(ctx context.Context, path string, into any) bool {
	got, text := s.u.call(ctx, "GET", path, "")
	s.mu.Lock()
	defer s.mu.Unlock()
	if got != acknowledged || json.Unmarshal(text, into) != nil {
		s.silent++
		return false
	}
	what, _, _ := strings.Cut(path, "?")
	s.asked[what[strings.LastIndex(what, "/"):]]++
	return true
}

// query reads one row as the owner of the database. After the test has ended, it returns false.
func (s *shown) query(ctx context.Context, sql string, args []any, into ...any) bool {
	err := s.c.pool.QueryRow(ctx, sql, args...).Scan(into...)
	if err != nil && ctx.Err() == nil {
		s.wrong("%v", err)
	}
	return err == nil
}
