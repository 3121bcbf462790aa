package docs

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/app"
	"github.com/belfry-dev/belfry/internal/config"
	"github.com/belfry-dev/belfry/internal/pgtest"
	"github.com/belfry-dev/belfry/internal/postgres"
	"github.com/belfry-dev/belfry/internal/seal"
)

// cluster is a real node on a database of its own, and a receiver that its runs go to.
type cluster struct {
	url, sink string
	database  string // for the owner
	pool      *pgxpool.Pool
	spaces    atomic.Int64
	// of a server for tests, as PEM inside a JSON string
	certificate string
	accepted    sync.Map // of runs that the receiver answered with 202: job name to headers
}

func startCluster(t *testing.T) *cluster {
	t.Helper()
	server, pool := pgtest.ServerURL(t)
	c := &cluster{pool: pool, database: pool.Config().ConnString()}
	sink := httptest.NewServer(http.HandlerFunc(c.receive))
	t.Cleanup(sink.Close)
	c.sink = sink.URL
	secure := httptest.NewTLSServer(nil)
	secure.Close()
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw})
	c.certificate = strings.ReplaceAll(string(certificate), "\n", `\n`)
	keys, err := seal.New()
	require.NoError(t, err)
	keyset, err := keys.Text()
	require.NoError(t, err)

	for name, kind := range map[string]string{"orders": "kafka", "events": "nats", "rabbit": "amqp"} {
		b := access.Broker{Name: name, Kind: kind, Config: access.BrokerConfig{Servers: []string{"127.0.0.1:1"}}}
		require.NoError(t, pgtest.StoreOf(postgres.New(pool, postgres.Options{})).PutBroker(t.Context(), &b))
	}
	conf := app.Config{Config: config.Default(), Version: "docs"}
	conf.DatabaseURL, conf.Listen, conf.Name, conf.Connections = server, "127.0.0.1:0", "docs", 10
	conf.Targets.Allow, conf.Secrets.Keyset, conf.Drain = "127.0.0.0/8", keyset, time.Second
	conf.Canary = false
	conf.OIDC.Issuer = "https://login.example.com" // no test logs in, so it is not called
	ctx, stop := context.WithCancel(t.Context())
	started, ended := make(chan string, 1), make(chan error, 1)
	log := slog.New(slog.NewJSONHandler(&startedLog{started: started, to: t.Output()}, nil))
	go func() { ended <- app.Serve(ctx, conf, log) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-ended)
	})
	select {
	case address := <-started:
		c.url = "http://" + address
	case err := <-ended:
		t.Fatalf("the node ended: %v", err)
	}
	return c
}

// startedLog finds the address in the log line "node started".
type startedLog struct {
	started chan string
	to      io.Writer
}

func (l *startedLog) Write(line []byte) (int, error) {
	var entry struct{ Msg, Address string }
	if json.Unmarshal(line, &entry) == nil && entry.Msg == "node started" {
		l.started <- entry.Address
	}
	return l.to.Write(line)
}

// receive answers a run by its path: /fail fails, /accept accepts it and keeps its headers.
func (c *cluster) receive(w http.ResponseWriter, r *http.Request) {
	switch {
	case strings.HasPrefix(r.URL.Path, "/fail"):
		w.WriteHeader(http.StatusBadRequest)
	case strings.HasPrefix(r.URL.Path, "/accept/"):
		c.accepted.Store(r.URL.Path, r.Header.Clone())
		w.WriteHeader(http.StatusAccepted)
	}
}

// space is a namespace of the cluster with an admin's key. Each block gets one, so blocks do not see each other.
type space struct {
	*cluster
	key  string
	jobs atomic.Int64
}

func (c *cluster) newSpace(t *testing.T) *space {
	t.Helper()
	key, err := app.CreateNamespace(t.Context(), app.Database{URL: c.database}, fmt.Sprintf("docs-%d", c.spaces.Add(1)), 0)
	require.NoError(t, err)
	return &space{cluster: c, key: key}
}

// call sends a request to the API and returns its body, or an error with the problem that it reports.
func (s *space) call(ctx context.Context, method, path string, body []byte) (string, error) {
	request, err := http.NewRequestWithContext(ctx, method, s.url+"/api/v1"+path, bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	request.Header.Set("Authorization", "Bearer "+s.key)
	if len(body) > 0 {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode >= http.StatusBadRequest {
		err = fmt.Errorf("%s %s: %d %s", method, path, response.StatusCode, text)
	}
	return string(text), err
}

func (s *space) must(t *testing.T, method, path, body string) string {
	t.Helper()
	answer, err := s.call(t.Context(), method, path, []byte(body))
	require.NoError(t, err)
	return answer
}

var runID = regexp.MustCompile(`run_[0-9a-z]+`)

// newJob creates a job that is never due by itself, whose runs go to a path of the receiver.
func (s *space) newJob(t *testing.T, name, path, more string) {
	t.Helper()
	s.must(t, http.MethodPost, "/jobs", fmt.Sprintf(
		`{"name": %q, "schedule": {"at": "2190-01-01T00:00:00Z"}, "target": {"kind": "http", "config": {"url": %q}}%s}`,
		name, s.sink+path, more))
}

// newRun triggers a new job and returns its run in the state that the use of the id needs.
func (s *space) newRun(t *testing.T, state, queue string) string {
	t.Helper()
	name := fmt.Sprintf("seed-%d", s.jobs.Add(1))
	path, more := "/ok", fmt.Sprintf(`, "queue": %q`, queue)
	switch state {
	case "failed":
		path = "/fail"
	case "accepted":
		path = "/accept/" + s.key + "/" + name
	}
	s.newJob(t, name, path, more)
	run := runID.FindString(s.must(t, http.MethodPost, "/jobs/"+name+":trigger", "{}"))
	require.NotEmpty(t, run)
	want := regexp.MustCompile(`"state": ?"` + state + `"`)
	require.Eventually(t, func() bool {
		if state == "accepted" {
			_, ok := s.accepted.Load(path)
			return ok
		}
		return want.MatchString(s.must(t, http.MethodGet, "/runs/"+run, ""))
	}, time.Minute, 10*time.Millisecond, "the run does not become %s", state)
	return run
}

// newQueue creates a queue unless it exists.
func (s *space) newQueue(t *testing.T, name string) {
	t.Helper()
	if _, err := s.call(t.Context(), http.MethodGet, "/queues/"+name, nil); err != nil {
		s.must(t, http.MethodPost, "/queues", fmt.Sprintf(`{"name": %q}`, name))
	}
}

// report returns the URL and the token of an accepted run.
func (s *space) report(t *testing.T) (url, token string) {
	t.Helper()
	s.newRun(t, "accepted", "default")
	header, _ := s.accepted.Load(fmt.Sprintf("/accept/%s/seed-%d", s.key, s.jobs.Load()))
	url, token = header.(http.Header).Get("Belfry-Run-Url"), header.(http.Header).Get("Belfry-Run-Token")
	require.NotEmpty(t, url)
	require.NotEmpty(t, token)
	return url, token
}
