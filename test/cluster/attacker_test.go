package cluster_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/schedule"
)

// attacker is a namespace that takes as much of the nodes as it can.
type attacker struct {
	t         *testing.T
	c         *cluster
	namespace uuid.UUID
	phase     time.Duration
	jobs      int       // so far
	began     time.Time // the last attack
	processes []*hostile
}

func newAttacker(t *testing.T, c *cluster, phase time.Duration) *attacker {
	t.Helper()
	a := &attacker{t: t, c: c, namespace: uuid.New(), phase: phase}
	_, err := c.pool.Exec(t.Context(), `INSERT INTO namespace (id, name) VALUES ($1, 'attacker')`, a.namespace)
	require.NoError(t, err)
	t.Cleanup(a.stop)
	return a
}

// order and effect are what a process of test/cluster/attacker reads and writes.
type order struct {
	Kind       string
	Count      int
	First, Net int
	Nodes      []string
	Keys       []string
}

type effect struct{ Port, Held, Done, Refused int }

// hostile is a process of test/cluster/attacker. It has the lowest priority, because a real attacker has a machine of
// its own. What nodes and database spend for it counts. NICE is for machines on which other programs run.
type hostile struct {
	cmd   *exec.Cmd
	input io.Closer
	ended chan struct{}

	mu   sync.Mutex
	now  effect
	most int // of what it held
}

// start starts a process, and waits until it has begun. It returns the port of its servers.
func (a *attacker) start(o order) (port int) {
	a.t.Helper()
	for _, n := range a.c.nodes {
		o.Nodes = append(o.Nodes, n.listen)
	}
	h := &hostile{cmd: exec.Command("nice", "-n", strconv.Itoa(number("NICE", 19)), attackers), ended: make(chan struct{})}
	h.cmd.Stderr = os.Stderr
	h.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // it does not outlive a killed test
	input, err := h.cmd.StdinPipe()
	require.NoError(a.t, err)
	output, err := h.cmd.StdoutPipe()
	require.NoError(a.t, err)
	require.NoError(a.t, h.cmd.Start())
	h.input = input
	a.processes = append(a.processes, h)
	begun := make(chan struct{})
	go func() {
		defer close(h.ended)
		for reports, first := json.NewDecoder(output), sync.OnceFunc(func() { close(begun) }); ; first() {
			var now effect
			if reports.Decode(&now) != nil {
				return
			}
			h.mu.Lock()
			h.now, h.most = now, max(h.most, now.Held)
			h.mu.Unlock()
		}
	}()
	require.NoError(a.t, json.NewEncoder(input).Encode(o))
	select {
	case <-begun:
	case <-h.ended:
		require.Fail(a.t, "a process of the attacker has ended")
	case <-time.After(time.Minute):
		require.Fail(a.t, "a process of the attacker does not begin")
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.now.Port
}

// effect adds up what the processes of the attack have counted so far, with the most that each has held.
func (a *attacker) effect() (sum effect) {
	for _, h := range a.processes {
		h.mu.Lock()
		sum.Held += h.most
		sum.Done += h.now.Done
		sum.Refused += h.now.Refused
		h.mu.Unlock()
	}
	return sum
}

// stop ends the processes of the attack.
func (a *attacker) stop() {
	for _, h := range a.processes {
		_ = h.input.Close()
		select {
		case <-h.ended:
			require.NoError(a.t, h.cmd.Wait())
		case <-time.After(10 * time.Second): // it has the lowest priority
			_ = h.cmd.Process.Kill()
			_ = h.cmd.Wait()
		}
	}
	a.processes = nil
}

// create creates jobs.
func (a *attacker) create(n int, define func(i int, name string) job.Definition) {
	a.t.Helper()
	const chunk = 1000
	for first := 0; first < n; first += chunk {
		order := job.BulkParams{Namespace: a.namespace, Actor: "test"}
		for i := first; i < min(first+chunk, n); i++ {
			a.jobs++
			order.Jobs = append(order.Jobs, job.NewJob{Definition: define(i, fmt.Sprintf("a-%d", a.jobs))})
		}
		made, err := a.c.store.CreateJobs(a.t.Context(), order)
		require.NoError(a.t, err)
		for _, m := range made {
			require.NoError(a.t, m.Err)
		}
	}
}

// clear removes what an attack has left. Its jobs have ended, and so have its servers and clients.
func (a *attacker) clear() {
	a.t.Helper()
	ctx, cancel := context.WithTimeout(a.t.Context(), 5*time.Minute)
	defer cancel()
	const pending, live = `
WITH pending AS (
    SELECT partition, job_id, due_at, seq FROM run
    WHERE state = 0 AND job_id IN (SELECT id FROM job WHERE namespace_id = $1) FOR UPDATE SKIP LOCKED)
DELETE FROM run USING pending p
WHERE (run.partition, run.job_id, run.due_at, run.seq) = (p.partition, p.job_id, p.due_at, p.seq)`, `
SELECT count(*) FROM run WHERE job_id IN (SELECT id FROM job WHERE namespace_id = $1)`
	require.NoError(a.t, until(ctx, func() bool {
		_, err := a.c.pool.Exec(ctx, pending, a.namespace)
		require.NoError(a.t, err)
		var left int
		require.NoError(a.t, a.c.pool.QueryRow(ctx, live, a.namespace).Scan(&left))
		return left == 0
	}), "runs of the attacker do not end")
}

// every creates jobs that have a run each second.
func (a *attacker) every(n int, kind string, config func(i int) string) {
	a.t.Helper()
	end := a.c.now().Add(a.phase)
	a.create(n, func(i int, name string) job.Definition { return anyDefinition(name, kind, config(i), end) })
}

func (a *attacker) silentHosts(n int) {
	port := a.start(order{Kind: "silent", Count: n, Net: 1})
	a.every(n, "http", func(i int) string {
		return fmt.Sprintf(`{"url":"http://127.1.%d.%d:%d/"}`, i/250, i%250+1, port)
	})
}

func (a *attacker) answered(n int) {
	port := a.start(order{Kind: "host", Count: 10, Net: 1})
	a.every(n, "http", func(i int) string { return fmt.Sprintf(`{"url":"http://127.1.0.%d:%d/"}`, i%10+1, port) })
}

func (a *attacker) unconfirmed(n int) {
	port := a.start(order{Kind: "broker", Count: 1, Net: 2})
	require.NoError(a.t, a.c.store.PutBroker(a.t.Context(), &access.Broker{
		Name: "silent", Kind: "nats", Config: access.BrokerConfig{Servers: []string{fmt.Sprintf("127.2.0.1:%d", port)}},
	}))
	a.every(n, "nats", func(int) string { return `{"broker":"silent","subject":"a"}` })
}

// flood is runs that are due at the same time, at hosts that take a while for each.
func (a *attacker) flood(n int) {
	port := a.start(order{Kind: "host", Count: 10, Net: 1})
	var due time.Time
	for lead := time.Duration(3+n/4000) * time.Second; !a.c.now().Before(due); lead *= 2 { // if the machine is slow
		due = a.c.now().Add(lead).Truncate(time.Second)
		a.create(n, func(i int, name string) job.Definition {
			d := anyDefinition(name, "http", fmt.Sprintf(`{"url":"http://127.1.0.%d:%d/"}`, i%10+1, port), time.Time{})
			d.Schedule = schedule.Spec{At: due.Format(time.RFC3339)}
			return d
		})
	}
	early := due.Sub(a.c.now())
	a.t.Logf("%d runs were created %s before they are due", n, early.Round(time.Second))
	<-time.After(early)
}

// keys creates API keys.
func (a *attacker) keys(n int) (secrets []string) {
	a.t.Helper()
	for range n {
		_, secret, err := a.c.store.CreateKey(a.t.Context(), access.KeyParams{
			Namespace: a.namespace, Name: uuid.NewString(), Role: access.Admin, Actor: "test",
		})
		require.NoError(a.t, err)
		secrets = append(secrets, secret)
	}
	return secrets
}

// longPolls waits for runs, of which there are none.
func (a *attacker) longPolls(n int) {
	keys := a.keys(number("KEYS", 5))
	a.create(len(keys), func(i int, name string) job.Definition { // their queues exist when a job uses them
		d := anyDefinition(name, "worker", `{"handler":"h"}`, time.Time{})
		d.Queue, d.Schedule = fmt.Sprintf("q%d", i), schedule.Spec{Every: "8760h"}
		return d
	})
	a.start(order{Kind: "polls", Count: n, Keys: keys})
}

// requests asks for sessions of queues that do not exist.
func (a *attacker) requests(n int) {
	a.start(order{Kind: "requests", Count: n, Keys: a.keys(number("KEYS", 5))})
}

// idle opens connections from several processes, because the number of open files of a process is limited.
func (a *attacker) idle(n int) {
	for first, chunk := 0, 8000; first < n; first += chunk {
		a.start(order{Kind: "idle", First: first, Count: min(chunk, n-first)})
	}
}

func (a *attacker) bodies(n int) { a.start(order{Kind: "bodies", Count: n, Keys: a.keys(1)}) }
