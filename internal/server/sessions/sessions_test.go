package sessions_test

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/pgtest"
	"github.com/belfry-dev/belfry/internal/server"
	"github.com/belfry-dev/belfry/internal/server/rest"
	"github.com/belfry-dev/belfry/internal/server/sessions"
)

// bundle is a database with an admin's key. Each node that it starts has an empty cache.
type bundle struct {
	t     *testing.T
	pool  *pgxpool.Pool // as the owner
	store *pgtest.Store
	key   access.APIKey
	text  string // the key itself
	code  *sessions.Code
}

func setup(t *testing.T) *bundle {
	t.Helper()
	b := &bundle{t: t, pool: pgtest.New(t)}
	b.store = pgtest.NewStore(pgtest.AsServer(t, b.pool))
	require.NoError(t, b.store.CreateHistory(t.Context(), 1))
	b.key, b.text = b.newKey(access.Admin)
	b.code = sessions.NewCode(b.text)
	return b
}

func (b *bundle) newKey(role access.Role) (access.APIKey, string) {
	b.t.Helper()
	o := access.KeyParams{Namespace: access.DefaultNamespace, Name: "ann", Role: role, Actor: "test"}
	if role == access.Worker {
		o.Queues = []string{"q"}
	}
	k, secret, err := b.store.CreateKey(b.t.Context(), o)
	require.NoError(b.t, err)
	return k, secret
}

func (b *bundle) node() http.Handler {
	return rest.HTTP(server.New(server.Options{
		Keys: b.store, Jobs: b.store, Verbs: b.store, Audit: b.store, Logins: b.store, LoginCode: b.code, Version: "v1",
		Log: slog.New(slog.NewTextHandler(b.t.Output(), nil)),
	}).Handler()).Handler
}

func (b *bundle) exec(sql string, args ...any) {
	b.t.Helper()
	_, err := b.pool.Exec(b.t.Context(), sql, args...)
	require.NoError(b.t, err)
}

func (b *bundle) read(to any, sql string, args ...any) {
	b.t.Helper()
	require.NoError(b.t, b.pool.QueryRow(b.t.Context(), sql, args...).Scan(to))
}

// request is one of a browser on this machine, without TLS.
func request(method, path, body string, header ...string) *http.Request {
	r := httptest.NewRequest(method, "http://127.0.0.1:8420/api/v1"+path, strings.NewReader(body))
	r.RemoteAddr = "127.0.0.1:50000"
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return r
}

type answer struct {
	status int
	header http.Header
	body   string
}

func (a answer) json(t *testing.T) (out map[string]any) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(a.body), &out), a.body)
	return out
}

func send(node http.Handler, r *http.Request) answer {
	w := httptest.NewRecorder()
	node.ServeHTTP(w, r)
	body, _ := io.ReadAll(w.Body)
	return answer{w.Code, w.Header(), string(body)}
}

// logIn returns the headers of a browser that has logged in.
func (b *bundle) logIn(node http.Handler, key string) []string {
	b.t.Helper()
	a := send(node, request("POST", "/session", `{"key":"`+key+`"}`))
	require.Equal(b.t, http.StatusCreated, a.status, a.body)
	cookie, err := http.ParseSetCookie(a.header.Get("Set-Cookie"))
	require.NoError(b.t, err)
	return []string{"Cookie", cookie.Name + "=" + cookie.Value, "Belfry-UI", "1", "Sec-Fetch-Site", "same-origin"}
}

func TestALoginSession(t *testing.T) {
	t.Parallel()
	b := setup(t)
	node := b.node()
	a := send(node, request("POST", "/session", `{"key":"`+b.text+`"}`, "User-Agent", "Firefox\x00 140"))
	require.Equal(t, http.StatusCreated, a.status, a.body)
	require.Equal(t, "/api/v1/session", a.header.Get("Location"))
	require.NotContains(t, a.body, "bfs_", "scripts must not see the secret")
	created := a.json(t)
	actor := fmt.Sprintf("key:ann [%s]", access.FormatKeyID(b.key.ID))
	require.Equal(t, map[string]any{
		"id": created["id"], "namespace": "default", "role": "admin", "name": "ann", "actor": actor,
		"created_at": created["created_at"], "expires_at": created["expires_at"], "version": "v1",
	}, created)
	require.Regexp(t, `^login_[0-9a-z]{26}$`, created["id"])
	cookie, err := http.ParseSetCookie(a.header.Get("Set-Cookie"))
	require.NoError(t, err)
	var stored int
	b.read(&stored, `SELECT count(*) FROM login_session x WHERE strpos(x::text, $1) > 0`, cookie.Value[4:20])
	require.Zero(t, stored, "only the hash is stored")

	// Another node accepts it too, as the same actor.
	node = b.node()
	browser := []string{"Cookie", "belfry=" + cookie.Value, "Belfry-UI", "1"}
	require.Equal(t, created, send(node, request("GET", "/session", "", browser...)).json(t))
	made := send(node, request("POST", "/keys", `{"name":"made","role":"viewer"}`, browser...))
	require.Equal(t, http.StatusCreated, made.status, made.body)
	require.Equal(t, actor, made.json(t)["created_by"])
	items := send(node, request("GET", "/sessions", "", browser...)).json(t)["items"].([]any)
	require.Len(t, items, 1)
	session := items[0].(map[string]any)
	require.Equal(t, true, session["current"])
	require.Equal(t, "Firefox 140", session["client"])
	require.Equal(t, created["id"], session["id"])
	require.Equal(t, created["created_at"], session["used_at"])

	// The header Authorization wins, even with a bad key.
	viewer, viewerText := b.newKey(access.Viewer)
	self := send(node, request("GET", "/self", "", append(browser, "Authorization", "Bearer "+viewerText)...))
	require.Equal(t, access.FormatKeyID(viewer.ID), self.json(t)["key"])
	for _, bad := range []string{"Bearer bfk_x", "Bearer " + cookie.Value, "Basic eDp5"} {
		got := send(node, request("GET", "/self", "", append(browser, "Authorization", bad)...))
		require.Equal(t, http.StatusUnauthorized, got.status)
	}
	// A request with a key has no session of its own, but sees those of the key.
	keyed := []string{"Authorization", "Bearer " + b.text}
	require.Equal(t, http.StatusNotFound, send(node, request("GET", "/session", "", keyed...)).status)
	require.Equal(t, http.StatusNotFound, send(node, request("DELETE", "/session", "", keyed...)).status)
	items = send(node, request("GET", "/sessions", "", keyed...)).json(t)["items"].([]any)
	require.Equal(t, false, items[0].(map[string]any)["current"])

	out := send(node, request("DELETE", "/session", "", browser...))
	require.Equal(t, http.StatusNoContent, out.status, out.body)
	require.Equal(t, "belfry=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict", out.header.Get("Set-Cookie"))
	again := send(node, request("GET", "/session", "", browser...))
	require.Equal(t, http.StatusUnauthorized, again.status)
	require.Equal(t, `Bearer realm="belfry"`, again.header.Get("WWW-Authenticate"))
	require.Contains(t, again.body, "log in again")
	page, err := b.store.Audit(t.Context(), access.AuditParams{Namespace: access.DefaultNamespace, Limit: 10})
	require.NoError(t, err)
	found := map[string]string{}
	for _, e := range page.Entries {
		if strings.HasPrefix(e.Action, "session.") {
			found[e.Action] = e.Actor + " " + e.Object
		}
	}
	who := actor + " " + created["id"].(string)
	require.Equal(t, map[string]string{"session.login": who, "session.logout": who}, found)
}

func TestTheCookie(t *testing.T) {
	t.Parallel()
	b := setup(t)
	node := b.node()
	const attributes = "; Path=/; Max-Age=43200; HttpOnly; Secure; SameSite=Strict"
	const local = "; Path=/; Max-Age=43200; HttpOnly; SameSite=Strict"
	for from, want := range map[string]string{
		"http://127.0.0.1:8420": "belfry=bfs_" + local, "http://[::1]:8420": "belfry=bfs_" + local,
		"http://localhost": "belfry=bfs_" + local,
		// TLS, by the node itself or by a proxy that passes Host on.
		"https://127.0.0.1:8420": "__Host-belfry=bfs_" + attributes, "https://localhost": "__Host-belfry=bfs_" + attributes,
		"http://belfry.example.com": "__Host-belfry=bfs_" + attributes,
		"http://10.0.0.1:8420":      "__Host-belfry=bfs_" + attributes,
		"http://127.0.0.1.nip.io":   "__Host-belfry=bfs_" + attributes,
	} {
		r := httptest.NewRequest(http.MethodPost, from+"/api/v1/session", strings.NewReader(`{"key":"`+b.text+`"}`))
		got := send(node, r)
		require.Equal(t, http.StatusCreated, got.status, got.body)
		cookie := got.header.Get("Set-Cookie")
		c, err := http.ParseSetCookie(cookie)
		require.NoError(t, err)
		require.Equal(t, want, strings.Replace(cookie, c.Value[4:], "", 1), from)

		// It works where it was set. The one without Secure works nowhere else.
		r = httptest.NewRequest(http.MethodGet, from+"/api/v1/session", nil)
		r.Header.Set("Cookie", c.Name+"="+c.Value)
		require.Equal(t, http.StatusOK, send(node, r).status, from)
		r = httptest.NewRequest(http.MethodGet, "https://belfry.example.com/api/v1/session", nil)
		r.Header.Set("Cookie", "belfry="+c.Value)
		require.Equal(t, http.StatusUnauthorized, send(node, r).status)
	}
	// A proxy on the same machine that replaces Host, and ends TLS.
	for _, header := range []string{"Origin: https://belfry.example.com", "X-Forwarded-Proto: https"} {
		name, value, _ := strings.Cut(header, ": ")
		r := request("POST", "/session", `{"key":"`+b.text+`"}`, name, value, "Sec-Fetch-Site", "same-origin")
		require.Contains(t, send(node, r).header.Get("Set-Cookie"), attributes, header)
	}
	// A session does not outlive its key.
	b.exec(`UPDATE api_key SET expires_at = now() + interval '90 s'`)
	got := send(node, request("POST", "/session", `{"key":"`+b.text+`"}`))
	c, err := http.ParseSetCookie(got.header.Get("Set-Cookie"))
	require.NoError(t, err)
	require.LessOrEqual(t, c.MaxAge, 90)
}

// TestForgedRequestsAreRefused: the cookie alone changes nothing. A change needs the header Belfry-UI, and must not come
// from a page of another origin.
func TestForgedRequestsAreRefused(t *testing.T) {
	t.Parallel()
	b := setup(t)
	node := b.node()
	cookie := b.logIn(node, b.text)[:2]
	change := func(header ...string) answer {
		return send(node, request("POST", "/keys", `{"name":"k","role":"viewer"}`, append(header, cookie...)...))
	}
	for _, refused := range [][]string{
		{},
		{"Belfry-UI", "true"},
		{"Sec-Fetch-Site", "same-origin"},
		{"Origin", "http://127.0.0.1:8420"},
		{"Belfry-UI", "1", "Sec-Fetch-Site", "cross-site"},
		{"Belfry-UI", "1", "Sec-Fetch-Site", "same-site"},
		{"Belfry-UI", "1", "Origin", "http://evil.example.com"},
		{"Belfry-UI", "1", "Origin", "http://127.0.0.1:9999"},
		{"Belfry-UI", "1", "Origin", "null"},
	} {
		got := change(refused...)
		require.Equal(t, http.StatusForbidden, got.status, "%v: %s", refused, got.body)
		require.Equal(t, "forbidden", got.json(t)["code"])
		require.Regexp(t, "another origin|Belfry-UI: 1", got.json(t)["detail"])
	}
	var keys int
	b.read(&keys, `SELECT count(*) FROM api_key`)
	require.Equal(t, 1, keys)
	for _, accepted := range [][]string{
		{"Belfry-UI", "1", "Sec-Fetch-Site", "same-origin"},
		{"Belfry-UI", "1", "Origin", "http://127.0.0.1:8420"},
		{"Belfry-UI", "1"},
	} {
		require.Equal(t, http.StatusCreated, change(accepted...).status, "%v", accepted)
	}
	require.Equal(t, http.StatusOK, send(node, request("GET", "/keys", "", cookie...)).status, "reading needs neither")
	require.Equal(t, http.StatusForbidden, send(node, request("DELETE", "/session", "", cookie...)).status)
	// A key is not sent by browsers by themselves, so it needs neither.
	keyed := []string{"Authorization", "Bearer " + b.text, "Sec-Fetch-Site", "cross-site"}
	got := send(node, request("POST", "/keys", `{"name":"k","role":"viewer"}`, keyed...))
	require.Equal(t, http.StatusCreated, got.status)
	// No page of another site can log a browser in.
	login := `{"key":"` + b.text + `"}`
	got = send(node, request("POST", "/session", login, "Sec-Fetch-Site", "cross-site"))
	require.Equal(t, http.StatusForbidden, got.status)
	require.Empty(t, got.header.Get("Set-Cookie"))
	for name := range got.header {
		require.NotContains(t, name, "Access-Control", "there is no CORS")
	}
	got = send(node, request("OPTIONS", "/keys", "", "Origin", "https://evil.example.com",
		"Access-Control-Request-Method", "POST"))
	require.Equal(t, http.StatusMethodNotAllowed, got.status)
}

func TestWhoCannotLogIn(t *testing.T) {
	t.Parallel()
	b := setup(t)
	node := b.node()
	revoked, revokedText := b.newKey(access.Admin)
	_, err := b.store.RevokeKey(t.Context(), access.DefaultNamespace, revoked.ID, "test")
	require.NoError(t, err)
	expired, expiredText := b.newKey(access.Admin)
	b.exec(`UPDATE api_key SET expires_at = now() WHERE id = $1`, expired.ID)
	_, worker := b.newKey(access.Worker)
	for body, want := range map[string]int{
		`{"key":"bfk_nonsense"}`: 401, `{"key":"` + access.FormatKey([32]byte{1}) + `"}`: 401,
		`{"key":"` + revokedText + `"}`: 401, `{"key":"` + expiredText + `"}`: 401,
		`{"key":"` + worker + `"}`: 403, `{"code":"x"}`: 401, `{}`: 422, `{"key":""}`: 422,
		`{"key":"` + b.text + `","code":"x"}`: 422,
	} {
		got := send(node, request("POST", "/session", body))
		require.Equal(t, want, got.status, "%s: %s", body, got.body)
		require.Empty(t, got.header.Get("Set-Cookie"))
		require.NotContains(t, got.body, "bfk_n")
	}
	var count int
	b.read(&count, `SELECT count(*) FROM login_session`)
	require.Zero(t, count)
	for _, cookie := range []string{"belfry=x", "belfry=" + access.FormatLogin([32]byte{1}), "belfry=" + b.text} {
		got := send(node, request("GET", "/self", "", "Cookie", cookie))
		require.Equal(t, http.StatusUnauthorized, got.status, "a key is not accepted as a cookie: %s", cookie)
	}
}
