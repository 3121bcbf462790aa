package app

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/pgtest"
)

// client talks to the API of a node.
type client struct {
	t    *testing.T
	base string
	key  string
	http *http.Client
}

func (c *client) call(method, path, body string) (status int, answer map[string]any, header http.Header) {
	c.t.Helper()
	r, err := http.NewRequestWithContext(context.Background(), method, c.base+path, bytes.NewReader([]byte(body)))
	require.NoError(c.t, err)
	r.Header.Set("Authorization", "Bearer "+c.key)
	r.Header.Set("Content-Type", "application/json")
	resp, err := c.http.Do(r)
	require.NoError(c.t, err)
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(resp.Body)
	require.NoError(c.t, err)
	answer = map[string]any{}
	if len(data) > 0 {
		require.NoError(c.t, json.Unmarshal(data, &answer), "%s", data)
	}
	return resp.StatusCode, answer, resp.Header
}

// serveAPI starts a node that makes its first key.
func serveAPI(t *testing.T, change func(*Config)) (*serving, *client) {
	t.Helper()
	keys := make(chan string, 1)
	c := testConfig("")
	c.Bootstrap = func(secret string) { keys <- secret }
	if change != nil {
		change(&c)
	}
	if c.DatabaseURL == "" {
		c.DatabaseURL = serverURL(t)
	}
	s := serveNode(t, c)
	started := s.log.await(t, "node started")
	return s, &client{t: t, base: "http://" + started["address"].(string), key: <-keys, http: &http.Client{}}
}

// TestTheBootstrapKeyExpires: a node often prints it into a log.
func TestTheBootstrapKeyExpires(t *testing.T) {
	t.Parallel()
	_, c := serveAPI(t, nil)
	status, answer, _ := c.call("GET", "/api/v1/keys", "")
	require.Equal(t, http.StatusOK, status)
	key := answer["items"].([]any)[0].(map[string]any)
	at := func(field string) time.Time {
		parsed, err := time.Parse(time.RFC3339, key[field].(string))
		require.NoError(t, err)
		return parsed
	}
	require.Equal(t, BootstrapLife, at("expires_at").Sub(at("created_at")))
}

// TestJobsAreCreatedOverTheAPI: a job that is created over HTTP runs, and one whose
// target cannot be called is refused, with the reason at its field.
func TestJobsAreCreatedOverTheAPI(t *testing.T) {
	t.Parallel()
	s, c := serveAPI(t, nil)
	sink := newSink(t)
	status, _, _ := c.call("POST", "/api/v1/jobs",
		`{"name":"now","schedule":"2026-01-01T00:00:00Z","target":{"kind":"http","config":{"url":"`+sink.url+`/ok"}}}`)
	require.Equal(t, http.StatusCreated, status)
	require.Eventually(t, func() bool { sink.mu.Lock(); defer sink.mu.Unlock(); return sink.received == 1 },
		time.Minute, 10*time.Millisecond)

	for target, field := range map[string]string{
		`{"kind":"http","config":{"url":"ftp://x"}}`: "target.config.url",
		`{"kind":"http"}`:                       "target.config",
		`{"kind":"htpp","config":{"url":"x"}}`:  "target.kind",
		`{"kind":"noop","config":{"delay":-1}}`: "target.config.delay",
	} {
		status, answer, _ := c.call("POST", "/api/v1/jobs", `{"name":"bad","schedule":"every 1h","target":`+target+`}`)
		require.Equal(t, http.StatusUnprocessableEntity, status, target)
		require.Equal(t, field, answer["problems"].([]any)[0].(map[string]any)["field"], "%v", answer)
	}
	_, metrics := get(t, c.base+"/metrics")
	require.Contains(t, metrics, `belfry_api_requests_total{operation="create-job",status="2xx"} 1`)
	require.Contains(t, metrics, `belfry_api_requests_total{operation="create-job",status="4xx"} 4`)
	failed := s.log.find(t, "request failed")
	require.Equal(t, "create-job", failed["operation"])
	require.NotEmpty(t, failed["request"])
	require.NoError(t, s.end(t))
	require.NotContains(t, s.log.String(), c.key)
}

// TestStopLetsRequestsEnd: a node that stops sends new requests away, and answers
// the one that is under way before it ends.
func TestStopLetsRequestsEnd(t *testing.T) {
	t.Parallel()
	url, pool := pgtest.ServerURL(t)
	s, c := serveAPI(t, func(c *Config) { c.DatabaseURL, c.Drain = url, time.Minute })
	lock, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = lock.Rollback(context.Background()) }()
	_, err = lock.Exec(t.Context(), `LOCK TABLE audit_log`)
	require.NoError(t, err)
	created := make(chan int, 1)
	go func() {
		status, _, _ := c.call("POST", "/api/v1/jobs", `{"name":"slow","schedule":"every 1h","target":{"kind":"noop"}}`)
		created <- status
	}()
	require.Eventually(t, func() bool {
		var waiting int
		require.NoError(t, pool.QueryRow(context.Background(), `
SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'audit_log'::regclass`).Scan(&waiting))
		return waiting == 1
	}, time.Minute, 10*time.Millisecond)

	// Its session cannot end either, so the node is still there to be asked.
	_, err = lock.Exec(t.Context(), `LOCK TABLE session IN SHARE MODE`)
	require.NoError(t, err)
	s.stop()
	s.log.await(t, "node stopping")
	var header http.Header
	require.Eventually(t, func() bool {
		status, answer, h := c.call("GET", "/api/v1/self", "")
		header = h
		return status == http.StatusServiceUnavailable && answer["code"] == "unavailable"
	}, time.Minute, 10*time.Millisecond)
	require.Equal(t, "1", header.Get("Retry-After"))
	awaitReady(t, c.base, http.StatusServiceUnavailable, "stop")
	require.NoError(t, lock.Rollback(t.Context()))
	require.Equal(t, http.StatusCreated, <-created)
	require.NoError(t, s.end(t))
}

// TestMetricsApart: with an address of their own, metrics are there and not here. On an address that others may reach,
// they are nowhere.
func TestMetricsApart(t *testing.T) {
	t.Parallel()
	private := freeAddress(t)
	s, c := serveAPI(t, func(c *Config) { c.MetricsListen = private })
	status, _ := get(t, "http://"+private+"/metrics")
	require.Equal(t, http.StatusOK, status)
	status, _ = get(t, c.base+"/metrics")
	require.Equal(t, http.StatusNotFound, status)
	require.NoError(t, s.end(t))

	// Only the usual spelling of the name counts as a loopback address.
	s, c = serveAPI(t, func(c *Config) { c.Listen, c.InsecureListen = "LOCALHOST:0", true })
	status, _ = get(t, c.base+"/metrics")
	require.Equal(t, http.StatusNotFound, status)
	require.NoError(t, s.end(t))
}

func TestServeRefusesToSendKeysInTheClear(t *testing.T) {
	t.Parallel()
	c := testConfig("postgres://127.0.0.1:1/none")
	c.Listen = "0.0.0.0:0"
	require.ErrorContains(t, Serve(t.Context(), c, slog.New(slog.DiscardHandler)),
		"keys could be read on their way; set tls_cert and tls_key")
	c.TLSCert, c.TLSKey = "/no/such.pem", "/no/such.pem"
	require.ErrorContains(t, Serve(t.Context(), c, slog.New(slog.DiscardHandler)), "read tls_cert and tls_key")
}

func TestServeRefusesTheOwner(t *testing.T) {
	t.Parallel()
	require.ErrorContains(t, Serve(t.Context(), testConfig(pgtest.URL(t)), slog.New(slog.DiscardHandler)),
		"is a superuser")
}

// writeCertificate creates a certificate for 127.0.0.1.
func writeCertificate(t *testing.T, cert, key string) *x509.Certificate {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	require.NoError(t, err)
	form := &x509.Certificate{
		SerialNumber: serial, NotBefore: clock.Now().Add(-time.Hour), NotAfter: clock.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, form, form, private.Public(), private)
	require.NoError(t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	require.NoError(t, os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600))
	made, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return made
}

func TestTLS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	made := writeCertificate(t, cert, key)
	s, c := serveAPI(t, func(c *Config) { c.TLSCert, c.TLSKey = cert, key })
	status, _ := get(t, c.base+"/healthz")
	require.Equal(t, http.StatusBadRequest, status, "in the clear there is no answer")

	roots := x509.NewCertPool()
	roots.AddCert(made)
	trust := &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	c.http.Transport = &http.Transport{TLSClientConfig: trust, ForceAttemptHTTP2: true}
	c.base = "https" + c.base[len("http"):]
	status, answer, _ := c.call("GET", "/api/v1/self", "")
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, "default", answer["namespace"])
	for _, path := range []string{"/ui/", "/healthz", "/api/v1/self", "/nothing"} {
		response, err := c.http.Get(c.base + path)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		require.Equal(t, "max-age=31536000", response.Header.Get("Strict-Transport-Security"), path)
	}
	response, err := c.http.Get(c.base + "/metrics")
	require.NoError(t, err)
	metrics, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	left := regexp.MustCompile(`(?m)^belfry_certificate_left_seconds (\d+\.?\d*)`).FindSubmatch(metrics)
	require.Len(t, left, 2)
	seconds, err := strconv.ParseFloat(string(left[1]), 64)
	require.NoError(t, err)
	require.Greater(t, seconds, 0.0)
	require.LessOrEqual(t, seconds, time.Hour.Seconds())
	require.Regexp(t, `(?m)^belfry_api_requests_total\{operation="create-job",status="5xx"\} 0$`, string(metrics))
	require.Regexp(t, `(?m)^belfry_loop_failures_total\{loop="worker_scan"\} 0$`, string(metrics))
	require.Regexp(t, `(?m)^belfry_due_times_skipped_total\{reason="missed"\} 0$`, string(metrics))
	old := trust.Clone()
	old.MaxVersion, old.MinVersion = tls.VersionTLS11, tls.VersionTLS10
	_, err = (&tls.Dialer{Config: old}).DialContext(t.Context(), "tcp", c.base[len("https://"):])
	require.Error(t, err, "TLS 1.1 is not spoken")
	require.NoError(t, s.end(t))
}

// TestCertificateIsReadAgain: a renewed one is used, a broken one is not.
func TestCertificateIsReadAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	first := writeCertificate(t, cert, key)
	log := &lines{}
	c, err := readCertificate(cert, key, slog.New(slog.NewJSONHandler(log, nil)))
	require.NoError(t, err)
	serves := func() []byte {
		pair, err := c.get(nil)
		require.NoError(t, err)
		return pair.Certificate[0]
	}
	second := writeCertificate(t, cert, key)
	require.Equal(t, first.Raw, serves(), "not yet")
	c.read -= certificateFor
	require.Equal(t, second.Raw, serves())
	require.NoError(t, os.WriteFile(cert, []byte("broken"), 0o600))
	c.read -= certificateFor
	require.Equal(t, second.Raw, serves())
	require.NotNil(t, log.find(t, "certificate reload failed"))
}
