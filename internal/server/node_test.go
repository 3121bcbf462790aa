package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/engine"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/pgtest"
	"github.com/belfry-dev/belfry/internal/server"
	"github.com/belfry-dev/belfry/internal/target"
	"github.com/belfry-dev/belfry/internal/target/guard"
)

// node is an API and an engine on a database of their own, and a target whose response depends on the
// path.
type node struct {
	*bundle
	engine  *engine.Engine
	sink    string
	release chan struct{} // closing it ends calls of /hang

	mu   sync.Mutex
	seen []string // idempotency keys, in order
	sent []string // bodies, in order
	path map[string]int
}

// soleMember owns all partitions. It never renews its session, which outlives the test.
type soleMember struct{ session uuid.UUID }

func (m soleMember) Session() uuid.UUID { return m.session }
func (m soleMember) Valid() bool        { return true }
func (m soleMember) Owns(int16) bool    { return true }
func (m soleMember) Owned() []int16 {
	out := make([]int16, job.Partitions)
	for i := range out {
		out[i] = int16(i)
	}
	return out
}

// setupNode returns a node whose engine is not started.
func setupNode(t *testing.T) *node {
	t.Helper()
	return setupNodeOn(t, pgtest.New(t))
}

// setupNodeOn returns a node on a database.
func setupNodeOn(t *testing.T, pool *pgxpool.Pool) *node {
	t.Helper()
	n := &node{
		bundle: &bundle{t: t, pool: pool}, release: make(chan struct{}),
		path: map[string]int{"/ok": 200, "/no": 400, "/later": 503, "/hang": 200},
	}
	n.store = pgtest.NewStore(pgtest.AsServer(t, n.pool))
	sink := httptest.NewServer(http.HandlerFunc(n.answer))
	t.Cleanup(sink.Close)
	n.sink = sink.URL

	session, now := n.store.Own(t)
	m, bound := soleMember{session}, &clock.Bound{}
	bound.Set(now)
	targets := map[string]engine.Target{}
	connect, err := guard.New(guard.Options{Allow: []string{"127.0.0.0/8"}})
	require.NoError(t, err)
	for kind, made := range target.New(target.Options{Guard: connect}) {
		targets[kind] = made
	}
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	n.engine = engine.New(engine.Options{
		Planner: n.store, Claimer: n.store, Completer: n.store, Member: m, Bound: bound, Log: log, Targets: targets,
		LookAhead: 5 * time.Second, Slots: 20, Queues: n.store, Limits: n.store,
	})
	web := httptest.NewServer(server.New(server.Options{
		Keys: n.store, Jobs: n.store, Verbs: n.store, Versions: n.store, Ledger: n.store, Load: n.store,
		Stories: n.store, Interrupt: n.engine.Interrupt,
		Views: n.store, Overview: n.store, Live: n.store,
		DeadLetters: n.store, Operations: n.store, Queues: n.store, Cluster: n.store, Audit: n.store,
		Version: "test", Log: log,
	}).Handler())
	t.Cleanup(web.Close)
	n.url, n.key = web.URL+"/api/v1", n.newKey(defaultNamespace, access.Admin)
	return n
}

func (n *node) answer(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	n.mu.Lock()
	n.seen, n.sent = append(n.seen, r.Header.Get("Idempotency-Key")), append(n.sent, string(body))
	status := n.path[r.URL.Path]
	n.mu.Unlock()
	if r.URL.Path == "/hang" {
		select {
		case <-n.release:
		case <-r.Context().Done():
		}
	}
	w.WriteHeader(status)
}

func (n *node) set(path string, status int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.path[path] = status
}

func (n *node) keys() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]string(nil), n.seen...)
}

// awaitSent waits until the target has seen a number of requests.
func (n *node) awaitSent(want int) {
	n.t.Helper()
	require.Eventually(n.t, func() bool { return len(n.keys()) >= want }, time.Minute, 10*time.Millisecond)
}

func (n *node) bodies() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]string(nil), n.sent...)
}

// work starts the engine, until the test ends or the function is called.
func (n *node) work() (stop func()) {
	n.t.Helper()
	ctx, cancel := context.WithCancel(n.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- n.engine.Run(ctx, 5*time.Second) }()
	stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(n.t, <-ended)
	})
	n.t.Cleanup(stop)
	return stop
}

// create creates a job whose runs go to a path of the sink, and returns its id.
func (n *node) create(name, schedule, path string, more ...string) string {
	n.t.Helper()
	body := fmt.Sprintf(`{"name":%q,"schedule":%q,"target":{"kind":"http","config":{"url":%q}}`,
		name, schedule, n.sink+path)
	for _, m := range more {
		body += "," + m
	}
	a := n.call("POST", "/jobs", body+"}")
	require.Equal(n.t, 201, a.status, "%s", a.body)
	return a.json(n.t)["id"].(string)
}

// trigger creates a run that is due now and returns its id.
func (n *node) trigger(id string) string {
	n.t.Helper()
	a := n.call("POST", "/jobs/"+id+":trigger", "")
	require.Equal(n.t, 202, a.status, "%s", a.body)
	return a.json(n.t)["id"].(string)
}

// get reads an object.
func (n *node) get(path string) map[string]any {
	n.t.Helper()
	a := n.call("GET", path, "")
	require.Equal(n.t, 200, a.status, "%s: %s", path, a.body)
	return a.json(n.t)
}

// await waits until a field of an object has a value.
func (n *node) await(path, field string, want any) (got map[string]any) {
	n.t.Helper()
	require.Eventually(n.t, func() bool {
		got = n.get(path)
		return got[field] == want
	}, time.Minute, 20*time.Millisecond, "%s: %s is not %v but %v", path, field, want, &got)
	return got
}

// awaitCount waits until a list has a number of items.
func (n *node) awaitCount(path string, want int) {
	n.t.Helper()
	require.Eventually(n.t, func() bool {
		items, _ := n.all(path)
		return len(items) == want
	}, time.Minute, 50*time.Millisecond)
}

// all reads a list page by page. It returns the items and the number of pages.
func (n *node) all(path string) (items []map[string]any, pages int) {
	n.t.Helper()
	token := ""
	for pages = 1; pages < 1000; pages++ {
		var page struct {
			Items []map[string]any `json:"items"`
			Next  string           `json:"next_page_token"`
		}
		a := n.call("GET", path+token, "")
		require.Equal(n.t, 200, a.status, "%s: %s", path, a.body)
		require.NoError(n.t, json.Unmarshal(a.body, &page))
		items = append(items, page.Items...)
		if page.Next == "" {
			return items, pages
		}
		token = "&page_token=" + page.Next
	}
	require.Fail(n.t, "a list without an end", path)
	return nil, 0
}

// otherNamespace creates a namespace.
func (b *bundle) otherNamespace() uuid.UUID {
	b.t.Helper()
	id := uuid.Must(uuid.NewV7())
	_, err := b.pool.Exec(b.t.Context(), `INSERT INTO namespace (id, name) VALUES ($1, $2)`, id, "n-"+id.String())
	require.NoError(b.t, err)
	return id
}
