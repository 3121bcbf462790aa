package oidc_test

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/clock"
)

// claim returns a provider whose tokens have another claim. nil removes it.
func claim(name string, value any) func(*idp) {
	return func(p *idp) {
		p.claims = func(c map[string]any) {
			if c[name] = value; value == nil {
				delete(c, name)
			}
		}
	}
}

// hostile are providers, or those who can change its answers, by what they do.
var hostile = map[string]func(*idp){
	"no signature": func(p *idp) { p.sign = signNone },
	"no signature, and an algorithm": func(p *idp) {
		p.sign = func(c map[string]any) string {
			return jwt(map[string]any{"alg": "RS256", "kid": "one"}, c, func(string) []byte { return nil })
		}
	},
	"another key of the same name": func(p *idp) {
		key, err := rsa.GenerateKey(rand.Reader, 2048)
		require.NoError(p.t, err)
		p.sign = func(c map[string]any) string { return signWith(key, c) }
	},
	"a changed token": func(p *idp) {
		p.sign = func(c map[string]any) string {
			good := strings.Split(signRS256(c), ".")
			c["groups"] = []string{"admins", "more"}
			return good[0] + "." + strings.Split(signRS256(c), ".")[1] + "." + good[2]
		}
	},
	"the public key as a shared secret": func(p *idp) {
		der, err := x509.MarshalPKIXPublicKey(&signingKey().PublicKey)
		require.NoError(p.t, err)
		p.sign = signHS256(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
	},
	"the client's secret as the key": func(p *idp) { p.sign = signHS256([]byte(clientSecret)) },
	"a shared secret among the keys": func(p *idp) {
		p.sign = signHS256([]byte("anyone can make a token with this, of 32 bytes"))
		p.keys = func() any {
			return map[string]any{"keys": []any{map[string]any{
				"kty": "oct", "kid": "one", "k": encode([]byte("anyone can make a token with this, of 32 bytes")),
			}}}
		}
	},
	"another issuer":            claim("iss", "https://another.example.com"),
	"no issuer":                 claim("iss", nil),
	"another audience":          claim("aud", "another"),
	"no audience":               claim("aud", nil),
	"several audiences, no azp": claim("aud", []string{clientID, "another"}),
	"issued to another client":  claim("azp", "another"),
	"another nonce":             claim("nonce", "another"),
	"no nonce":                  claim("nonce", nil),
	"expired":                   claim("exp", clock.Now().Add(-time.Minute).Unix()),
	"without an end":            claim("exp", nil),
	"not yet valid":             claim("nbf", clock.Now().Add(time.Hour).Unix()),
	"no subject":                claim("sub", nil),
	"a subject that is long":    claim("sub", strings.Repeat("x", 256)),
	"a subject of control text": claim("sub", "a\x00b"),
	"groups that are no texts":  claim("groups", map[string]any{"admins": true}),
	"no token": func(p *idp) {
		p.answer = func(w http.ResponseWriter, _ string) {
			write(w, map[string]any{"access_token": "a", "token_type": "Bearer"})
		}
	},
	"not JSON": func(p *idp) {
		p.answer = func(w http.ResponseWriter, _ string) { _, _ = w.Write([]byte("<html>")) }
	},
	"a large token": claim("padding", large()),
	"many keys": func(p *idp) {
		p.keys = func() any { return map[string]any{"keys": []any{publicKey()}, "padding": large()} }
	},
	"a description of another issuer": func(p *idp) {
		p.discovery = func(d map[string]any) { d["issuer"] = "https://another.example.com" }
	},
	"a large description": func(p *idp) {
		p.discovery = func(d map[string]any) { d["padding"] = large() }
	},
	"no address for keys": func(p *idp) {
		p.discovery = func(d map[string]any) { delete(d, "jwks_uri") }
	},
	"a redirect to another address": func(p *idp) {
		other := httptest.NewServer(http.HandlerFunc(p.token))
		p.t.Cleanup(other.Close)
		p.discovery = func(d map[string]any) {
			away := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
			p.t.Cleanup(away.Close)
			d["token_endpoint"] = away.URL
		}
	},
	"userinfo of another person": func(p *idp) {
		p.claims = func(c map[string]any) { delete(c, "groups") }
		p.info = func() map[string]any { return map[string]any{"sub": "4712", "groups": []string{"admins"}} }
	},
}

// TestHostileProvider (S20): nothing that a provider or its impostor sends logs anyone in, except a token that is right
// in every part.
func TestHostileProvider(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.logIn(b.node()) // an honest one does
	before := b.sessions()
	for name, attack := range hostile {
		b.idp = newIDP(t)
		attack(b.idp)
		node := b.node()
		got := send(node, "GET", base+"/auth/oidc", "")
		if got.status == http.StatusSeeOther {
			back := b.idp.authorize(got.header.Get("Location"))
			got = send(node, "GET", back, "", "Cookie", "belfry-login="+got.cookies["belfry-login"].Value)
		}
		require.Contains(t, []int{http.StatusUnauthorized, http.StatusServiceUnavailable}, got.status, "%s: %s", name, got.body)
		require.Nil(t, got.cookies["belfry"], name)
		require.Equal(t, before, b.sessions(), name)
		require.Contains(t, got.body, "log in", "%s: what to do", name)
	}
	require.NotContains(t, b.log.String(), theCode)
	require.NotContains(t, b.log.String(), clientSecret)
}

// TestPKCE (S20): the code alone is worth nothing. The provider of these tests refuses an exchange without the verifier,
// and each login has its own.
func TestPKCE(t *testing.T) {
	t.Parallel()
	b := setup(t)
	node := b.node()
	back, cookie := b.start(node, "")
	first := b.idp.challenge
	require.Len(t, first, 43)
	b.start(node, "")
	require.NotEqual(t, first, b.idp.challenge)
	got := send(node, "GET", back, "", "Cookie", cookie)
	require.Equal(t, http.StatusUnauthorized, got.status, "the verifier of another login: %s", got.body)
	require.Equal(t, http.StatusSeeOther, b.try(node).status)
}

// TestStateOfAnotherBrowser (S20): a link with a code works in the browser that started the login, and there once.
func TestStateOfAnotherBrowser(t *testing.T) {
	t.Parallel()
	b := setup(t)
	node := b.node()
	_, victim := b.start(node, "")
	back, mine := b.start(node, "")
	u, err := url.Parse(back)
	require.NoError(t, err)
	state := u.Query().Get("state")
	for name, tc := range map[string]struct{ url, cookie string }{
		"no cookie":              {back, ""},
		"cookie of another":      {back, victim},
		"forged cookie":          {back, "belfry-login=" + encode([]byte(strings.Repeat("x", 100)))},
		"changed cookie":         {back, mine[:len(mine)-2] + "xx"},
		"no state":               {strings.Replace(back, "state="+state, "", 1), mine},
		"empty state":            {strings.Replace(back, state, "", 1), mine},
		"another state":          {strings.Replace(back, state, state+"x", 1), mine},
		"the name of HTTPS":      {back, "__Host-" + mine},
		"a page token as state":  {back, "belfry-login=" + strings.Repeat("A", 200)},
		"larger than any cookie": {back, "belfry-login=" + strings.Repeat("A", 5000)},
	} {
		before := b.idp.exchanges
		got := send(node, "GET", tc.url, "", "Cookie", tc.cookie)
		require.Equal(t, http.StatusUnauthorized, got.status, "%s: %s", name, got.body)
		require.Nil(t, got.cookies["belfry"], name)
		require.Equal(t, before, b.idp.exchanges, "%s: the provider is not asked", name)
	}
	for query, want := range map[string]int{
		"&error=access_denied": http.StatusForbidden, "&iss=https%3A%2F%2Fanother.example.com": http.StatusUnauthorized,
		"&error=" + url.QueryEscape("<script>"): http.StatusForbidden,
	} {
		got := send(node, "GET", back+query, "", "Cookie", mine)
		require.Equal(t, want, got.status, query)
		require.NotContains(t, got.body, "<script>")
	}
	require.Zero(t, b.sessions())
	got := send(node, "GET", back, "", "Cookie", mine)
	require.Equal(t, http.StatusSeeOther, got.status, got.body)
	require.Equal(t, 1, b.sessions())
}

// TestReplay (S20): a login is completed once, on whichever node, even by a provider that accepts its code again.
func TestReplay(t *testing.T) {
	t.Parallel()
	b := setup(t)
	back, cookie := b.start(b.node(), "")
	require.Equal(t, http.StatusSeeOther, send(b.node(), "GET", back, "", "Cookie", cookie).status)
	got := send(b.node(), "GET", back, "", "Cookie", cookie)
	require.Equal(t, http.StatusUnauthorized, got.status, got.body)
	require.Contains(t, got.body, "completed before")
	require.Nil(t, got.cookies["belfry"])
	require.Equal(t, 2, b.idp.exchanges)
	require.Equal(t, 1, b.sessions())
}

// TestForgedRequestsWithTheSessionOfAPerson (S13): the cookie alone changes nothing, and no answer can be framed.
func TestForgedRequestsWithTheSessionOfAPerson(t *testing.T) {
	t.Parallel()
	b := setup(t)
	node := b.node()
	session := b.logIn(node)[:2]
	for _, refused := range [][]string{
		{},
		{"Belfry-UI", "true"},
		{"Sec-Fetch-Site", "same-origin"},
		{"Belfry-UI", "1", "Sec-Fetch-Site", "cross-site"},
		{"Belfry-UI", "1", "Sec-Fetch-Site", "same-site"},
		{"Belfry-UI", "1", "Origin", "http://evil.example.com"},
		{"Belfry-UI", "1", "Origin", b.idp.issuer()},
		{"Belfry-UI", "1", "Origin", "null"},
	} {
		for path, body := range map[string]string{
			"/keys": `{"name":"k","role":"viewer"}`, "/session:switch": `{"namespace":"other"}`, "/sessions:revoke": "",
		} {
			got := send(node, "POST", base+"/api/v1"+path, body, append(refused, session...)...)
			require.Equal(t, http.StatusForbidden, got.status, "%v %s: %s", refused, path, got.body)
		}
	}
	require.Equal(t, 1, b.sessions())
	back, cookie := b.start(node, "")
	for _, a := range []answer{
		send(node, "GET", base+"/auth/oidc", ""), send(node, "GET", back, ""), send(node, "GET", back, "", "Cookie", cookie),
	} {
		require.Equal(t, "default-src 'none'; frame-ancestors 'none'", a.header.Get("Content-Security-Policy"))
		require.Equal(t, "no-store", a.header.Get("Cache-Control"))
		require.Equal(t, "no-referrer", a.header.Get("Referrer-Policy"))
		for name := range a.header {
			require.NotContains(t, name, "Access-Control", "there is no CORS")
		}
	}
	require.Equal(t, http.StatusMethodNotAllowed, send(node, "POST", base+"/auth/oidc/callback", "").status)
}

// TestNobodyWithoutARole: a person whom the provider knows, and no grant.
func TestNobodyWithoutARole(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, roles := range []string{"guests = default:viewer", "admins = missing:admin"} {
		b.roles = roles
		got := b.try(b.node())
		require.Equal(t, http.StatusForbidden, got.status, roles)
		require.Contains(t, got.body, "none of your groups")
		require.Nil(t, got.cookies["belfry"])
	}
	require.Zero(t, b.sessions())
	require.Contains(t, b.log.String(), `msg="login refused" user=ann@example.com subject=4711`)
	b.roles = "* = default:viewer"
	require.Equal(t, http.StatusSeeOther, b.try(b.node()).status)
}

// TestStartsAreLimited: an address cannot start logins without end, and others can meanwhile.
func TestStartsAreLimited(t *testing.T) {
	t.Parallel()
	b := setup(t)
	node := b.node()
	require.Eventually(t, func() bool {
		got := send(node, "GET", base+"/auth/oidc", "")
		return got.status == http.StatusTooManyRequests && got.header.Get("Retry-After") == "1"
	}, time.Minute, time.Microsecond)
	r := httptest.NewRequest(http.MethodGet, base+"/auth/oidc", nil)
	r.RemoteAddr = "203.0.113.5:50000"
	w := httptest.NewRecorder()
	node.ServeHTTP(w, r)
	require.Equal(t, http.StatusSeeOther, w.Code)
}
