package app

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// page is an answer as a browser sees it.
type page struct {
	status int
	header http.Header
	body   string
}

// open sends a request without following redirects.
func open(t *testing.T, method, url string, header ...string) page {
	t.Helper()
	r, err := http.NewRequestWithContext(context.Background(), method, url, nil)
	require.NoError(t, err)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultTransport.RoundTrip(r)
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return page{resp.StatusCode, resp.Header, string(body)}
}

// checkHeaders checks the headers that every answer has.
func checkHeaders(t *testing.T, h http.Header, policy, what string) {
	t.Helper()
	for name, want := range map[string]string{
		"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
		"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin",
		"Content-Security-Policy": policy,
	} {
		require.Equal(t, []string{want}, h.Values(name), "%s of %s", name, what)
	}
	require.Empty(t, h.Values("Strict-Transport-Security"), "%s, without TLS", what)
	for name := range h {
		require.False(t, strings.HasPrefix(name, "Access-Control"), "%s has %s: there is no CORS", what, name)
	}
}

const (
	apiPolicy  = "default-src 'none'; frame-ancestors 'none'"
	docsPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; " +
		"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)

// TestEveryAnswerHasSecurityHeaders walks the API by its description, and all other paths.
func TestEveryAnswerHasSecurityHeaders(t *testing.T) {
	t.Parallel()
	_, c := serveAPI(t, func(c *Config) { c.MetricsListen = "" })
	statuses := map[int]bool{}
	for _, o := range operations(t, c.base) {
		objects := map[string]string{}
		for _, p := range o.params {
			objects[p] = "missing"
		}
		for _, key := range []string{"", "Bearer " + c.key} {
			resp := open(t, o.method, c.base+o.at(objects), "Authorization", key)
			checkHeaders(t, resp.header, apiPolicy, o.id)
			require.Equal(t, "no-store", resp.header.Get("Cache-Control"), o.id)
			statuses[resp.status] = true
		}
	}
	for _, path := range []string{
		"/healthz", "/readyz", "/metrics", "/api/v1/openapi.yaml", "/api/v1/openapi.json", "/", "/nothing", "/api/v1/nothing",
		"/api/v1/jobs/%FF", "/api/v1/jobs/a:b:c", "/docs/nothing",
	} {
		resp := open(t, "GET", c.base+path)
		checkHeaders(t, resp.header, apiPolicy, path)
		statuses[resp.status] = true
	}
	resp := open(t, "TRACE", c.base+"/api/v1/jobs")
	checkHeaders(t, resp.header, apiPolicy, "TRACE")
	statuses[resp.status] = true
	for _, path := range []string{"/docs", "/docs/docs.js", "/docs/docs.css"} {
		resp := open(t, "GET", c.base+path)
		require.Equal(t, http.StatusOK, resp.status)
		checkHeaders(t, resp.header, docsPolicy, path)
	}
	for _, status := range []int{200, 400, 401, 404, 405, 422} {
		require.True(t, statuses[status], "no answer had the status %d", status)
	}
}

// TestTheUIIsServed: below /ui/, also while the node waits for its database, and from /.
func TestTheUIIsServed(t *testing.T) {
	t.Parallel()
	_, url := newProxy(t, serverURL(t), "x") // closed: the database is down
	c := testConfig(url)
	c.Listen = freeAddress(t)
	const policy = "default-src 'none'; script-src 'self'"
	c.UI = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", policy)
		_, _ = io.WriteString(w, "the UI at "+r.URL.Path)
	})
	s := serveNode(t, c)
	s.log.await(t, "database connection failed")
	base := "http://" + c.Listen

	resp := open(t, "GET", base+"/ui/jobs/x")
	require.Equal(t, "the UI at /ui/jobs/x", resp.body)
	checkHeaders(t, resp.header, policy, "the UI")
	resp = open(t, "GET", base+"/", "Accept", "text/html,application/xhtml+xml,*/*;q=0.8")
	require.Equal(t, http.StatusSeeOther, resp.status)
	require.Equal(t, "/ui/", resp.header.Get("Location"))
	checkHeaders(t, resp.header, apiPolicy, "the redirect")
	require.Equal(t, "/ui/", open(t, "GET", base+"/ui").header.Get("Location"))
	for _, path := range []string{"/", "/api/v1/session", "/docs"} {
		resp = open(t, "GET", base+path, "Accept", "*/*")
		require.Equal(t, http.StatusServiceUnavailable, resp.status, path)
		checkHeaders(t, resp.header, apiPolicy, path)
		require.Equal(t, "no-store", resp.header.Get("Cache-Control"), path)
	}
	require.Equal(t, http.StatusServiceUnavailable, open(t, "POST", base+"/ui/").status, "pages are only read")
	require.NoError(t, s.end(t))
}

func TestABinaryWithoutUI(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	mountUI(mux, nil, http.NotFoundHandler())
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/ui/", nil))
	require.Equal(t, http.StatusNotFound, w.Code)
	require.Contains(t, w.Body.String(), "make web build")
}
