package app

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/pgtest"
	"github.com/belfry-dev/belfry/internal/tracing/tracingtest"
)

// echo answers with all that it was sent, as error pages do.
func echo(t *testing.T, status int) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.WriteHeader(status)
		_, _ = fmt.Fprintf(w, "%s %v %s", r.URL, r.Header, body)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// TestSecretsAppearNowhere (S15): the database's password, keys, and what users
// put into headers, paths, queries and payloads of their jobs are in no log line, metric,
// audit entry, problem or span, whatever goes wrong.
func TestSecretsAppearNowhere(t *testing.T) {
	t.Parallel()
	server, pool := pgtest.ServerURL(t)
	u, err := url.Parse(server)
	require.NoError(t, err)
	u.User = url.UserPassword(u.User.Username(), "canary0password")
	collector := tracingtest.New(t)
	s, c := serveAPI(t, func(c *Config) {
		c.DatabaseURL, c.Tracing.Endpoint, c.Tracing.Ratio = u.String(), collector.URL, "1"
		c.Tracing.Headers = "api-key=canary14header"
	})
	w := &walk{t: t, base: c.base, pool: pool, log: s.log}
	n := &tenant{id: access.DefaultNamespace, key: c.key}
	ended := 0
	for _, status := range []int{200, 400, 410, 500} {
		id := w.must(c.key, "POST", "/api/v1/jobs", fmt.Sprintf(`{
			"name":"echo-%d","schedule":"every 24h","payload":{"token":"canary1payload"},"retry":{"max_attempts":1},
			"target":{"kind":"http","config":{
				"url":"%s/hooks/canary15path?token=canary2query","headers":{"authorization":"canary3header"}}}}`,
			status, echo(t, status)), "id")
		w.started(n, id)
		ended++
		w.eventually(`SELECT count(*) = $1 FROM run_history`, ended)
	}
	// Problems of every kind, with secrets in all places that people put them.
	problems := ""
	for _, o := range operations(t, c.base) {
		objects := map[string]string{}
		for _, p := range o.params {
			objects[p] = "canary4path"
		}
		for _, body := range []string{
			`{"unknown":"canary5value","name":{"x":"canary6value"},"schedule":"canary8schedule",
			"target":{"kind":"http","config":{"url":"canary7url","headers":{"a b":"canary3header"}}}}`,
			`{"canary9broken`, o.payload(t),
		} {
			got := w.ask(c.key, o, o.at(objects)+"?unknown=canary11query", body)
			require.GreaterOrEqual(t, got.status, 400, "%s: %s", o.id, got.body)
			problems += got.text + "\n"
			if o.body != nil && body != o.payload(t) { // an unknown parameter hides what is wrong with the body
				got := w.ask(c.key, o, o.at(objects), body)
				if o.id != "create-jobs" && o.id != "diff-jobs" { // which answer for each line
					require.GreaterOrEqual(t, got.status, 400, "%s: %s", o.id, got.body)
				}
				problems += got.text + "\n"
			}
			for _, key := range []string{"canary12key", c.key + "canary13key", c.key[:len(c.key)-1]} {
				problems += w.call(key, o.method, o.at(objects), body).text + "\n"
			}
		}
	}
	_, metrics := get(t, c.base+"/metrics")
	var audit string
	require.NoError(t,
		pool.QueryRow(context.Background(), `SELECT string_agg(x::text, E'\n') FROM audit_log x`).Scan(&audit))
	require.NoError(t, s.end(t)) // which exports the last spans
	spans, headers, _, _ := collector.Raw()
	require.Equal(t, []string{"canary14header"}, headers["Api-Key"])
	require.Len(t, named(collector.Spans(), "POST"), ended)

	secrets := []string{c.key, c.key[len("bfk_") : len(c.key)-1], "canary"}
	for name, text := range map[string]string{
		"the log": s.log.String(), "metrics": metrics, "audit": audit, "problems": problems, "spans": spans,
	} {
		require.NotEmpty(t, text)
		for _, secret := range secrets {
			if at := strings.Index(text, secret); at >= 0 {
				t.Errorf("%q is in %s: …%s…", secret, name, text[max(0, at-200):min(len(text), at+100)])
			}
		}
	}
	// Messages of runs may repeat a payload, and nothing else.
	var messages string
	require.NoError(t,
		pool.QueryRow(context.Background(), `SELECT string_agg(message, E'\n') FROM run_history`).Scan(&messages))
	require.Contains(t, messages, "[hidden]")
	require.NotContains(t, strings.ReplaceAll(messages, "canary1payload", ""), "canary")
	// The canaries sing where they may: so they were there to be found.
	var stored string
	require.NoError(t,
		pool.QueryRow(context.Background(), `SELECT string_agg(x::text, E'\n') FROM job_version x`).Scan(&stored))
	for _, secret := range []string{"canary1payload", "canary2query", "canary3header", "canary15path"} {
		require.Contains(t, stored, secret)
	}
}
