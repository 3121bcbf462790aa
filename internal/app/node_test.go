package app

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/config"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/pgtest"
	"github.com/belfry-dev/belfry/internal/postgres"
	"github.com/belfry-dev/belfry/internal/schedule"
)

var namespace = uuid.MustParse("00000000-0000-7000-8000-000000000001")

// lines is a log that can be read while it is written.
type lines struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.String()
}

// find returns the attributes of the first line with a message; nil: there is none.
func (l *lines) find(t *testing.T, message string) map[string]any {
	t.Helper()
	for line := range strings.Lines(l.String()) {
		var attrs map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &attrs))
		if attrs["msg"] == message {
			return attrs
		}
	}
	return nil
}

func (l *lines) await(t *testing.T, message string) (attrs map[string]any) {
	t.Helper()
	require.Eventually(t, func() bool { attrs = l.find(t, message); return attrs != nil }, time.Minute,
		10*time.Millisecond, "no line %q", message)
	return attrs
}

func testConfig(url string) Config {
	c := Config{Config: config.Default(), Version: "test"}
	c.DatabaseURL, c.Listen, c.Name, c.Connections, c.Slots, c.Drain = url, "127.0.0.1:0", "one", 10, 50, 5*time.Second
	c.Targets.Allow, c.Secrets.Keyset = "127.0.0.0/8", testKeyset
	// The machine may be suspended for a while, and no node or worker must lose its session by that.
	c.SessionTTL, c.WorkerTTL = time.Minute, time.Hour
	c.Canary = false // tests count jobs and runs of all namespaces
	return c
}

// testKeyset is one for secrets, as belfry secret keyset new makes them.
const testKeyset = `{"primaryKeyId":2277636101, "key":[{
	"keyData":{
		"typeUrl":"type.googleapis.com/google.crypto.tink.AesGcmKey",
		"value":"GiBTmMI6vSbwwDpEE+VvBvyN+6CSP7fCIYx/77TyQ9/iWQ==", "keyMaterialType":"SYMMETRIC"
	},
	"status":"ENABLED", "keyId":2277636101, "outputPrefixType":"TINK"
}]}`

// serverURL is of a migrated database, for the role that nodes have.
func serverURL(t *testing.T) string {
	t.Helper()
	url, _ := pgtest.ServerURL(t)
	return url
}

// bundle is a running node whose parts a test can reach.
type bundle struct {
	*node
	store *pgtest.Store
	pool  *pgxpool.Pool
	stop  func()
}

func start(t *testing.T) *bundle {
	t.Helper()
	return startWith(t, func(*Config) {})
}

func startWith(t *testing.T, change func(*Config)) *bundle {
	t.Helper()
	b := &bundle{}
	url, pool := pgtest.ServerURL(t)
	b.pool = pool
	c := testConfig(url)
	change(&c)
	m := newMetrics(c)
	db, err := postgres.Open(t.Context(), c.DatabaseURL, c.Connections, postgres.Options{Observer: m})
	require.NoError(t, err)
	b.store = pgtest.StoreOf(db)
	require.NoError(t, b.store.CreateHistory(t.Context(), 1))
	b.node, err = newNode(t.Context(), c, db, slog.New(slog.NewTextHandler(t.Output(), nil)), m)
	require.NoError(t, err)
	require.EqualValues(t, c.Connections, b.pull.Connections)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- b.run(ctx) }()
	b.stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(t, <-ended)
		db.Close()
	})
	t.Cleanup(b.stop)
	return b
}

func (b *bundle) create(t *testing.T, name string, change func(*job.Definition)) job.Job {
	t.Helper()
	d := job.Definition{
		Name: name, Schedule: schedule.Spec{At: "2026-01-01T00:00:00Z"},
		Target: job.Target{Kind: "noop", Config: json.RawMessage(`{}`)},
	}
	change(&d)
	j, err := b.store.CreateJob(t.Context(), job.CreateParams{Namespace: namespace, Definition: d, Actor: "test"})
	require.NoError(t, err)
	return j
}

// eventually waits until a query counts as many as wanted.
func (b *bundle) eventually(t *testing.T, want int, query string) {
	t.Helper()
	var got int
	require.Eventually(t, func() bool {
		require.NoError(t, b.pool.QueryRow(context.Background(), query).Scan(&got))
		return got == want
	}, time.Minute, 20*time.Millisecond, "want %d of %s", want, query)
}

// sink answers with the status that the path names; /hang waits until it is released.
type sink struct {
	url      string
	release  chan struct{}
	mu       sync.Mutex
	received int
}

func newSink(t *testing.T) *sink {
	t.Helper()
	s := &sink{release: make(chan struct{})}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.received++
		s.mu.Unlock()
		status := map[string]int{"/ok": 200, "/no": 400, "/later": 503, "/gone": 410, "/hang": 200}[r.URL.Path]
		if r.URL.Path == "/hang" {
			select {
			case <-s.release:
			case <-r.Context().Done():
			}
		}
		w.WriteHeader(status)
	}))
	t.Cleanup(server.Close)
	s.url = server.URL
	return s
}

func (s *sink) target(path string) job.Target {
	return job.Target{Kind: "http", Config: json.RawMessage(`{"url":"` + s.url + path + `"}`)}
}
