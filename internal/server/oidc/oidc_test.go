package oidc_test

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/pgtest"
	"github.com/belfry-dev/belfry/internal/server"
	"github.com/belfry-dev/belfry/internal/server/oidc"
	"github.com/belfry-dev/belfry/internal/server/rest"
)

const base = "http://127.0.0.1:8420"

// bundle is a database and an identity provider. Each node that it starts has an empty cache.
type bundle struct {
	t     *testing.T
	pool  *pgxpool.Pool // as the owner
	store *pgtest.Store
	idp   *idp
	roles string
	log   bytes.Buffer
	other uuid.UUID // a namespace
}

func setup(t *testing.T) *bundle {
	t.Helper()
	b := &bundle{t: t, pool: pgtest.New(t), idp: newIDP(t), roles: "admins = default:admin"}
	b.store = pgtest.NewStore(pgtest.AsServer(t, b.pool))
	require.NoError(t, b.store.CreateHistory(t.Context(), 1))
	n, err := pgtest.NewStore(b.pool).CreateNamespace(t.Context(), "other")
	require.NoError(t, err)
	b.other = n.ID
	return b
}

func (b *bundle) node(change ...func(*server.OIDC)) http.Handler {
	b.t.Helper()
	grants, err := access.ParseGrants(b.roles)
	require.NoError(b.t, err)
	o := &server.OIDC{Grants: grants, Config: oidc.Config{
		Issuer: b.idp.issuer(), ClientID: clientID, ClientSecret: clientSecret, Scopes: []string{"openid", "email"},
		NameClaim: "email", GroupsClaim: "groups",
	}}
	for _, f := range change {
		f(o)
	}
	if o.Issuer == "" {
		o = nil
	}
	return rest.HTTP(server.New(server.Options{
		Keys: b.store, Jobs: b.store, Verbs: b.store, Audit: b.store, Logins: b.store, Version: "v1", OIDC: o,
		ReportKeys: access.ReportKeys{[]byte("of the cluster")},
		Log:        slog.New(slog.NewTextHandler(&b.log, nil)),
	}).Handler()).Handler
}

func (b *bundle) read(to any, sql string, args ...any) {
	b.t.Helper()
	require.NoError(b.t, b.pool.QueryRow(b.t.Context(), sql, args...).Scan(to))
}

// sessions returns how many there are.
func (b *bundle) sessions() (n int) {
	b.read(&n, `SELECT count(*) FROM login_session`)
	return n
}

type answer struct {
	status  int
	header  http.Header
	body    string
	cookies map[string]*http.Cookie
}

func (a answer) json(t *testing.T) (out map[string]any) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(a.body), &out), a.body)
	return out
}

// send sends a request of a browser on this machine, without TLS.
func send(node http.Handler, method, url, body string, header ...string) answer {
	r := httptest.NewRequest(method, url, strings.NewReader(body))
	r.RemoteAddr = "127.0.0.1:50000"
	r.Header.Set("Accept", "text/html")
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	node.ServeHTTP(w, r)
	text, _ := io.ReadAll(w.Body)
	out := answer{w.Code, w.Header(), string(text), map[string]*http.Cookie{}}
	for _, c := range w.Result().Cookies() {
		out.cookies[c.Name] = c
	}
	return out
}

// start begins a login, and returns where the provider sends the browser, and the cookie that it has then.
func (b *bundle) start(node http.Handler, query string) (back, cookie string) {
	b.t.Helper()
	got := send(node, "GET", base+"/auth/oidc"+query, "")
	require.Equal(b.t, http.StatusSeeOther, got.status, got.body)
	state := got.cookies["belfry-login"]
	require.NotNil(b.t, state)
	require.Equal(b.t, http.SameSiteLaxMode, state.SameSite)
	require.True(b.t, state.HttpOnly)
	require.Equal(b.t, 600, state.MaxAge)
	for _, secret := range []string{"nonce", "4711", b.idp.nonce} {
		require.False(b.t, secret != "" && strings.Contains(state.Value, secret))
	}
	return b.idp.authorize(got.header.Get("Location")), "belfry-login=" + state.Value
}

// try logs in.
func (b *bundle) try(node http.Handler) answer {
	b.t.Helper()
	back, cookie := b.start(node, "")
	return send(node, "GET", back, "", "Cookie", cookie)
}

// logIn returns the headers of a browser that has logged in.
func (b *bundle) logIn(node http.Handler) []string {
	b.t.Helper()
	got := b.try(node)
	require.Equal(b.t, http.StatusSeeOther, got.status, got.body)
	return browser(got)
}

func browser(a answer) []string {
	return []string{"Cookie", "belfry=" + a.cookies["belfry"].Value, "Belfry-UI", "1", "Sec-Fetch-Site", "same-origin"}
}

func TestAPersonLogsIn(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.roles = "admins = default:viewer; admins = default:admin; others = default:operator; admins = other:editor"
	one := b.node()
	back, cookie := b.start(one, "?next=/ui/jobs?name=a%2526b")
	got := send(b.node(), "GET", back, "", "Cookie", cookie, "Sec-Fetch-Site", "cross-site", "User-Agent", "Firefox")
	require.Equal(t, http.StatusSeeOther, got.status, got.body)
	require.Equal(t, "/ui/jobs?name=a%26b", got.header.Get("Location"))
	require.Equal(t, -1, got.cookies["belfry-login"].MaxAge, "the state is removed")
	session := got.cookies["belfry"]
	require.Equal(t, http.SameSiteStrictMode, session.SameSite)
	require.True(t, session.HttpOnly)
	require.Equal(t, 12*3600, session.MaxAge)

	person := access.Person{Issuer: b.idp.issuer(), Subject: "4711"}
	actor := "user:ann@example.com [" + access.FormatPersonID(person.ID()) + "]"
	node := b.node()
	self := send(node, "GET", base+"/api/v1/self", "", browser(got)...)
	require.Equal(t, map[string]any{
		"namespace": "default", "key": "", "name": "ann@example.com", "role": "admin", "subject": "4711", "actor": actor,
	}, self.json(t))
	described := send(node, "GET", base+"/api/v1/session", "", browser(got)...).json(t)
	require.Equal(t, "4711", described["subject"])
	require.Equal(t, actor, described["actor"])
	require.Equal(t, []any{
		map[string]any{"name": "default", "role": "admin"}, map[string]any{"name": "other", "role": "editor"},
	}, described["namespaces"])

	// What the person does has the person's name.
	made := send(node, "POST", base+"/api/v1/keys", `{"name":"k","role":"viewer"}`, browser(got)...)
	require.Equal(t, http.StatusCreated, made.status, made.body)
	require.Equal(t, actor, made.json(t)["created_by"])
	var entries []string
	b.read(&entries, `SELECT array_agg(action || ' ' || actor ORDER BY seq) FROM audit_log`)
	require.Equal(t, []string{"session.login " + actor, "key.create " + actor}, entries[len(entries)-2:])
	var detail string
	b.read(&detail, `SELECT detail FROM audit_log WHERE action = 'session.login'`)
	require.JSONEq(t, `{"client":"Firefox","issuer":"`+b.idp.issuer()+`","subject":"4711"}`, detail)
	for _, filter := range []string{"ann@example.com", access.FormatPersonID(person.ID())} {
		page, err := b.store.Audit(t.Context(), access.AuditParams{Namespace: access.DefaultNamespace, Actor: filter, Limit: 9})
		require.NoError(t, err)
		require.Len(t, page.Entries, 2, filter)
	}

	// A session ends as that of a key does.
	list := send(node, "GET", base+"/api/v1/sessions", "", browser(got)...).json(t)["items"].([]any)
	require.Len(t, list, 1)
	require.Equal(t, "ann@example.com", list[0].(map[string]any)["name"])
	require.Equal(t, true, list[0].(map[string]any)["current"])
	out := send(node, "DELETE", base+"/api/v1/session", "", browser(got)...)
	require.Equal(t, http.StatusNoContent, out.status, out.body)
	require.Equal(t, http.StatusUnauthorized, send(node, "GET", base+"/api/v1/self", "", browser(got)...).status)
	require.Zero(t, b.sessions())
}

// TestClaimsOfUserInfo: many providers have the groups there, and not in the token. A name that was not verified is not
// used.
func TestClaimsOfUserInfo(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.idp.claims = func(c map[string]any) {
		delete(c, "groups")
		delete(c, "email")
		delete(c, "email_verified")
	}
	info := map[string]any{"sub": "4711", "groups": "admins", "email": "boss@example.com", "email_verified": false}
	b.idp.info = func() map[string]any { return info }
	node := b.node()
	self := send(node, "GET", base+"/api/v1/self", "", b.logIn(node)...).json(t)
	require.Equal(t, "4711", self["name"])
	require.Equal(t, "admin", self["role"])
	info["email_verified"] = true
	self = send(node, "GET", base+"/api/v1/self", "", b.logIn(node)...).json(t)
	require.Equal(t, "boss@example.com", self["name"])
}

// TestTheConfigurationDecides: the role of a live session follows the configuration of the node, and ends with it.
func TestTheConfigurationDecides(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.roles = "admins = default:admin; others = default:viewer"
	session := b.logIn(b.node())
	role := func(change ...func(*server.OIDC)) any {
		got := send(b.node(change...), "GET", base+"/api/v1/self", "", session...)
		if got.status != http.StatusOK {
			return got.status
		}
		return got.json(t)["role"]
	}
	require.Equal(t, "admin", role())
	b.roles = "others = default:viewer"
	require.Equal(t, "viewer", role(), "the group lost its role")
	b.roles = "admins = default:operator; * = default:viewer"
	require.Equal(t, "operator", role())
	b.roles = "* = default:viewer"
	require.Equal(t, "viewer", role())
	b.roles = "admins = other:admin"
	require.Equal(t, http.StatusUnauthorized, role(), "nothing is left in this namespace")
	b.roles = "admins = default:admin"
	require.Equal(t, http.StatusUnauthorized, role(func(o *server.OIDC) { o.Issuer = "https://another.example.com" }))
	require.Equal(t, http.StatusUnauthorized, role(func(o *server.OIDC) { o.Issuer = "" }), "no provider")
	require.Equal(t, "admin", role())
	// A group that no grant named at the login is not remembered.
	b.idp.claims = func(c map[string]any) { c["groups"] = []string{"admins", "secret society"} }
	session = b.logIn(b.node())
	var known []string
	b.read(&known, `SELECT groups FROM login_session ORDER BY created_at DESC LIMIT 1`)
	require.Equal(t, []string{"admins"}, known)
}

func TestSwitchTheNamespace(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.roles = "admins = other:operator; admins = default:viewer; admins = missing:admin"
	node := b.node()
	session := b.logIn(node)
	change := func(to string, session []string) answer {
		return send(node, "POST", base+"/api/v1/session:switch", `{"namespace":"`+to+`"}`, session...)
	}
	for _, to := range []string{"missing", "nothing", "Other"} {
		require.Equal(t, http.StatusForbidden, change(to, session).status, to)
	}
	var before, after string
	b.read(&before, `SELECT expires_at::text FROM login_session`)
	got := change("other", session)
	require.Equal(t, http.StatusCreated, got.status, got.body)
	require.Equal(t, "operator", got.json(t)["role"])
	b.read(&after, `SELECT expires_at::text FROM login_session`)
	require.Equal(t, before, after, "it does not last longer")
	require.Equal(t, http.StatusUnauthorized, send(node, "GET", base+"/api/v1/self", "", session...).status, "the old one")
	self := send(node, "GET", base+"/api/v1/self", "", browser(got)...).json(t)
	require.Equal(t, "other", self["namespace"])
	var count int
	b.read(&count, `SELECT count(*) FROM audit_log WHERE (namespace_id = $1) = (action = 'session.login')
		AND action IN ('session.login', 'session.logout')`, b.other)
	require.Equal(t, 2, count, "a logout here and a login there")

	_, key, err := b.store.CreateKey(t.Context(), access.KeyParams{
		Namespace: access.DefaultNamespace, Name: "k", Role: access.Admin, Actor: "test",
	})
	require.NoError(t, err)
	keyed := send(node, "POST", base+"/api/v1/session", `{"key":"`+key+`"}`)
	require.Equal(t, http.StatusConflict, change("other", browser(keyed)).status, "a key has one namespace")
}

// TestAnAdminEndsTheSessionsOfAPerson, who may have left. Others cannot.
func TestAnAdminEndsTheSessionsOfAPerson(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.roles = "admins = default:viewer"
	node := b.node()
	for range access.MaxLogins + 1 {
		b.logIn(node)
	}
	session := b.logIn(node)
	require.Equal(t, access.MaxLogins, b.sessions(), "the oldest end")
	_, key, err := b.store.CreateKey(t.Context(), access.KeyParams{
		Namespace: access.DefaultNamespace, Name: "k", Role: access.Admin, Actor: "test",
	})
	require.NoError(t, err)
	admin := []string{"Authorization", "Bearer " + key}
	for _, call := range []string{"GET /sessions", "POST /sessions:revoke"} {
		method, path, _ := strings.Cut(call, " ")
		require.Equal(t, http.StatusForbidden, send(node, method, base+"/api/v1"+path+"?subject=4711", "", session...).status)
	}
	list := send(node, "GET", base+"/api/v1/sessions?subject=4711", "", admin...).json(t)["items"].([]any)
	require.Len(t, list, access.MaxLogins)
	person := access.FormatPersonID(access.Person{Issuer: b.idp.issuer(), Subject: "4711"}.ID())
	var operation uuid.UUID
	b.read(&operation, `INSERT INTO operation (id, namespace_id, kind, filter, failed_until, rate, state, count, actor,
		created_at, next_at) SELECT gen_random_uuid(), id, 'discard', '{}', now(), 1, 'running', 1, $1, now(), now()
		FROM namespace WHERE id = $2 RETURNING id`, "user:ann ["+person+"]", access.DefaultNamespace)
	revoke := func(subject string) string {
		return send(node, "POST", base+"/api/v1/sessions:revoke?subject="+subject, "", admin...).body
	}
	require.JSONEq(t, `{"revoked":0,"aborted_operations":0}`, revoke("4712"))
	require.JSONEq(t, `{"revoked":20,"aborted_operations":1}`, revoke("4711"))
	var state string
	b.read(&state, `SELECT state FROM operation WHERE id = $1`, operation)
	require.Equal(t, "aborted", state)
	require.Equal(t, http.StatusUnauthorized, send(node, "GET", base+"/api/v1/self", "", session...).status)
	var object string
	b.read(&object, `SELECT object FROM audit_log WHERE action = 'session.revoke'`)
	require.Equal(t, person, object)
}

// TestTheProviderIsDown: the browser sees why, and keys log in.
func TestTheProviderIsDown(t *testing.T) {
	t.Parallel()
	b := setup(t)
	node := b.node()
	back, cookie := b.start(node, "")
	down := b.node(func(o *server.OIDC) { o.Issuer = "http://127.0.0.1:1" })
	got := send(down, "GET", base+"/auth/oidc", "")
	require.Equal(t, http.StatusServiceUnavailable, got.status)
	require.Contains(t, got.body, "the identity provider does not answer; try again, or log in with a key")
	require.Equal(t, "text/html; charset=utf-8", got.header.Get("Content-Type"))
	require.Contains(t, got.header.Get("Content-Security-Policy"), "frame-ancestors 'none'")
	require.Empty(t, got.cookies)
	problem := send(down, "GET", base+"/auth/oidc", "", "Accept", "*/*")
	require.Equal(t, "unavailable", problem.json(t)["code"])
	require.Contains(t, b.log.String(), "connection refused")

	b.idp.server.Close()
	got = send(node, "GET", back, "", "Cookie", cookie)
	require.Equal(t, http.StatusServiceUnavailable, got.status, got.body)
	require.Nil(t, got.cookies["belfry"])
	require.NotContains(t, b.log.String(), theCode)
	_, key, err := b.store.CreateKey(t.Context(), access.KeyParams{
		Namespace: access.DefaultNamespace, Name: "k", Role: access.Viewer, Actor: "test",
	})
	require.NoError(t, err)
	require.Equal(t, http.StatusCreated, send(down, "POST", base+"/api/v1/session", `{"key":"`+key+`"}`).status)
}

func TestWithoutAProvider(t *testing.T) {
	t.Parallel()
	b := setup(t)
	node := b.node(func(o *server.OIDC) { o.Issuer = "" })
	require.Equal(t, http.StatusNotFound, send(node, "GET", base+"/auth/oidc", "").status)
	require.Equal(t, http.StatusNotFound, send(node, "GET", base+"/auth/oidc/callback?code=x&state=y", "").status)
}
