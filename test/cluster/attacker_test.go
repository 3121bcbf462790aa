package cluster_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
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
	jobs      int // so far
}

func newAttacker(t *testing.T, c *cluster, phase time.Duration) *attacker {
	t.Helper()
	a := &attacker{t: t, c: c, namespace: uuid.New(), phase: phase}
	_, err := c.pool.Exec(t.Context(), `INSERT INTO namespace (id, name) VALUES ($1, 'attacker')`, a.namespace)
	require.NoError(t, err)
	return a
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

// listen serves each connection to a port of all addresses of this machine.
func (a *attacker) listen(serve func(net.Conn)) (port int, stop func()) {
	a.t.Helper()
	l, err := new(net.ListenConfig).Listen(a.t.Context(), "tcp4", "0.0.0.0:0")
	require.NoError(a.t, err)
	var mu sync.Mutex
	all, ended := []net.Conn{}, false
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			if all = append(all, conn); ended {
				_ = conn.Close()
			}
			mu.Unlock()
			go serve(conn)
		}
	}()
	return l.Addr().(*net.TCPAddr).Port, func() {
		_ = l.Close()
		mu.Lock()
		defer mu.Unlock()
		ended = true
		for _, conn := range all {
			_ = conn.Close()
		}
	}
}

func (a *attacker) silentHosts() (stop func()) {
	port, stop := a.listen(func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })
	end := a.c.now().Add(a.phase)
	a.create(number("HOSTS", 100), func(i int, name string) job.Definition {
		return anyDefinition(name, "http", fmt.Sprintf(`{"url":"http://127.1.%d.%d:%d/"}`, i/250, i%250+1, port), end)
	})
	return stop
}

// unconfirmedBroker speaks as much of the protocol of NATS as it takes to receive messages, and confirms none.
func unconfirmedBroker(c net.Conn) {
	_, _ = fmt.Fprint(c, `INFO {"headers":true,"max_payload":1048576}`+"\r\n")
	for lines := bufio.NewScanner(c); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "PING") {
			_, _ = fmt.Fprint(c, "PONG\r\n")
		}
	}
}

func (a *attacker) unconfirmed() (stop func()) {
	port, stop := a.listen(unconfirmedBroker)
	end := a.c.now().Add(a.phase)
	a.create(number("UNCONFIRMED", 100), func(_ int, name string) job.Definition {
		return anyDefinition(name, "nats", fmt.Sprintf(`{"servers":["127.0.0.1:%d"],"subject":"a"}`, port), end)
	})
	return stop
}

func (a *attacker) settings() (stop func()) {
	port, stop := a.listen(unconfirmedBroker)
	end := a.c.now().Add(a.phase)
	a.create(number("SETTINGS", 50), func(i int, name string) job.Definition {
		config := fmt.Sprintf(`{"servers":["127.2.%d.%d:%d"],"subject":"a","user":"u%d"}`, i/250, i%250+1, port, i)
		return anyDefinition(name, "nats", config, end)
	})
	return stop
}

// flood is runs that are due at the same time, at a host that takes a while for each.
func (a *attacker) flood() (stop func()) {
	port, stop := a.listen(func(c net.Conn) {
		for r := bufio.NewReader(c); ; {
			request, err := http.ReadRequest(r)
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, request.Body)
			<-time.After(50 * time.Millisecond)
			_, _ = fmt.Fprint(c, "HTTP/1.1 204 No Content\r\n\r\n")
		}
	})
	n := number("FLOOD", 500)
	due := a.c.now().Add(time.Duration(3+n/1000) * time.Second).Truncate(time.Second)
	a.create(n, func(i int, name string) job.Definition {
		d := anyDefinition(name, "http", fmt.Sprintf(`{"url":"http://127.1.0.%d:%d/"}`, i%10+1, port), time.Time{})
		d.Schedule = schedule.Spec{At: due.Format(time.RFC3339)}
		return d
	})
	a.t.Logf("%d runs were created %s before they are due", n, due.Sub(a.c.now()).Round(time.Second))
	<-time.After(due.Sub(a.c.now()))
	return stop
}

// client returns a client with an address and a key of its own.
func (a *attacker) client(i int) *caller {
	a.t.Helper()
	_, secret, err := a.c.store.CreateKey(a.t.Context(), access.KeyParams{
		Namespace: a.namespace, Name: uuid.NewString(), Role: access.Admin, Actor: "test",
	})
	require.NoError(a.t, err)
	return &caller{c: a.c, key: secret, deadline: time.Minute, http: &http.Client{Transport: &http.Transport{
		DialContext: addressed(i).DialContext, MaxIdleConnsPerHost: 1000,
	}}}
}

// addressed dials from the i-th address of this machine.
func addressed(i int) *net.Dialer {
	return &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 3, byte(i/250), byte(i%250+1))}}
}

// repeat calls something again and again, n times at the same time, until stop. It waits a second after each call, as
// answers to rejected requests ask for: an attack must not slow down a node by using up the CPU time of the machine that
// it shares with the attacker.
func (a *attacker) repeat(n int, once func(ctx context.Context, i int)) (stop func()) {
	ctx, cancel := context.WithCancel(a.t.Context())
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			for ctx.Err() == nil {
				once(ctx, i)
				select {
				case <-ctx.Done():
				case <-time.After(time.Second):
				}
			}
		})
	}
	return func() {
		cancel()
		all.Wait()
	}
}

func (a *attacker) longPolls() (stop func()) {
	keys, polls := number("KEYS", 5), number("POLLS", 10)
	var clients []*caller
	for i := range keys {
		clients = append(clients, a.client(i))
	}
	sessions := make([]string, keys*polls) // their runs, of which there are none, need no heartbeat
	return a.repeat(keys*polls, func(ctx context.Context, i int) {
		u := clients[i%keys]
		path := fmt.Sprintf("/queues/q%d/sessions", i%keys)
		var session struct{ ID string }
		if sessions[i] == "" {
			_, text := u.call(ctx, http.MethodPost, path, `{"name":"w"}`)
			if json.Unmarshal(text, &session) == nil {
				sessions[i] = session.ID
			}
			return
		}
		claim := fmt.Sprintf("%s/%s:claim", path, sessions[i])
		if got, text := u.call(ctx, http.MethodPost, claim, `{"handlers":["h"],"max":1,"wait_ms":20000}`); got == refused &&
			strings.Contains(string(text), "session_expired") {
			sessions[i] = ""
		}
	})
}

// dial connects to one of the nodes.
func (a *attacker) dial(ctx context.Context, i int) (net.Conn, error) {
	return addressed(i%200).DialContext(ctx, "tcp", a.c.nodes[i%len(a.c.nodes)].listen)
}

// idle opens connections that say nothing, and opens those again that a node closes.
func (a *attacker) idle() (stop func()) {
	return a.repeat(number("IDLE", 200), func(ctx context.Context, i int) {
		conn, err := a.dial(ctx, i)
		if err != nil {
			return
		}
		defer func() { _ = conn.Close() }()
		end := context.AfterFunc(ctx, func() { _ = conn.Close() })
		defer end()
		_, _ = conn.Read(make([]byte, 1))
	})
}

// bodies sends bodies, one byte after the other.
func (a *attacker) bodies() (stop func()) {
	u := a.client(0)
	return a.repeat(number("BODIES", 20), func(ctx context.Context, i int) {
		conn, err := a.dial(ctx, i)
		if err != nil {
			return
		}
		defer func() { _ = conn.Close() }()
		_, err = fmt.Fprintf(conn, "POST /api/v1/jobs HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer %s\r\n"+
			"Content-Type: application/json\r\nContent-Length: 1000000\r\n\r\n", u.key)
		for err == nil && ctx.Err() == nil {
			_, err = fmt.Fprint(conn, " ")
			<-time.After(200 * time.Millisecond)
		}
	})
}
