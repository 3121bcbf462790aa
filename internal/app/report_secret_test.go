package app

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
)

// TestReportsDoNotShowSecrets: a message that a target reports with the token of a run has neither the secrets that the
// run used, nor the token.
func TestReportsDoNotShowSecrets(t *testing.T) {
	t.Parallel()
	w := newWalk(t)
	n := w.tenant(access.DefaultNamespace)
	w.must(n.key, "PUT", "/api/v1/secrets/t", `{"value":"canary41bearer"}`, "name")
	w.must(n.key, "PUT", "/api/v1/secrets/u", `{"value":"canary42 url"}`, "name")
	got := make(chan *http.Request, 10)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusAccepted)
		got <- r
	}))
	t.Cleanup(srv.Close)
	config := func(url, auth string) string {
		return fmt.Sprintf(`{"name":"reports","schedule":"every 24h","overlap":"allow","retry":{"max_attempts":1},
			"target":{"kind":"http","config":{"url":%q%s}}}`, url, auth)
	}
	id := w.must(n.key, "POST", "/api/v1/jobs",
		config(srv.URL+"/${secret.u}", `,"auth":{"bearer":{"secret":"t"}}`), "id")
	var text func(r *http.Request) string
	report := func(verb string, change func()) (message string) {
		run := w.started(n, id)
		r := <-got
		change()
		token := r.Header.Get("Belfry-Run-Token")
		body, err := json.Marshal(map[string]any{"message": text(r)})
		require.NoError(t, err)
		path := strings.TrimPrefix(r.Header.Get("Belfry-Run-Url"), w.base)
		answer := w.call(token, "POST", path+":"+verb, string(body))
		require.Equal(t, http.StatusNoContent, answer.status, string(answer.body))
		return w.must(n.key, "GET", "/api/v1/runs/"+run, "", "message")
	}
	// Whoever reports must not find out how a secret begins, so its beginning is stored like any other text.
	for _, guess := range []string{"canary41beare…", "canary41beare", "c…", "x…", "c...", "x..."} {
		text = func(*http.Request) string { return "it is " + guess }
		require.Equal(t, "it is "+guess, report("fail", func() {}))
	}
	text = func(r *http.Request) string {
		return fmt.Sprintf("401 for %s with %s of %s, token %s, basic %s.", r.URL.EscapedPath(),
			r.Header.Get("Authorization"), "canary42 url", r.Header.Get("Belfry-Run-Token"),
			base64.RawURLEncoding.EncodeToString([]byte("me:"+"canary41bearer")))
	}
	const want = "401 for /[hidden] with Bearer [hidden] of [hidden], token [hidden], basic bWU6[hidden]."
	require.Equal(t, want, report("fail", func() {}))
	require.Equal(t, want, report("complete", func() {}))
	// The secrets are those of the definition that the run has, also if they have been bound or replaced since.
	require.Equal(t, want, report("complete", func() {
		w.must(n.key, "PUT", "/api/v1/secrets/t", `{"value":"canary43bearer"}`, "name")
		w.must(n.key, "PUT", "/api/v1/jobs/"+id, config(srv.URL, ""), "id")
	}))
	require.NotRegexp(t, "canary4([^1]|1bearer)", w.dump())
}
