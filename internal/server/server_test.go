package server_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/pgtest"
	"github.com/belfry-dev/belfry/internal/server"
	"github.com/belfry-dev/belfry/internal/server/rest"
	"github.com/belfry-dev/belfry/internal/store"
)

var defaultNamespace = uuid.MustParse("00000000-0000-7000-8000-000000000001")

// bundle is an API on a database of its own, with an admin's key.
type bundle struct {
	t     *testing.T
	pool  *pgxpool.Pool
	store *pgtest.Store
	url   string
	key   string
}

func setup(t *testing.T) *bundle {
	t.Helper()
	b := &bundle{t: t, pool: pgtest.New(t)}
	b.store = pgtest.NewStore(pgtest.AsServer(t, b.pool))
	require.NoError(t, b.store.CreateHistory(t.Context(), 1))
	s := server.New(server.Options{
		Keys: b.store, Jobs: b.store, Verbs: b.store, Versions: b.store, Ledger: b.store, Load: b.store,
		Stories: b.store, DeadLetters: b.store, Logins: b.store,
		Operations: b.store, Queues: b.store, Cluster: b.store, Audit: b.store, Quotas: b.store, Brokers: b.store,
		Version: "test",
		Views:   b.store, Overview: b.store, Live: b.store,
		Classify: func(err error) rest.ErrorClass {
			if store.BadText(err) {
				return rest.BadText
			}
			return rest.Unknown
		},
		Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	web := httptest.NewServer(s.Handler())
	t.Cleanup(web.Close)
	b.url, b.key = web.URL+"/api/v1", b.newKey(defaultNamespace, access.Admin)
	return b
}

func (b *bundle) newKey(namespace uuid.UUID, role access.Role) string {
	b.t.Helper()
	_, secret, err := b.store.CreateKey(b.t.Context(), access.KeyParams{
		Namespace: namespace, Name: "test", Role: role, Actor: "test",
	})
	require.NoError(b.t, err)
	return secret
}

// answer is a response.
type answer struct {
	status int
	header http.Header
	body   []byte
}

func (a answer) json(t *testing.T) map[string]any {
	t.Helper()
	out := map[string]any{}
	require.NoError(t, json.Unmarshal(a.body, &out), "%s", a.body)
	return out
}

// call sends a request with the bundle's key.
func (b *bundle) call(method, path, body string, header ...string) answer {
	b.t.Helper()
	return b.callAs(b.key, method, path, body, header...)
}

func (b *bundle) callAs(key, method, path, body string, header ...string) answer {
	b.t.Helper()
	r, err := http.NewRequestWithContext(b.t.Context(), method, b.url+path, bytes.NewReader([]byte(body)))
	require.NoError(b.t, err)
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(r)
	require.NoError(b.t, err)
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	require.NoError(b.t, err)
	return answer{resp.StatusCode, resp.Header, text}
}

const hourly = `{"name":"report","schedule":{"cron":"0 * * * *","timezone":"Europe/Berlin"},` +
	`"target":{"kind":"http","config":{"url":"https://example.com/hook"}},"payload":{"a":1}}`

func TestTheLifeOfAJob(t *testing.T) {
	t.Parallel()
	b := setup(t)
	a := b.call("POST", "/jobs", hourly)
	require.Equal(t, 201, a.status, "%s", a.body)
	require.Regexp(t, `^"1-[0-9a-z]+"$`, a.header.Get("ETag"))
	id := a.json(t)["id"].(string)
	require.Equal(t, "/api/v1/jobs/"+id, a.header.Get("Location"))

	for _, path := range []string{"/jobs/" + id, "/jobs/report"} {
		a = b.call("GET", path, "")
		require.Equal(t, 200, a.status)
		got := a.json(t)
		require.Equal(t, "active", got["state"])
		require.Equal(t, map[string]any{"cron": "0 * * * *", "timezone": "Europe/Berlin"}, got["schedule"])
		require.Equal(t, map[string]any{"a": 1.}, got["payload"])
		require.Equal(t, "skip", got["overlap"], "defaults are shown")
	}
	a = b.call("POST", "/jobs", hourly)
	require.Equal(t, 409, a.status, "%s", a.body)
	require.Equal(t, "conflict", a.json(t)["code"])

	const often = `{"name":"report","schedule":"every 15m","target":{"kind":"noop"}}`
	a = b.call("PUT", "/jobs/report", often, "If-Match", `"7"`)
	require.Equal(t, 412, a.status)
	a = b.call("PUT", "/jobs/report", often, "If-Match", `"1"`)
	require.Equal(t, 200, a.status, "%s", a.body)
	require.Regexp(t, `^"2-[0-9a-z]+"$`, a.header.Get("ETag"))
	a = b.call("PUT", "/jobs/new%2Fone", `{"name":"new/one","schedule":"every 15m","target":{"kind":"noop"}}`)
	require.Equal(t, 201, a.status, "%s", a.body)

	a = b.call("POST", "/jobs/report:pause", `{"note":"broken"}`)
	require.Equal(t, 200, a.status, "%s", a.body)
	require.Equal(t, "paused", a.json(t)["state"])
	require.Equal(t, "broken", a.json(t)["note"])
	a = b.call("POST", "/jobs/"+id+":resume", "")
	require.Equal(t, 200, a.status, "%s", a.body)
	require.EqualValues(t, 0, a.json(t)["missed_occurrences"])
	require.Equal(t, "once", a.json(t)["missed"].(map[string]any)["policy"], "the job is whole")
	a = b.call("POST", "/jobs/new%2Fone:trigger", `{"payload":[1]}`)
	require.Equal(t, 202, a.status, "%s", a.body)
	run := a.json(t)["id"].(string)
	require.Contains(t, run, "run_")
	require.Equal(t, "/api/v1/runs/"+run, a.header.Get("Location"))
	require.Equal(t, "trigger", a.json(t)["origin"], "the run is whole")

	require.Equal(t, 204, b.call("DELETE", "/jobs/report", "").status)
	require.Equal(t, 404, b.call("GET", "/jobs/report", "").status)
	page, err := b.store.Audit(t.Context(), access.AuditParams{Namespace: defaultNamespace, Limit: 100})
	require.NoError(t, err)
	var actions []string
	for _, e := range page.Entries {
		actions = append(actions, e.Action)
	}
	require.Equal(t, []string{
		"job.delete", "job.trigger", "job.resume", "job.pause", "job.create", "job.update", "job.create", "key.create",
	}, actions)
	good, _, err := b.store.VerifyAudit(t.Context(), defaultNamespace, access.AuditCheck{}, 1000)
	require.NoError(t, err)
	require.EqualValues(t, len(page.Entries), good.Seq)
}

func TestWhatIsWrongIsToldAtOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	a := b.call("POST", "/jobs",
		`{"name":"x","schedule":"61 * * * *","target":{"kind":"http"},"timeout":"eternal","queue":"NO"}`)
	require.Equal(t, 422, a.status)
	require.Equal(t, "application/problem+json", a.header.Get("Content-Type"))
	text := string(a.body)
	for _, want := range []string{
		`"code":"invalid"`, `"field":"schedule.cron"`, `"field":"timeout"`, `"field":"queue"`,
	} {
		require.Contains(t, text, want)
	}
	a = b.call("POST", "/jobs",
		`{"name":"x","schedule":{"cron":"* * * * *"},"target":{"kind":"http"},"nonsense":"s3cret"}`)
	require.Equal(t, 422, a.status)
	require.NotContains(t, string(a.body), "s3cret", "what was sent is not echoed")
	a = b.call("POST", "/jobs", `{`)
	require.Equal(t, 400, a.status, "%s", a.body)
	a = b.call("POST", "/jobs", `{"payload":"`+string(bytes.Repeat([]byte("x"), 2<<20))+`"}`)
	require.Equal(t, 413, a.status, "%s", a.body)
	a = b.call("GET", "/nothing", "")
	require.Equal(t, 404, a.status)
	require.Equal(t, "not_found", a.json(t)["code"])
}

func TestTextsThatCannotBeStored(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for path, want := range map[string]int{
		"/jobs/%FF": 400, "/runs?reason=%FF": 400, "/runs?reason=%1": 400, "/jobs/%00": 422, "/jobs?name=%00": 422,
		"/queues/%00": 422,
	} {
		a := b.call("GET", path, "")
		require.Equal(t, want, a.status, "%s: %s", path, a.body)
	}
	require.Equal(t, 201, b.call("POST", "/jobs", hourly).status)
	a := b.call("POST", "/jobs/report:pause", `{"note":"\u0000"}`)
	require.Equal(t, 422, a.status, "%s", a.body)
	require.Equal(t, "invalid", a.json(t)["code"])
}

func TestNamesAndVersionsInThePath(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for i, want := range []int{201, 200} {
		body := fmt.Sprintf(`{"name":"disk > 90%% full","schedule":"every 15m","target":{"kind":"noop"},"priority":%d}`, i+1)
		a := b.call("PUT", "/jobs/disk%20%3E%2090%25%20full", body)
		require.Equal(t, want, a.status, "%s", a.body)
	}
	require.Equal(t, 412, b.call("POST", "/jobs/disk%20%3E%2090%25%20full:trigger", "", "If-Match", `"1"`).status)
	require.Equal(t, 202, b.call("POST", "/jobs/disk%20%3E%2090%25%20full:trigger", "", "If-Match", `"2"`).status)
}

func TestNoKeyNoAnswer(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, key := range []string{"", "bfk_wrong", access.FormatKey([32]byte{1})} {
		a := b.callAs(key, "GET", "/self", "")
		require.Equal(t, 401, a.status)
		require.Equal(t, "unauthenticated", a.json(t)["code"])
	}
	viewer := b.newKey(defaultNamespace, access.Viewer)
	require.Equal(t, 200, b.callAs(viewer, "GET", "/self", "").status)
	require.Equal(t, 403, b.callAs(viewer, "POST", "/jobs", hourly).status)
	require.Equal(t, 403, b.callAs(viewer, "GET", "/keys", "").status)
}
