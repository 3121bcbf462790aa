package http_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	nethttp "net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	webhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/target/guard"
	"github.com/belfry-dev/belfry/internal/target/http"
	"github.com/belfry-dev/belfry/internal/target/secret"
)

// vault contains the secrets of the namespace of the attempts.
type vault map[string][]string

func (v vault) Secret(_ context.Context, namespace uuid.UUID, name string, _ access.SecretUse) (access.Secret, error) {
	if values := v[name]; values != nil && namespace == uuid.Nil {
		return access.Secret{Values: values}, nil
	}
	return access.Secret{}, secret.ErrNone
}

// seen is a request with its body.
type seen struct {
	header nethttp.Header
	body   string
}

// listen starts a server that passes on the requests it receives.
func listen(t *testing.T) (string, <-chan seen) {
	t.Helper()
	got := make(chan seen, 10)
	srv := httptest.NewServer(nethttp.HandlerFunc(func(_ nethttp.ResponseWriter, r *nethttp.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- seen{r.Header, string(body)}
	}))
	t.Cleanup(srv.Close)
	return srv.URL, got
}

func TestStoredHeaders(t *testing.T) {
	t.Parallel()
	url, got := listen(t)
	target := newTarget(t, http.Options{Secrets: vault{"token": {"t0ken", "old"}, "broken": {"a\nb"}}})
	for config, want := range map[string]string{
		`"auth": {"bearer": {"secret": "token"}}`: "Bearer t0ken",
		`"auth": {"basic": {"user": "me", "password": {"secret": "token"}}}`: "Basic " +
			base64.StdEncoding.EncodeToString([]byte("me:t0ken")),
		`"headers": {"authorization": {"secret": "token"}}`:                     "t0ken",
		`"headers": {"Authorization": "plain", "X-Other": {"secret": "token"}}`: "plain",
	} {
		a := attempt(fmt.Sprintf(`{"url": %q, %s}`, url, config))
		require.NoError(t, target.Check([]byte(a.Config)))
		require.Equal(t, job.Succeeded, target.Deliver(t.Context(), a).Kind)
		require.Equal(t, want, (<-got).header.Get("Authorization"))
	}
	out := target.Deliver(t.Context(), attempt(fmt.Sprintf(`{"url": %q, "auth": {"bearer": {"secret": "none"}}}`, url)))
	require.Equal(t,
		job.Outcome{
			Kind: job.Failed, Retryable: true,
			Message: "not sent: the secret none does not exist; store it: belfry secret set none",
		}, out)
	out = target.Deliver(t.Context(),
		attempt(fmt.Sprintf(`{"url": %q, "auth": {"bearer": {"secret": "broken"}}}`, url)))
	require.False(t, out.Retryable)
	require.Contains(t, out.Message, "line break")
	foreign := attempt(fmt.Sprintf(`{"url": %q, "auth": {"bearer": {"secret": "token"}}}`, url))
	foreign.Namespace = uuid.New()
	require.Contains(t, target.Deliver(t.Context(), foreign).Message, "does not exist")
	require.Empty(t, got)
}

func TestCheckAuth(t *testing.T) {
	t.Parallel()
	target := newTarget(t, http.Options{})
	for config, problem := range map[string]string{
		`"auth": {}`: "one way",
		`"auth": {"bearer": {"secret": "a"}, "basic": {"user": "u", "password": {"secret": "a"}}}`: "one way",
		`"auth": {"bearer": "canary-token"}`:                                                 "does not name a secret",
		`"auth": {"digest": {}}`:                                                             "no such way",
		`"auth": {"basic": {"user": "a:b", "password": {"secret": "a"}}}`:                    "not a user's name",
		`"auth": {"basic": {"user": "a", "password": "canary-password"}}`:                    "does not name a secret",
		`"auth": {"bearer": {"secret": "a"}}, "headers": {"authorization": "x"}`:             "Authorization too",
		`"auth": {"bearer": {"secret": "a"}}, "headers": {"authorization": {"secret": "b"}}`: "Authorization too",
		`"headers": {"x-a": {"secret": "NO"}}`: "not an object of strings " +
			"and secrets",
		`"headers": {"x-a": {"secret": "a"}, "X-A": "b"}`: "there twice",
		`"signing": "canary-key"`:                         "does not name a secret",
		`"signing": true`:                                 "does not name a secret",
		`"client_certificate": {"secret": "a"}`:           "needs https",
		`"keep_response": 1`:                              "neither true nor false",
	} {
		err := target.Check([]byte(`{"url": "http://example.com", ` + config + `}`))
		require.ErrorContains(t, err, problem, config)
		require.NotContains(t, err.Error(), "canary")
	}
	require.NoError(t, target.Check([]byte(`{"url": "https://x.example", "signing": false,
		"client_certificate": {"secret": "a"}, "keep_response": true}`)))
}

// sign is a second implementation of the standard, checked against the standard's test vector.
func sign(key []byte, id string, at int64, body string) string {
	m := hmac.New(sha256.New, key)
	_, _ = fmt.Fprintf(m, "%s.%d.%s", id, at, body)
	return "v1," + base64.StdEncoding.EncodeToString(m.Sum(nil))
}

// TestSignature (S9): requests are signed with the job's secret or the namespace's, with both values while
// a secret is rotated. The standard's own code verifies them, and rejects the replay of an old request.
func TestSignature(t *testing.T) {
	t.Parallel()
	const known = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	key, err := base64.StdEncoding.DecodeString(known[6:])
	require.NoError(t, err)
	require.Equal(t, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
		sign(key, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, `{"test": 2432232314}`))

	url, got := listen(t)
	now := clock.Now()
	secrets := vault{"mine": {known}}
	target := newTarget(t, http.Options{Secrets: secrets, Now: func() time.Time { return now }})
	deliver := func(config string) seen {
		a := attempt(fmt.Sprintf(`{"url": %q%s}`, url, config))
		require.Equal(t, job.Succeeded, target.Deliver(t.Context(), a).Kind)
		return <-got
	}
	verify := func(s seen, value string) error {
		hook, err := webhooks.NewWebhook(value)
		require.NoError(t, err)
		return hook.Verify([]byte(s.body), s.header)
	}
	mine := `, "signing": {"secret": "mine"}`
	s := deliver(mine)
	require.Equal(t, job.FormatRunID(attempt("").Key), s.header.Get("Webhook-Id"))
	require.Equal(t, sign(key, s.header.Get("Webhook-Id"), now.Unix(), s.body), s.header.Get("Webhook-Signature"))
	require.NoError(t, verify(s, known))
	require.Error(t, verify(seen{s.header, s.body + " "}, known), "another body")

	require.Empty(t, deliver("").header.Get("Webhook-Signature"), "the namespace has no secret for all")
	const other = "whsec_AAECAwQFBgcICQoLDA0ODw=="
	secrets[http.DefaultSigning] = []string{other}
	require.NoError(t, verify(deliver(""), other))
	require.NoError(t, verify(deliver(mine), known), "the job's own comes first")
	require.Empty(t, deliver(`, "signing": false`).header.Get("Webhook-Signature"))

	secrets["mine"] = []string{other, known} // just rotated
	s = deliver(mine)
	require.Len(t, strings.Fields(s.header.Get("Webhook-Signature")), 2)
	require.NoError(t, verify(s, known))
	require.NoError(t, verify(s, other))
	secrets["mine"] = []string{other}
	require.ErrorIs(t, verify(deliver(mine), known), webhooks.ErrNoMatchingSignature)

	now = now.Add(-6 * time.Minute) // a replay: recorded then, repeated now
	require.ErrorIs(t, verify(deliver(mine), other), webhooks.ErrMessageTooOld)
	now = clock.Now()
	require.NoError(t, verify(deliver(mine), other), "a retry is signed again, under the same id")

	secrets["mine"] = []string{"not base64, and no prefix"}
	s = deliver(mine)
	require.Equal(t, sign([]byte("not base64, and no prefix"), s.header.Get("Webhook-Id"), now.Unix(), s.body),
		s.header.Get("Webhook-Signature"))
	for _, wrong := range []string{"whsec_!", "whsec_", "whsec_\n", ""} {
		secrets["mine"] = []string{wrong}
		out := target.Deliver(t.Context(), attempt(fmt.Sprintf(`{"url": %q%s}`, url, mine)))
		require.Equal(t, job.Failed, out.Kind, "%q", wrong)
		require.Contains(t, out.Message, "not base64")
		require.NotContains(t, out.Message, "whsec_!")
		require.Empty(t, got, "not sent")
		secrets["mine"] = []string{known, wrong} // rotated: the invalid value is the previous one now
		s = deliver(mine)
		require.Len(t, strings.Fields(s.header.Get("Webhook-Signature")), 1)
		require.NoError(t, verify(s, known))
	}
}

// failing is a source of secrets that fails.
type failing struct{}

func (failing) Secret(context.Context, uuid.UUID, string, access.SecretUse) (access.Secret, error) {
	return access.Secret{}, errors.New("canary: connection refused")
}

// TestUnsignedIsNotSent: while it is unknown whether requests must be signed, none is sent.
func TestUnsignedIsNotSent(t *testing.T) {
	t.Parallel()
	url, got := listen(t)
	out := newTarget(t, http.Options{Secrets: failing{}}).Deliver(t.Context(), to(url))
	require.True(t, out.Retryable)
	require.False(t, out.Unknown)
	require.NotContains(t, out.Message, "canary")
	require.Empty(t, got)
}

// TestUnknownNamespace: if the name of a namespace cannot be read, nothing is sent, and the message does not have the
// error of the database, which names its user and host.
func TestUnknownNamespace(t *testing.T) {
	t.Parallel()
	g, err := guard.New(guard.Options{
		Allow: []string{"127.0.0.0/8", "billing=10.0.0.0/8"},
		Namespace: func(context.Context, uuid.UUID) (string, error) {
			return "", errors.New("canary: connection refused")
		},
	})
	require.NoError(t, err)
	url, got := listen(t)
	out := newTarget(t, http.Options{Guard: g}).Deliver(t.Context(), to(url))
	require.True(t, out.Retryable)
	require.Equal(t, "not sent: the name of the namespace could not be read from the database just now", out.Message)
	require.Empty(t, got)
}

// certificate creates a self-signed certificate with its key, as PEM.
func certificate(t *testing.T, name string) (text string, parsed *x509.Certificate) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	form := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotAfter: clock.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, form, form, &key.PublicKey, key)
	require.NoError(t, err)
	parsed, err = x509.ParseCertificate(der)
	require.NoError(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})) +
		string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), parsed
}

func TestClientCertificate(t *testing.T) {
	t.Parallel()
	one, first := certificate(t, "one")
	two, second := certificate(t, "two")
	clients := x509.NewCertPool()
	clients.AddCert(first)
	clients.AddCert(second)
	names := make(chan string, 10)
	srv := httptest.NewUnstartedServer(nethttp.HandlerFunc(func(_ nethttp.ResponseWriter, r *nethttp.Request) {
		names <- r.TLS.PeerCertificates[0].Subject.CommonName + " " + r.Proto
	}))
	srv.EnableHTTP2 = true
	srv.TLS = &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: clients}
	srv.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	srv.StartTLS()
	t.Cleanup(srv.Close)
	roots := x509.NewCertPool()
	roots.AddCert(srv.Certificate())
	secrets := vault{"cert": {one}, "none": {"canary-not-pem"}}
	target := newTarget(t, http.Options{Secrets: secrets, TLS: &tls.Config{RootCAs: roots}})
	with := func(name string) job.Attempt {
		return attempt(fmt.Sprintf(`{"url": %q, "client_certificate": {"secret": %q}}`, srv.URL, name))
	}
	require.Equal(t, job.Succeeded, target.Deliver(t.Context(), with("cert")).Kind)
	require.Equal(t, "one HTTP/2.0", <-names)
	secrets["cert"] = []string{two} // renewed: connections of the old certificate are not reused
	require.Equal(t, job.Succeeded, target.Deliver(t.Context(), with("cert")).Kind)
	require.Equal(t, "two HTTP/2.0", <-names)
	require.Equal(t, job.Failed, target.Deliver(t.Context(), to(srv.URL)).Kind, "without one")
	out := target.Deliver(t.Context(), with("none"))
	require.Contains(t, out.Message, "not a certificate")
	require.NotContains(t, out.Message, "canary")
	require.Empty(t, names)
}

func TestKeepResponse(t *testing.T) {
	t.Parallel()
	target, url := setup(t, func(w nethttp.ResponseWriter, r *nethttp.Request) {
		if r.URL.Path == "/off" {
			w.Header().Set("Content-Length", "100")
		}
		_, _ = io.WriteString(w, "done: é\x00"+strings.Repeat("\xff", 600))
	})
	a := attempt(fmt.Sprintf(`{"url": %q, "keep_response": true}`, url))
	out := target.Deliver(t.Context(), a)
	require.Equal(t, job.Succeeded, out.Kind)
	require.True(t, strings.HasPrefix(out.Message, "done: é "))
	require.LessOrEqual(t, len(out.Message), 512)
	require.Empty(t, target.Deliver(t.Context(), to(url)).Message)
}

// boundElsewhere has a secret for signatures that is bound to another host.
type boundElsewhere struct{ vault }

func (b boundElsewhere) Secret(
	ctx context.Context, namespace uuid.UUID, name string, use access.SecretUse,
) (access.Secret, error) {
	if err := (access.SecretBinding{Hosts: []string{"hooks.example.com"}}).Check(name, use); err != nil {
		return access.Secret{}, err
	}
	return b.vault.Secret(ctx, namespace, name, use)
}

// TestBoundSigning: the default signs requests to its hosts only. A secret that the job names must be allowed.
func TestBoundSigning(t *testing.T) {
	t.Parallel()
	url, got := listen(t)
	target := newTarget(t, http.Options{Secrets: boundElsewhere{vault{http.DefaultSigning: {"key"}}}})
	require.Equal(t, job.Succeeded, target.Deliver(t.Context(), attempt(fmt.Sprintf(`{"url": %q}`, url))).Kind)
	require.Empty(t, (<-got).header.Get("Webhook-Signature"))
	out := target.Deliver(t.Context(), attempt(fmt.Sprintf(`{"url": %q, "signing": {"secret": "webhook-signing"}}`, url)))
	require.Equal(t, job.Failed, out.Kind)
	require.False(t, out.Retryable)
	require.Contains(t, out.Message, "may only be sent to hooks.example.com")
	require.Empty(t, got)
}

// TestSignedWithoutAPayload: libraries of the standard parse the body as JSON after they have verified it.
func TestSignedWithoutAPayload(t *testing.T) {
	t.Parallel()
	const known = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	url, got := listen(t)
	target := newTarget(t, http.Options{Secrets: vault{"mine": {known}}, Now: clock.Now})
	for config, want := range map[string]string{
		`, "signing": {"secret": "mine"}`: "{}", `, "signing": {"secret": "mine"}, "method": "GET"`: "", "": "",
	} {
		a := attempt(fmt.Sprintf(`{"url": %q%s}`, url, config))
		a.Payload = ""
		require.Equal(t, job.Succeeded, target.Deliver(t.Context(), a).Kind)
		s := <-got
		require.Equal(t, want, s.body, config)
		if want != "" {
			require.Equal(t, "application/json", s.header.Get("Content-Type"))
			hook, err := webhooks.NewWebhook(known)
			require.NoError(t, err)
			require.NoError(t, hook.Verify([]byte(s.body), s.header))
		}
	}
}
