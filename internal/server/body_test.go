package server_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/pgtest"
	"github.com/belfry-dev/belfry/internal/server"
	"github.com/belfry-dev/belfry/internal/server/body"
	"github.com/belfry-dev/belfry/internal/server/rest"
)

// door is an API without a network, so that requests can be measured.
type door struct {
	*bundle
	*server.Server
	handler http.Handler
	token   string // of a run
	run     string
}

func newDoor(t *testing.T, l rest.Limits) *door {
	t.Helper()
	b := &bundle{t: t, pool: pgtest.New(t)}
	b.store = pgtest.NewStore(pgtest.AsServer(t, b.pool))
	require.NoError(t, b.store.CreateHistory(t.Context(), 1))
	key := bytes.Repeat([]byte("k"), 32)
	d := &door{bundle: b, Server: server.New(server.Options{
		Keys: b.store, Jobs: b.store, Verbs: b.store, Audit: b.store, Logins: b.store, Views: b.store,
		ReportKeys: access.ReportKeys{key}, Limits: l,
	})}
	b.key = b.newKey(defaultNamespace, access.Admin)
	of := access.Report{Namespace: defaultNamespace, Key: job.Key{Job: uuid.New()}, Attempt: 1}
	d.handler, d.token, d.run = d.Handler(), of.Token(key), job.FormatRunID(of.Key)
	return d
}

func (d *door) send(method, path, media, text string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "/api/v1"+path, strings.NewReader(text))
	r.Header.Set("Content-Type", media)
	r.Header.Set("Authorization", "Bearer "+d.key)
	if strings.HasPrefix(path, "/runs/"+d.run+":") {
		r.Header.Set("Authorization", "Bearer "+d.token)
	}
	w := httptest.NewRecorder()
	d.handler.ServeHTTP(w, r)
	return w
}

func deep(levels int, inner string) string {
	return strings.Repeat(`{"a":`, levels) + inner + strings.Repeat(`}`, levels)
}

// TestEveryBodyPassesTheDoor walks the description of the API: no operation makes anything of a body that is nested too
// deeply, has too many values or is too large.
func TestEveryBodyPassesTheDoor(t *testing.T) {
	t.Parallel()
	d := newDoor(t, rest.Limits{KeyRate: 100_000, KeyBurst: 100_000})
	text, err := d.OpenAPI()
	require.NoError(t, err)
	var api struct {
		Paths map[string]map[string]struct {
			ID          string `yaml:"operationId"`
			RequestBody *struct {
				Content map[string]any `yaml:"content"`
			} `yaml:"requestBody"`
		} `yaml:"paths"`
	}
	require.NoError(t, yaml.Unmarshal(text, &api))
	many := "[" + strings.Repeat("1,", body.MaxValues) + "1]"
	seen := 0
	for path, methods := range api.Paths {
		path = strings.NewReplacer("/api/v1", "", "{run}", d.run).Replace(path)
		path = strings.NewReplacer("{", "", "}", "").Replace(path)
		for method, o := range methods {
			if o.RequestBody == nil {
				continue
			}
			for media := range o.RequestBody.Content {
				seen++
				method := strings.ToUpper(method)
				query := ""
				if o.ID == "import-crontab" {
					query = "?url=http://x"
				}
				large := d.send(method, path+query, media, strings.Repeat(" ", 17<<20))
				require.Equal(t, http.StatusRequestEntityTooLarge, large.Code, "%s %s", o.ID, large.Body)
				if media == "text/plain" {
					continue
				}
				bad := d.send(method, path, media, deep(body.MaxDepth+1, "1"))
				require.Contains(t, bad.Body.String(), "deeper than 64 levels", "%s %d", o.ID, bad.Code)
				bad = d.send(method, path, media, many)
				if bad.Code != http.StatusRequestEntityTooLarge { // the operation takes smaller bodies
					require.Contains(t, bad.Body.String(), "more values than a valid request", "%s %d", o.ID, bad.Code)
				}
			}
		}
	}
	require.Greater(t, seen, 30, "the description cannot be read any more")
}

// TestBodiesNeedLittleMemory: the memory that a request needs is a small multiple of its body. Without limits, 2,000
// levels took 2,060 times the size of the body.
func TestBodiesNeedLittleMemory(t *testing.T) { //nolint:paralleltest // it measures the heap
	const (
		most   = 16
		others = 8 << 20 // what has nothing to do with the body
	)
	d := newDoor(t, rest.Limits{})
	made := d.send("POST", "/jobs", "application/json", `{"name":"j","schedule":"every 1h","target":{"kind":"noop"}}`)
	require.Equal(t, 201, made.Code, "%s", made.Body)
	const session = "/queues/q/sessions/ses_06f8m2tq5dtk1e7n9q0c3s5v7g"
	list := func(name, item string, size int) string {
		return `{"` + name + `":[` + strings.Repeat(item+",", size/(len(item)+1)) + item + `]}`
	}
	wide := func(format string, n int) string {
		var out strings.Builder
		for i := range n {
			fmt.Fprintf(&out, format+",", i)
		}
		return strings.TrimSuffix(out.String(), ",")
	}
	long := strings.Repeat("x", 900<<10)
	badMembers := `{` + wide(`"m%d":0`, 90) + "}\n"
	badLabels := `{"name":"a","schedule":"every 1h","target":{"kind":"noop"},"labels":{` + wide(`"-%d":"x"`, 60) + "}}\n"
	const patch, plain, lines = "application/merge-patch+json", "application/json", "application/x-ndjson"
	for name, c := range map[string]struct{ method, path, media, text string }{
		"deep patch":        {"PATCH", "/jobs/j", patch, deep(9_990, `"`+long+`"`)},
		"2,000 levels":      {"PATCH", "/jobs/j", patch, deep(2_000, `"`+long+`"`)},
		"60 levels":         {"PATCH", "/jobs/j", patch, `{"payload":` + deep(60, `"`+long[:200<<10]+`"`) + `}`},
		"60 levels of long": {"PATCH", "/jobs/j", patch, deep(60, `"`+long+`"`)},
		"wide patch":        {"PATCH", "/jobs/j", patch, `{` + wide(`"member-%d":1`, 60_000) + `}`},
		"labels of patch":   {"PATCH", "/jobs/j", patch, `{"labels":{` + wide(`"-%d":"x"`, 60_000) + `}}`},
		"labels":            {"POST", "/jobs", plain, `{"labels":{` + wide(`"label-%d":1`, 60_000) + `}}`},
		"unknown members":   {"POST", "/jobs", plain, `{` + wide(`"member-%d":1`, 60_000) + `}`},
		"schedule":          {"POST", "/jobs", plain, `{"schedule":{` + wide(`"member-%d":1`, 60_000) + `}}`},
		"4 MB heartbeat":    {"POST", session + ":heartbeat", plain, list("runs", "{}", 4<<20-100)},
		"100 kB heartbeat":  {"POST", session + ":heartbeat", plain, list("runs", "{}", 100<<10)},
		"25 kB heartbeat":   {"POST", session + ":heartbeat", plain, list("runs", "{}", 25<<10)},
		"lists":             {"POST", session + ":heartbeat", plain, list("runs", "[]", 1<<20)},
		"1 MB of reports":   {"POST", session + ":complete", plain, list("reports", "{}", 1<<20-100)},
		"handlers":          {"POST", session + ":claim", plain, list("handlers", "1", 200<<10)},
		"handlers by case":  {"POST", session + ":claim", plain, list("Handlers", "1", 200<<10)},
		"lines of a bulk":   {"POST", "/jobs:bulk", lines, strings.Repeat("1\n", 8<<20)},
		"lines of a diff":   {"POST", "/jobs:diff", lines, strings.Repeat("1\n", 8<<20)},
		"problems of lines": {"POST", "/jobs:diff", lines, strings.Repeat(badMembers, 500)},
		"labels of lines":   {"POST", "/jobs:bulk", lines, strings.Repeat(badLabels, 500)},
	} {
		var w *httptest.ResponseRecorder
		peak := peakHeap(func() { w = d.send(c.method, c.path, c.media, c.text) })
		t.Logf("%-18s %7d bytes, status %d, answer of %6d bytes, peak %5.1f times",
			name, len(c.text), w.Code, w.Body.Len(), float64(peak)/float64(len(c.text)))
		require.Less(t, w.Code, 500, "%s %s", name, w.Body)
		require.Less(t, w.Body.Len(), max(64<<10, 2*len(c.text)), name)
		assert.Less(t, peak, most*len(c.text)+others, name)
	}
}

// peakHeap returns how much the heap grows during a call.
func peakHeap(call func()) (peak int) {
	defer debug.SetGCPercent(debug.SetGCPercent(10)) // so that garbage counts for little
	runtime.GC()
	base := inUse()
	done := make(chan struct{})
	measured := make(chan int)
	go func() {
		most := 0
		for {
			most = max(most, inUse()-base)
			select {
			case <-done:
				measured <- most
				return
			default:
				runtime.Gosched()
			}
		}
	}()
	call()
	close(done)
	return <-measured
}

// inUse is the memory of objects, including garbage that is not collected yet.
func inUse() int {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	return int(sample[0].Value.Uint64())
}

// TestManyProblemsAreCounted: an answer lists 100 problems, and says how many more there are.
func TestManyProblemsAreCounted(t *testing.T) {
	t.Parallel()
	d := newDoor(t, rest.Limits{})
	const path = "/queues/q/sessions/ses_06f8m2tq5dtk1e7n9q0c3s5v7g:heartbeat"
	count := func(text string) (listed int, detail string) {
		w := d.send("POST", path, "application/json", text)
		require.Equal(t, 422, w.Code, "%s", w.Body)
		var p rest.Problem
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &p))
		return len(p.Problems), p.Detail
	}
	items := func(n int, item string) string {
		return `{"runs":[` + strings.TrimSuffix(strings.Repeat(item+",", n), ",") + `]}`
	}
	listed, detail := count(items(1, `{}`))
	require.Equal(t, 2, listed)
	require.Equal(t, "fix what is listed in problems", detail)
	listed, detail = count(items(5_000, `{}`))
	require.Equal(t, 100, listed)
	require.Contains(t, detail, "9900 more are not listed")
	listed, detail = count(strings.Replace(items(5_000, `{"run":"x","attempt":1}`), `[`, `[{},`, 1))
	require.Equal(t, 2, listed)
	require.Equal(t, "fix what is listed in problems", detail)
	w := d.send("POST", path, "application/json",
		strings.Replace(items(5_000, `{"run":"x","attempt":1}`), `]`, `,{"attempt":1}]`, 1))
	require.Contains(t, w.Body.String(), `"runs[5000].run"`, "the last item is validated as well")
	listed, _ = count(items(10_001, `{"run":"x","attempt":1}`))
	require.Equal(t, 1, listed)
	// Parameters and the body together.
	w = d.send("POST", strings.Replace(path, ":", strings.Repeat("x", 40)+":", 1), "application/json", `{}`)
	require.Contains(t, w.Body.String(), `"session"`)
	require.Contains(t, w.Body.String(), `"runs"`)
}

// TestAPageGetsNoBody: a handler that is no operation cannot read what the client sends.
func TestAPageGetsNoBody(t *testing.T) {
	t.Parallel()
	api := rest.New(rest.Options{})
	api.Page("/page", "page", func(_ http.ResponseWriter, r *http.Request) error {
		text, err := io.ReadAll(r.Body)
		assert.NoError(t, err)
		assert.Empty(t, text)
		return nil
	})
	w := httptest.NewRecorder()
	api.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/page", strings.NewReader("{}")))
	require.Equal(t, 200, w.Code)
}

// dial opens a connection to the server.
func (b *bundle) dial() net.Conn {
	b.t.Helper()
	address := strings.TrimSuffix(strings.TrimPrefix(b.url, "http://"), "/api/v1")
	conn, err := new(net.Dialer).DialContext(b.t.Context(), "tcp", address)
	require.NoError(b.t, err)
	b.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// patient is a time for bodies that slow machines do not exceed.
const patient = time.Minute

// slowBody begins a request and sends the first byte of its body. It returns when the server reads the body.
func (b *bundle) slowBody(key string) (finish func() int) {
	b.t.Helper()
	return b.slow(key, "/keys", "application/json", `{"name":"k","role":"viewer"}`)
}

func (b *bundle) slow(key, path, media, text string) (finish func() int) {
	b.t.Helper()
	conn := b.dial()
	_, err := fmt.Fprintf(conn, "POST /api/v1%s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n"+
		"Content-Type: %s\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n", path, key, media, len(text))
	require.NoError(b.t, err)
	reader := bufio.NewReader(conn)
	line, err := reader.ReadString('\n')
	require.NoError(b.t, err)
	require.Contains(b.t, line, "100 Continue")
	_, _ = reader.ReadString('\n')
	_, err = conn.Write([]byte(text[:1]))
	require.NoError(b.t, err)
	return func() int {
		_, err := conn.Write([]byte(text[1:]))
		require.NoError(b.t, err)
		resp, err := http.ReadResponse(reader, nil)
		require.NoError(b.t, err)
		_ = resp.Body.Close()
		return resp.StatusCode
	}
}

// TestSlowBodiesHoldNoSlot: requests whose body is on its way do not keep others out, and are served when it has come.
func TestSlowBodiesHoldNoSlot(t *testing.T) {
	t.Parallel()
	b := limited(t, rest.Limits{Requests: 4, BodyTimeout: patient})
	var finish []func() int
	for range 4 {
		key := b.newKey(defaultNamespace, access.Admin)
		finish = append(finish, b.slowBody(key), b.slowBody(key))
	}
	for range 4 {
		require.Equal(t, http.StatusOK, b.call("GET", "/self", "").status)
	}
	for _, f := range finish {
		require.Equal(t, http.StatusCreated, f())
	}
}

// TestASlowBodyIsCutOff: a body has to arrive in time.
func TestASlowBodyIsCutOff(t *testing.T) {
	t.Parallel()
	b := limited(t, rest.Limits{BodyTimeout: 100 * time.Millisecond})
	for name, body := range map[string]string{
		"length": "Content-Length: 1000\r\n\r\n{",
		"chunks": "Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n",
	} {
		status, ended := b.stall(body)
		require.Equal(t, http.StatusRequestTimeout, status, name)
		require.ErrorIs(t, ended(), io.EOF, name)
	}
}

// TestABodyThatIsTooLargeAndStopsIsCutOff: no answer waits for the rest of a body, and the connection ends in time.
func TestABodyThatIsTooLargeAndStopsIsCutOff(t *testing.T) {
	t.Parallel()
	tooLarge := "Transfer-Encoding: chunked\r\n\r\n10000\r\n" + strings.Repeat(" ", 20<<10)
	status, _ := limited(t, rest.Limits{BodyTimeout: time.Hour}).stall(tooLarge)
	require.Equal(t, http.StatusRequestEntityTooLarge, status)
	_, ended := limited(t, rest.Limits{BodyTimeout: 100 * time.Millisecond}).stall(tooLarge)
	require.ErrorIs(t, ended(), io.EOF)
}

// stall sends a login without its end. It returns the status of the answer, and a function that waits for the end of the
// connection.
func (b *bundle) stall(body string) (status int, ended func() error) {
	b.t.Helper()
	conn := b.dial()
	require.NoError(b.t, conn.SetDeadline(clock.Now().Add(patient)))
	_, err := fmt.Fprintf(conn, "POST /api/v1/session HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n%s", body)
	require.NoError(b.t, err)
	reader := bufio.NewReader(conn)
	resp, err := http.ReadResponse(reader, nil)
	require.NoError(b.t, err)
	defer func() { _ = resp.Body.Close() }()
	_, err = io.Copy(io.Discard, resp.Body)
	require.NoError(b.t, err)
	require.True(b.t, resp.Close)
	return resp.StatusCode, func() error {
		_, err := reader.ReadByte()
		return err
	}
}

// TestLargeBodiesLeaveMemoryToHeartbeats: a worker loses its session if its heartbeats are rejected.
func TestLargeBodiesLeaveMemoryToHeartbeats(t *testing.T) {
	t.Parallel()
	// Large bodies have 35 MB of it. Two of 7 MB, which count twice, are all that one namespace gets.
	b := limited(t, rest.Limits{Bodies: 40 << 20})
	const media = "application/x-ndjson"
	large := strings.Repeat(" ", 7<<20)
	b.slow(b.key, "/jobs:bulk", media, large)
	b.slow(b.key, "/jobs:bulk", media, large)
	a := b.call("POST", "/jobs:bulk", large[:65<<10], "Content-Type", media)
	require.Equal(t, http.StatusTooManyRequests, a.status, "%s", a.body)
	a = b.call("POST", "/queues/q/sessions/none:heartbeat", `{"runs":[]}`)
	require.Contains(t, string(a.body), "no such session", "the operation got it")
}

// TestBodiesAreSharedByNamespaces: the bodies of one namespace cannot use all the memory that there is for bodies.
func TestBodiesAreSharedByNamespaces(t *testing.T) {
	t.Parallel()
	b := limited(t, rest.Limits{Bodies: 8 * 5 * 17 << 10, BodyTimeout: patient}) // five small bodies
	other := b.newKey(b.otherNamespace(), access.Admin)
	var finish []func() int
	for range 4 {
		finish = append(finish, b.slowBody(b.key))
	}
	const text = `{"name":"k","role":"viewer"}`
	a := b.call("POST", "/keys", text)
	require.Equal(t, http.StatusTooManyRequests, a.status, "%s", a.body)
	require.Equal(t, "1", a.header.Get("Retry-After"))
	require.Contains(t, string(a.body), "this namespace has its share")
	require.Equal(t, http.StatusOK, b.call("GET", "/self", "").status, "it needs no memory")
	require.Equal(t, http.StatusCreated, b.callAs(other, "POST", "/keys", text).status)

	finish = append(finish, b.slowBody(other))
	a = b.callAs(b.newKey(b.otherNamespace(), access.Admin), "POST", "/keys", text)
	require.Equal(t, http.StatusServiceUnavailable, a.status, "%s", a.body)
	for _, f := range finish {
		require.Equal(t, http.StatusCreated, f())
	}
	require.Equal(t, http.StatusCreated, b.call("POST", "/keys", text).status)
}
