package web

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func get(t *testing.T, path string, headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	Handler(Options{}).ServeHTTP(w, r)
	return w
}

var nonceForm = regexp.MustCompile(`'nonce-([0-9a-f]{32})'`)

// Each page has a nonce of its own, in the policy and in the page. Screens have the page, whatever their path.
func TestPage(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, path := range []string{"/ui/", "/ui/jobs", "/ui/jobs/job_x/at/2026-03-29T02:30:00Z", "/ui/index.html"} {
		w := get(t, path)
		require.Equal(t, http.StatusOK, w.Code, path)
		require.Equal(t, "no-store", w.Header().Get("Cache-Control"))
		policy := w.Header().Get("Content-Security-Policy")
		nonce := nonceForm.FindStringSubmatch(policy)
		require.Len(t, nonce, 2, policy)
		require.False(t, seen[nonce[1]], "a nonce is used once")
		seen[nonce[1]] = true
		require.Contains(t, w.Body.String(), `nonce="`+nonce[1]+`"`)
		require.NotContains(t, w.Body.String(), nonceMark)
		require.Equal(t, "default-src 'none'; script-src 'self'; style-src 'self' 'nonce-"+nonce[1]+"'; "+
			"img-src 'self' data:; font-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; "+
			"frame-ancestors 'none'", policy)
		require.NotRegexp(t, `<script[^>]*>[^<]`, w.Body.String(), "no inline script")
	}
	require.Equal(t, http.StatusPermanentRedirect, get(t, "/ui").Code)
}

func TestThemeIsInThePage(t *testing.T) {
	t.Parallel()
	for cookie, want := range map[string]string{
		"belfry_theme=dark": `data-mantine-color-scheme="dark"`, "belfry_theme=light": `data-mantine-color-scheme="light"`,
		`belfry_theme="><script>`: `<html lang="en">`, "other=dark": `<html lang="en">`,
	} {
		require.Contains(t, get(t, "/ui/", "Cookie", cookie).Body.String(), want, cookie)
	}
}

// The login page knows the identity provider without a request to the API.
func TestProviderIsInThePage(t *testing.T) {
	t.Parallel()
	require.NotContains(t, get(t, "/ui/").Body.String(), "belfry-provider")
	w := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/ui/jobs", nil)
	Handler(Options{Provider: `A "B" <script>`}).ServeHTTP(w, r)
	require.Contains(t, w.Body.String(), `<meta name="belfry-provider" content="A &#34;B&#34; &lt;script&gt;"><title>`)
}

// Assets come compressed as they are in the archive, and uncompressed to a client that asks for that.
func TestAssets(t *testing.T) {
	t.Parallel()
	page := get(t, "/ui/").Body.String()
	found := 0
	for name, f := range load() {
		if name == index {
			continue
		}
		w := get(t, "/ui/"+name, "Accept-Encoding", "gzip, br")
		require.Equal(t, http.StatusOK, w.Code, name)
		require.NotEmpty(t, w.Header().Get("Content-Type"), name)
		body := io.Reader(w.Body)
		if f.gzip != nil {
			require.Equal(t, "gzip", w.Header().Get("Content-Encoding"), name)
			r, err := gzip.NewReader(w.Body)
			require.NoError(t, err, name)
			body = r
		}
		content, err := io.ReadAll(body)
		require.NoError(t, err, name)
		require.Equal(t, f.plain, content, name)
		require.Equal(t, f.plain, get(t, "/ui/"+name).Body.Bytes(), name)
		require.Equal(t, http.StatusNotModified, get(t, "/ui/"+name, "If-None-Match", f.etag).Code)
		if strings.HasPrefix(name, "assets/") {
			require.Contains(t, w.Header().Get("Cache-Control"), "immutable", name)
		}
		if strings.Contains(page, name) {
			found++
		}
	}
	require.GreaterOrEqual(t, found, 2, "the page names its script and its style")
	require.Equal(t, http.StatusNotFound, get(t, "/ui/assets/gone.js").Code)
}

// First load: the page, the scripts and styles that it names, and the fonts. A screen adds its own chunk.
func TestFirstLoad(t *testing.T) {
	t.Parallel()
	const limit = 300_000
	page := get(t, "/ui/").Body.String()
	total := len(load()[index].gzip)
	for name, f := range load() {
		if strings.Contains(page, name) || strings.HasSuffix(name, ".woff2") {
			size := len(f.gzip)
			if f.gzip == nil {
				size = len(f.plain)
			}
			t.Logf("%8d %s", size, name)
			total += size
		}
	}
	t.Logf("%8d in all", total)
	require.LessOrEqual(t, total, limit)
}
