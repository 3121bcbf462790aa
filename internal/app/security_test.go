package app

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/pgtest"
	"github.com/belfry-dev/belfry/internal/postgres"
	"github.com/belfry-dev/belfry/internal/seal"
)

// public is all that is answered without a key. What is added here is open to
// everyone who reaches the node.
var public = []string{
	"GET /healthz", "GET /readyz", "GET /metrics", "GET /docs", "GET /docs/docs.js", "GET /docs/docs.css",
	"GET /api/v1/openapi.yaml", "GET /api/v1/openapi.json",
}

// walk is a node, and what a test needs to act as any user.
type walk struct {
	t     *testing.T
	base  string
	pool  *pgxpool.Pool // as the owner
	store *pgtest.Store // as the owner
	log   *lines
	end   func(*testing.T) error // stops the node
	sink  *sink
	count int
}

// newWalk starts a node on a new database, after prepare.
func newWalk(t *testing.T, prepare ...func(*pgxpool.Pool)) *walk {
	t.Helper()
	url, pool := pgtest.ServerURL(t)
	for _, p := range prepare {
		p(pool)
	}
	s, c := serveAPI(t, func(c *Config) { c.DatabaseURL = url })
	keys, err := seal.Read(testKeyset)
	require.NoError(t, err)
	store := pgtest.StoreOf(postgres.New(pool, postgres.Options{Sealer: keys}))
	return &walk{t: t, base: c.base, pool: pool, store: store, log: s.log, end: s.end, sink: newSink(t)}
}

func (w *walk) key(namespace uuid.UUID, role access.Role, life time.Duration) (access.APIKey, string) {
	w.t.Helper()
	w.count++
	k, secret, err := w.store.CreateKey(w.t.Context(), access.KeyParams{
		Namespace: namespace, Name: fmt.Sprintf("key-%d", w.count), Role: role, ExpiresIn: life, Actor: "test",
	})
	require.NoError(w.t, err)
	return k, secret
}

// reply is all bytes of an answer.
type reply struct {
	status int
	text   string // headers and body
	body   []byte
}

func (w *walk) call(key, method, path, body string) reply {
	w.t.Helper()
	return w.ask(key, operation{method: method, media: "application/json"}, path, body)
}

// ask calls an operation.
func (w *walk) ask(key string, o operation, path, body string) reply {
	w.t.Helper()
	return w.askWith(map[string]string{"Authorization": "Bearer " + key}, o, path, body)
}

// askWith calls an operation with headers.
func (w *walk) askWith(header map[string]string, o operation, path, body string) reply {
	w.t.Helper()
	r, err := http.NewRequestWithContext(context.Background(), o.method, w.base+path, strings.NewReader(body))
	require.NoError(w.t, err)
	for name, value := range header {
		if value != "Bearer " {
			r.Header.Set(name, value)
		}
	}
	if body != "" {
		r.Header.Set("Content-Type", o.media)
	}
	resp, err := http.DefaultClient.Do(r)
	require.NoError(w.t, err)
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(resp.Body)
	require.NoError(w.t, err)
	var all bytes.Buffer
	require.NoError(w.t, resp.Header.Write(&all))
	return reply{resp.StatusCode, all.String() + "\n" + string(data), data}
}

// must is a call that succeeds; it returns a field of the answer.
func (w *walk) must(key, method, path, body, field string) string {
	w.t.Helper()
	got := w.call(key, method, path, body)
	require.Less(w.t, got.status, 300, "%s %s: %s", method, path, got.body)
	found := regexp.MustCompile(`"` + field + `":"([^"]+)"`).FindSubmatch(got.body)
	require.NotNil(w.t, found, "no %s in %s", field, got.body)
	return string(found[1])
}

// eventually waits until a query says true.
func (w *walk) eventually(query string, args ...any) {
	w.t.Helper()
	require.Eventually(w.t, func() bool {
		var ok bool
		require.NoError(w.t, w.pool.QueryRow(context.Background(), query, args...).Scan(&ok))
		return ok
	}, time.Minute, 10*time.Millisecond, query)
}

// TestNoRouteIsOpen (S1): every route refuses a request without a key, with a
// wrong, an expired, a revoked one, and with one of a role that is too small.
func TestNoRouteIsOpen(t *testing.T) {
	t.Parallel()
	w := newWalk(t)
	tenant := w.tenant(access.DefaultNamespace)
	expired, expiredSecret := w.key(access.DefaultNamespace, access.Admin, time.Millisecond)
	w.eventually(`SELECT now() > $1`, expired.ExpiresAt)
	revoked, revokedSecret := w.key(access.DefaultNamespace, access.Admin, 0)
	_, err := w.store.RevokeKey(t.Context(), access.DefaultNamespace, revoked.ID, "test")
	require.NoError(t, err)
	refused := map[string]string{
		"none": "", "malformed": "bfk_nonsense", "unknown": access.FormatKey([32]byte{1, 2, 3}),
		"expired": expiredSecret, "revoked": revokedSecret,
	}
	smaller := map[string]string{}
	for i, role := range access.Roles[1:] {
		_, smaller[string(role)] = w.key(access.DefaultNamespace, access.Roles[i], 0)
	}
	_, smaller["worker"] = w.key(access.DefaultNamespace, access.Operator, 0)
	calls := 0
	open := []string{}
	for _, o := range operations(t, w.base) {
		if o.public() {
			open = append(open, o.id)
			continue
		}
		for kind, key := range refused {
			got := w.ask(key, o, o.at(tenant.objects), o.payload(t))
			for got.status == http.StatusTooManyRequests { // bad keys are rate-limited
				<-time.After(100 * time.Millisecond)
				got = w.ask(key, o, o.at(tenant.objects), o.payload(t))
			}
			require.Equal(t, http.StatusUnauthorized, got.status, "%s with a key that is %s: %s", o.id, kind, got.body)
			calls++
		}
		if key, ok := smaller[o.role]; ok {
			got := w.ask(key, o, o.at(tenant.objects), o.payload(t))
			require.Equal(t, http.StatusForbidden, got.status, "%s needs %s: %s", o.id, o.role, got.body)
			calls++
		}
	}
	t.Logf("%d calls refused", calls)
	require.Equal(t, []string{"create-login-session"}, open, "an operation that needs no key")
	awaitReady(t, w.base, http.StatusOK, "") // a machine that was suspended may have cost it its session
	for _, route := range public {
		method, path, _ := strings.Cut(route, " ")
		require.Equal(t, http.StatusOK, w.call("", method, path, "").status, route)
	}
	for _, path := range []string{
		"/", "/api", "/api/v1/", "/api/v1/jobs/", "/debug/pprof/", "/docs/", "/docs/../api/v1/jobs", "//api/v1/jobs",
		"/api/v2/jobs",
	} {
		require.NotEqual(t, http.StatusOK, w.call("", http.MethodGet, path, "").status, path)
	}
}

// TestEachRouteIsDescribed: nothing is answered that the description, by which
// the others walk, does not have.
func TestEachRouteIsDescribed(t *testing.T) {
	t.Parallel()
	w := newWalk(t)
	known := slices.Clone(public)
	for _, o := range operations(t, w.base) {
		known = append(known, o.method+" "+o.path)
	}
	n := &node{}
	for _, route := range n.newAPI(postgres.New(nil, postgres.Options{})).Routes() {
		require.Contains(t, known, route)
	}
	// What a node serves besides the API is known by its sources alone: a mux does not list its patterns.
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	var own []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		for _, found := range regexp.MustCompile(`\.Handle(?:Func)?\(([^,]+),`).FindAllSubmatch(text, -1) {
			own = append(own, string(found[1]))
		}
	}
	require.ElementsMatch(t, []string{
		`"/"`, `"GET /{$}"`, `"GET "+uiPath`, `"GET /healthz"`, `"GET /readyz"`, `"GET /metrics"`,
	}, own, "what is added here is open to everyone who reaches the node")
}

// tenant is a namespace with one of everything in it.
type tenant struct {
	id      uuid.UUID
	key     string            // of an admin
	named   string            // in all names
	inner   string            // in all that is not a name: labels, payload, headers, notes
	objects map[string]string // by the parameter of the path
}

// ids are those of all objects.
func (n *tenant) ids() (out []string) {
	for _, id := range n.objects {
		if strings.Contains(id, "_") {
			out = append(out, id)
		}
	}
	return out
}

func (w *walk) tenant(namespace uuid.UUID) *tenant {
	w.t.Helper()
	mark := strings.ReplaceAll(uuid.NewString(), "-", "")
	n := &tenant{id: namespace, named: "named" + mark[:12], inner: "inner" + mark[12:24]}
	_, n.key = w.key(namespace, access.Admin, 0)
	n.objects = map[string]string{
		"job":   w.job(n, "/ok"),
		"key":   w.must(n.key, "POST", "/api/v1/keys", `{"name":"`+n.named+`","role":"viewer"}`, "id"),
		"queue": "q-" + n.named, "version": "1", "secret": "s-" + n.named,
	}
	w.must(n.key, "PUT", "/api/v1/secrets/"+n.objects["secret"], `{"value":"`+n.inner+`"}`, "name")
	n.objects["run"] = w.ended(n, n.objects["job"])
	n.objects["dead_letter"] = w.ended(n, w.job(n, "/no"))
	n.objects["operation"] = w.operation(n)
	n.objects["session"] = w.session(n)
	w.must(n.key, "POST", "/api/v1/jobs/"+w.job(n, "/ok")+":pause", `{"note":"`+n.inner+`"}`, "state")
	return n
}

// session opens one of a worker.
func (w *walk) session(n *tenant) string {
	w.t.Helper()
	return w.must(n.key, "POST", "/api/v1/queues/q-"+n.named+"/sessions", `{"name":"`+n.inner+`"}`, "id")
}

// operation makes one that lasts.
func (w *walk) operation(n *tenant) string {
	w.t.Helper()
	id := uuid.New()
	_, err := w.pool.Exec(w.t.Context(), `
INSERT INTO operation (id, namespace_id, kind, filter, failed_until, rate, state, count, actor, created_at, next_at)
VALUES ($1, $2, 'discard', '{}', now(), 1, 'running', 1, $3, now(), now() + interval '1 hour')`, id, n.id, n.inner)
	require.NoError(w.t, err)
	return job.FormatOperationID(id)
}

// job creates a job in which every string is the tenant's, and returns its id.
func (w *walk) job(n *tenant, path string) string {
	w.t.Helper()
	w.count++
	return w.must(n.key, "POST", "/api/v1/jobs", fmt.Sprintf(`{
		"name":"%s-%d","labels":{"team":%q},"schedule":"every 24h","queue":"q-%s","payload":{"a":%q},
		"retry":{"max_attempts":1},"timeout":"1h",
		"target":{"kind":"http","config":{"url":"%s%s","headers":{"x-secret":%q}}}}`,
		n.named, w.count, n.inner, n.named, n.inner, w.sink.url, path, n.inner), "id")
}

// started triggers a job, and ended waits for the end of that run too.
func (w *walk) started(n *tenant, id string) (run string) {
	w.t.Helper()
	return w.must(n.key, "POST", "/api/v1/jobs/"+id+":trigger", "", "id")
}

func (w *walk) ended(n *tenant, id string) (run string) {
	w.t.Helper()
	run = w.started(n, id)
	public, err := job.ParseJobID(id)
	require.NoError(w.t, err)
	w.eventually(`SELECT count(*) = 1 FROM run_history WHERE job_id = $1`, public)
	return run
}

// rows is all that the database has of a namespace, except its statistics: nodes write those later than the runs that
// they count.
func (w *walk) rows(namespace uuid.UUID) (out []string) {
	w.t.Helper()
	text := func(query string, args ...any) {
		rows, err := w.pool.Query(w.t.Context(), query, args...)
		require.NoError(w.t, err)
		defer rows.Close()
		for rows.Next() {
			var s string
			require.NoError(w.t, rows.Scan(&s))
			out = append(out, s)
		}
		require.NoError(w.t, rows.Err())
	}
	text(`
SELECT table_name FROM information_schema.columns
WHERE table_schema = 'public' AND column_name = 'namespace_id' AND table_name <> 'stat_minute' ORDER BY 1`)
	tables := slices.Clone(out)
	require.Contains(w.t, tables, "job")
	for _, table := range tables {
		text(`SELECT x::text FROM `+table+` x WHERE namespace_id = $1 ORDER BY 1`, namespace)
	}
	for _, table := range []string{"run", "run_history", "dead_letter"} {
		text(`
SELECT x::text FROM `+table+` x WHERE queue_id IN (SELECT id FROM queue WHERE namespace_id = $1) ORDER BY 1`, namespace)
	}
	return out
}

// TestNoByteCrossesANamespace (S2): every operation with a key of one namespace
// and the objects, names and page tokens of another: nothing of it is answered,
// and nothing of it changes.
func TestNoByteCrossesANamespace(t *testing.T) {
	t.Parallel()
	w := newWalk(t)
	other, err := w.store.CreateNamespace(t.Context(), "other")
	require.NoError(t, err)
	theirs, mine := w.tenant(other.ID), w.tenant(access.DefaultNamespace)
	before := w.rows(theirs.id)
	// Each operation is asked for what is theirs in every way it can be named.
	clean := func(o operation, path, body string) reply {
		got := w.ask(mine.key, o, path, body)
		require.NotContains(t, got.text, theirs.inner, "%s %s", o.method, path)
		for _, id := range theirs.ids() {
			if !strings.Contains(path, id) {
				require.NotContains(t, got.text, id, "%s %s", o.method, path)
			}
		}
		return got
	}
	calls, swapped := 0, 0
	for _, o := range operations(t, w.base) {
		for _, p := range o.params {
			require.Contains(t, theirs.objects, p,
				"%s has a parameter of which the test has no object; add one in tenant", o.path)
		}
		got := clean(o, o.at(theirs.objects), o.payload(t))
		calls++
		switch {
		case o.id == "replace-secret": // mine now, and another one
			require.Equal(t, http.StatusOK, got.status, "%s: %s", o.id, got.body)
			require.Contains(t, got.text, `"version":1`)
			deleted := w.call(mine.key, "DELETE", o.at(theirs.objects), "") // update-secret follows, and must not find it
			require.Equal(t, http.StatusNoContent, deleted.status)
		case o.byToken():
			require.Equal(t, http.StatusUnauthorized, got.status, "%s: %s", o.id, got.body)
		case len(o.params) > 0:
			// The runs of a job that may have been deleted, and the values of a label that this namespace does not have.
			if text := string(got.body); !strings.HasPrefix(text, `{"items":[]`) && !strings.HasPrefix(text, `{"values":[]`) {
				require.Equal(t, http.StatusNotFound, got.status, "%s: %s", o.id, got.body)
			}
			swapped++
		case !o.change():
			require.NotContains(t, got.text, theirs.named, o.id)
		}
		for _, q := range o.query {
			for _, value := range []string{theirs.objects[q], theirs.named, "team=" + theirs.inner, w.page(theirs, o)} {
				if value == "" || strings.Contains(value, theirs.inner) && q != "label" {
					continue
				}
				got := w.ask(mine.key, o, o.at(mine.objects)+"?"+q+"="+value, o.payload(t))
				for _, foreign := range append(theirs.ids(), theirs.inner) {
					if foreign != value && !strings.Contains(value, foreign) {
						require.NotContains(t, got.text, foreign, "%s?%s=%s", o.path, q, value)
					}
				}
				calls++
			}
		}
	}
	for _, name := range []string{theirs.named + "-1", "q-" + theirs.named} {
		require.Equal(t, http.StatusNotFound, w.call(mine.key, "GET", "/api/v1/jobs/"+name, "").status)
	}
	require.Positive(t, swapped)
	t.Logf("%d calls, %d with ids of another namespace", calls, swapped)
	w.changeMany(mine, theirs)
	require.Equal(t, before, w.rows(theirs.id), "and nothing of theirs has changed")
}

// changeMany begins operations on many jobs or runs, by the ids, names, queues and labels of another tenant. None finds
// anything, and all end.
func (w *walk) changeMany(mine, theirs *tenant) {
	w.t.Helper()
	begun := 0
	for _, o := range operations(w.t, w.base) {
		if !strings.Contains(bodies[o.id], `"filter"`) {
			continue
		}
		sets := []string{
			`"ids":["` + theirs.objects["job"] + `"]`, `"filter":{"name":"` + theirs.named + `"}`,
			`"filter":{"queue":"q-` + theirs.named + `"}`, `"filter":{"label":["team=` + theirs.inner + `"]}`,
		}
		switch o.id {
		case "relabel-jobs":
			for i := range sets {
				sets[i] += `,"set":{"a":"b"}`
			}
		case "cancel-runs":
			sets = []string{`"ids":["` + theirs.objects["run"] + `"]`, `"filter":{"queue":"q-` + theirs.named + `"}`}
		case "retry-runs":
			sets = []string{
				`"ids":["` + theirs.objects["dead_letter"] + `"]`,
				`"filter":{"queue":"q-` + theirs.named + `","state":["failed"]}`,
			}
		}
		for _, set := range sets {
			got := w.ask(mine.key, o, o.path, `{`+set+`,"dry_run":true}`)
			require.Equal(w.t, http.StatusOK, got.status, "%s %s: %s", o.id, set, got.body)
			require.Contains(w.t, string(got.body), `{"count":0,`, "%s %s", o.id, set)
			// A namespace has at most 20 at the same time, and a busy machine ends them slowly.
			w.eventually(`SELECT count(*) < 20 FROM operation WHERE namespace_id = $1 AND state = 'running'`, mine.id)
			got = w.ask(mine.key, o, o.path, `{`+set+`}`)
			require.Equal(w.t, http.StatusAccepted, got.status, "%s %s: %s", o.id, set, got.body)
			begun++
		}
	}
	require.GreaterOrEqual(w.t, begun, 28)
	// The tenant has one that lasts an hour.
	w.eventually(`SELECT count(*) = 0 FROM operation
WHERE namespace_id = $1 AND state = 'running' AND next_at < now() + interval '30 min'`, mine.id)
}

// page returns the token of a tenant's second page of a list; empty if there is none.
func (w *walk) page(n *tenant, o operation) string {
	if !slices.Contains(o.query, "page_token") || !slices.Contains(o.query, "page_size") {
		return ""
	}
	got := w.call(n.key, o.method, o.at(n.objects)+"?page_size=1", "")
	found := regexp.MustCompile(`"next_page_token":"([^"]+)"`).FindSubmatch(got.body)
	if found == nil {
		return ""
	}
	return string(found[1])
}
