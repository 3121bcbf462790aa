package app

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
)

// TestBoundSecretsStayWhereTheyBelong: an editor cannot send a secret that is bound elsewhere, by no way to save a job,
// nor by a job that was saved before the secret was bound, and cannot change the binding.
func TestBoundSecretsStayWhereTheyBelong(t *testing.T) {
	t.Parallel()
	w := newWalk(t)
	_, editor := w.key(access.DefaultNamespace, access.Editor, 0)
	_, admin := w.key(access.DefaultNamespace, access.Admin, 0)
	n := &tenant{id: access.DefaultNamespace, key: admin}
	// 127.0.0.1 and localhost are the same machine, and two hosts.
	elsewhere := strings.Replace(w.sink.url, "127.0.0.1", "localhost", 1)
	definition := func(name, url string) string {
		return fmt.Sprintf(`{"name":%q,"schedule":"every 24h","target":{"kind":"http",`+
			`"config":{"url":%q,"auth":{"bearer":{"secret":"token"}}}}}`, name, url)
	}
	w.broker(access.Broker{Name: "events", Kind: "kafka", Config: access.BrokerConfig{Servers: []string{"127.0.0.1:1"}}})
	before := w.must(editor, "POST", "/api/v1/jobs", definition("before", elsewhere), "id")
	w.must(editor, "PUT", "/api/v1/secrets/token", `{"value":"one"}`, "name")
	const here = `{"hosts":["127.0.0.1"],"kinds":["http","command"]}`
	require.Equal(t, http.StatusForbidden, w.call(editor, "PATCH", "/api/v1/secrets/token", here).status)
	w.must(admin, "PATCH", "/api/v1/secrets/token", here, "name")

	for _, body := range []string{`{"value":"two","hosts":["localhost"]}`, `{"value":"two","hosts":[],"kinds":[]}`} {
		got := w.call(editor, "PUT", "/api/v1/secrets/token", body)
		require.Equal(t, http.StatusForbidden, got.status, string(got.body))
	}
	require.Equal(t, http.StatusForbidden, w.call(editor, "DELETE", "/api/v1/secrets/token", "").status)
	w.must(editor, "PUT", "/api/v1/secrets/token", `{"value":"two"}`, "name")
	require.Contains(t, w.call(editor, "GET", "/api/v1/secrets", "").text, `"hosts":["127.0.0.1"]`)

	job := w.must(editor, "POST", "/api/v1/jobs", definition("here", w.sink.url+"/ok"), "id")
	w.ended(n, job)
	w.eventually(`SELECT count(*) = 1 FROM run_history WHERE ended = 1`) // succeeded
	wrong := definition("wrong", elsewhere)
	for _, way := range []struct{ method, path, body string }{
		{"POST", "/jobs", wrong},
		{"PUT", "/jobs/wrong", wrong},
		{"PUT", "/jobs/" + job, wrong},
		{"PATCH", "/jobs/" + job, `{"target":{"config":{"url":"` + elsewhere + `"}}}`},
		{"POST", "/jobs:bulk", wrong},
		{"POST", "/jobs:diff", wrong},
		{"POST", "/jobs:preview", `{"job":` + wrong + `}`},
		{"POST", "/jobs", `{"name":"x","schedule":"every 24h","target":{"kind":"kafka","config":{"broker":"events",` +
			`"topic":"mine","headers":{"x":{"secret":"token"}}}}}`},
	} {
		o := operation{method: way.method, media: "application/json"}
		switch {
		case way.method == "PATCH":
			o.media = "application/merge-patch+json"
		case strings.HasSuffix(way.path, ":bulk"), strings.HasSuffix(way.path, ":diff"):
			o.media = "application/x-ndjson"
		}
		got := w.ask(editor, o, "/api/v1"+way.path, way.body)
		require.Contains(t, got.text, "the secret token may only be", "%s %s", way.method, way.path)
		require.Contains(t, got.text, "belfry secret bind token")
		if o.media != "application/x-ndjson" {
			require.Equal(t, http.StatusUnprocessableEntity, got.status, string(got.body))
		}
	}
	got := w.call(editor, "POST", "/api/v1/jobs/"+before+":rollback", `{"version":1}`)
	require.Contains(t, got.text, "the secret token may only be sent to 127.0.0.1, not to localhost")

	run := w.ended(n, before)
	got = w.call(admin, "GET", "/api/v1/runs/"+run, "")
	require.Contains(t, got.text, "not sent: the secret token may only be sent to 127.0.0.1, not to localhost")
	require.Contains(t, got.text, `"attempt":1`, "and it is not retried")
}
