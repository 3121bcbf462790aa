package oidc_test

import (
	"crypto"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/clock"
)

const (
	clientID     = "belfry"
	clientSecret = "of the %/+ client"
	theCode      = "canary-code"
)

// signingKey is made once, because making one takes long.
var signingKey = sync.OnceValue(func() *rsa.PrivateKey {
	k, _ := rsa.GenerateKey(rand.Reader, 2048) // without a key, nothing can be signed and every test fails
	return k
})

var encode = base64.RawURLEncoding.EncodeToString

// idp is an identity provider that can be made hostile: each field replaces what an honest one does.
type idp struct {
	t      *testing.T
	server *httptest.Server

	mu        sync.Mutex
	nonce     string // of the last login
	challenge string // of PKCE
	claims    func(map[string]any)
	sign      func(claims map[string]any) string
	keys      func() any
	answer    func(w http.ResponseWriter, idToken string)
	info      func() map[string]any
	discovery func(map[string]any)
	exchanges int
}

func newIDP(t *testing.T) *idp {
	t.Helper()
	p := &idp{t: t}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		says := map[string]any{
			"issuer": p.issuer(), "authorization_endpoint": p.issuer() + "/auth", "token_endpoint": p.issuer() + "/token",
			"jwks_uri": p.issuer() + "/keys", "userinfo_endpoint": p.issuer() + "/me",
			"id_token_signing_alg_values_supported": []string{"RS256", "HS256", "none"},
		}
		if p.discovery != nil {
			p.discovery(says)
		}
		write(w, says)
	})
	mux.HandleFunc("GET /keys", func(w http.ResponseWriter, _ *http.Request) {
		if p.keys != nil {
			write(w, p.keys())
			return
		}
		write(w, map[string]any{"keys": []any{publicKey()}})
	})
	mux.HandleFunc("GET /me", func(w http.ResponseWriter, _ *http.Request) {
		if p.info == nil {
			http.NotFound(w, nil)
			return
		}
		write(w, p.info())
	})
	mux.HandleFunc("POST /token", p.token)
	p.server = httptest.NewServer(mux)
	t.Cleanup(p.server.Close)
	return p
}

func (p *idp) issuer() string { return p.server.URL }

func write(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}

func publicKey() map[string]any {
	k := signingKey().PublicKey
	return map[string]any{
		"kty": "RSA", "kid": "one", "use": "sig", "alg": "RS256", "n": encode(k.N.Bytes()), "e": encode(big.NewInt(int64(k.E)).Bytes()),
	}
}

// authorize does what the provider's login page does: it remembers the login, and returns where the browser goes.
func (p *idp) authorize(to string) string {
	p.t.Helper()
	u, err := url.Parse(to)
	require.NoError(p.t, err)
	q := u.Query()
	require.Equal(p.t, p.issuer()+"/auth", u.Scheme+"://"+u.Host+u.Path)
	require.Equal(p.t, "S256", q.Get("code_challenge_method"))
	require.Equal(p.t, "code", q.Get("response_type"))
	require.Equal(p.t, clientID, q.Get("client_id"))
	require.Equal(p.t, "openid email", q.Get("scope"))
	p.mu.Lock()
	defer p.mu.Unlock()
	p.nonce, p.challenge = q.Get("nonce"), q.Get("code_challenge")
	return q.Get("redirect_uri") + "?" + url.Values{"code": {theCode}, "state": {q.Get("state")}}.Encode()
}

// token trades a code. An honest provider demands the verifier of PKCE.
func (p *idp) token(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.exchanges++
	id, secret, _ := r.BasicAuth()
	id, _ = url.QueryUnescape(id)
	secret, _ = url.QueryUnescape(secret)
	hash := sha256.Sum256([]byte(r.FormValue("code_verifier")))
	if id != clientID || secret != clientSecret || r.FormValue("code") != theCode || encode(hash[:]) != p.challenge ||
		r.FormValue("redirect_uri") != "http://127.0.0.1:8420/auth/oidc/callback" {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"error":"invalid_grant"}`)
		return
	}
	now := clock.Now()
	claims := map[string]any{
		"iss": p.issuer(), "aud": clientID, "sub": "4711", "nonce": p.nonce, "email": "ann@example.com", "email_verified": true,
		"groups": []string{"admins", "others"}, "iat": now.Unix(), "exp": now.Add(time.Hour).Unix(),
	}
	if p.claims != nil {
		p.claims(claims)
	}
	sign := signRS256
	if p.sign != nil {
		sign = p.sign
	}
	if p.answer != nil {
		p.answer(w, sign(claims))
		return
	}
	write(w, map[string]any{"access_token": "a", "token_type": "Bearer", "id_token": sign(claims)})
}

// jwt returns a token with a header and a signature.
func jwt(header, claims map[string]any, sign func(signed string) []byte) string {
	head, _ := json.Marshal(header)
	body, _ := json.Marshal(claims)
	signed := encode(head) + "." + encode(body)
	return signed + "." + encode(sign(signed))
}

func signRS256(claims map[string]any) string { return signWith(signingKey(), claims) }

func signWith(key *rsa.PrivateKey, claims map[string]any) string {
	return jwt(map[string]any{"alg": "RS256", "kid": "one"}, claims, func(signed string) []byte {
		hash := sha256.Sum256([]byte(signed))
		out, _ := rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, hash[:]) // no signature is accepted nowhere
		return out
	})
}

func signHS256(secret []byte) func(map[string]any) string {
	return func(claims map[string]any) string {
		return jwt(map[string]any{"alg": "HS256", "kid": "one"}, claims, func(signed string) []byte {
			h := hmac.New(sha256.New, secret)
			h.Write([]byte(signed))
			return h.Sum(nil)
		})
	}
}

func signNone(claims map[string]any) string {
	return jwt(map[string]any{"alg": "none", "kid": "one"}, claims, func(string) []byte { return nil })
}

// large is a string that is larger than an answer may be, and smaller than what the libraries refuse by themselves.
func large() string { return strings.Repeat("x", 300<<10) }
