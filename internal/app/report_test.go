package app

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/job"
)

// taken is a run that a target has accepted.
type taken struct {
	url, token, trace string
}

// accepting is a target that accepts each run and reports it to the test.
func accepting(t *testing.T) (string, <-chan taken) {
	t.Helper()
	got := make(chan taken, 100)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusAccepted)
		got <- taken{r.Header.Get("Belfry-Run-Url"), r.Header.Get("Belfry-Run-Token"), r.Header.Get("Traceparent")}
	}))
	t.Cleanup(srv.Close)
	return srv.URL, got
}

// TestReportedFailuresPauseTheJob: what an API's own connections write, the engine of the node acts on.
func TestReportedFailuresPauseTheJob(t *testing.T) {
	t.Parallel()
	w := newWalk(t)
	n := w.tenant(access.DefaultNamespace)
	url, got := accepting(t)
	id := w.must(n.key, "POST", "/api/v1/jobs", fmt.Sprintf(`{
		"name":"later","schedule":"every 24h","pause_after_failures":1,"retry":{"max_attempts":1},
		"target":{"kind":"http","config":{"url":%q}}}`, url), "id")
	w.started(n, id)
	r := <-got
	w.eventually(`SELECT count(*) > 0 FROM run WHERE state = 2`)
	failed := w.call(r.token, "POST", strings.TrimPrefix(r.url, w.base)+":fail", `{"message":"no"}`)
	require.Equal(t, http.StatusNoContent, failed.status, string(failed.body))
	w.eventually(`SELECT count(*) > 0 FROM job WHERE name = 'later' AND state = 2 /* paused */`)
}

// TestReports: a target that accepts runs reports on them by calls, with the token
// of each, which does nothing else.
func TestReports(t *testing.T) {
	t.Parallel()
	w := newWalk(t)
	n := w.tenant(access.DefaultNamespace)
	url, got := accepting(t)
	id := w.must(n.key, "POST", "/api/v1/jobs", fmt.Sprintf(`{
		"name":"later","schedule":"every 24h","overlap":"allow","report_timeout":"10m",
		"retry":{"max_attempts":2,"backoff":"none","jitter":-1},
		"target":{"kind":"http","config":{"url":%q}}}`, url), "id")
	next := func() (string, taken) {
		run := w.started(n, id)
		r := <-got
		require.Equal(t, w.base+"/api/v1/runs/"+run, r.url)
		w.eventually(`SELECT count(*) > 0 FROM run WHERE state = 2`)
		return run, r
	}
	report := func(r taken, verb, body string) reply {
		return w.call(r.token, "POST", strings.TrimPrefix(r.url, w.base)+":"+verb, body)
	}
	state := func(run string) string { return w.must(n.key, "GET", "/api/v1/runs/"+run, "", "state") }

	run, first := next()
	require.Equal(t, "accepted", state(run))
	beat := report(first, "heartbeat", "")
	require.Equal(t, http.StatusOK, beat.status, string(beat.body))
	var by struct {
		ReportBy time.Time `json:"report_by"`
	}
	require.NoError(t, json.Unmarshal(beat.body, &by))
	require.InDelta(t, 10*time.Minute, by.ReportBy.Sub(clock.Now()), float64(time.Minute))
	require.Equal(t, http.StatusNoContent, report(first, "complete", `{"message":"42\u0007rows"}`).status)
	require.Equal(t, "succeeded", state(run))
	require.Equal(t, "42 rows", w.must(n.key, "GET", "/api/v1/runs/"+run, "", "message"))
	require.Equal(t, http.StatusNoContent, report(first, "complete", "").status,
		"an answer that was lost is asked for again")
	late := report(first, "heartbeat", "")
	require.Equal(t, http.StatusConflict, late.status)
	require.Contains(t, string(late.body), "stop working on it")
	require.Equal(t, http.StatusConflict, report(first, "fail", `{"message":"no"}`).status)

	// A failure is retried, with another token.
	run, first = next()
	require.Equal(t, http.StatusNoContent, report(first, "fail", `{"message":"no"}`).status)
	second := <-got
	require.Equal(t, first.url, second.url)
	require.NotEqual(t, first.token, second.token)
	require.Equal(t, first.trace[:36], second.trace[:36], "one trace")
	w.eventually(`SELECT count(*) > 0 FROM run WHERE state = 2`)
	require.Equal(t, http.StatusConflict, report(first, "complete", "").status, "stale")
	require.Equal(t, "accepted", state(run))
	require.Equal(t, http.StatusNoContent, report(second, "fail", `{"message":"never","final":true}`).status)
	require.Equal(t, "failed", state(run))
	require.Equal(t, http.StatusUnprocessableEntity, report(second, "fail", `{"retry_after":"9 days"}`).status)

	// The token is for that run, and for nothing else.
	run, first = next()
	other, _ := next()
	require.Equal(t, http.StatusForbidden, w.call(first.token, "POST", "/api/v1/runs/"+other+":complete", "").status)
	for _, path := range []string{
		"GET /api/v1/runs/" + run, "POST /api/v1/runs/" + run + ":cancel", "GET /api/v1/jobs", "GET /api/v1/self",
	} {
		method, path, _ := strings.Cut(path, " ")
		require.Equal(t, http.StatusUnauthorized, w.call(first.token, method, path, "").status, path)
	}
	forged := access.Report{Namespace: n.id, Attempt: 1, Until: clock.Now().Add(time.Hour)}
	forged.Key, _ = job.ParseRunID(run)
	for _, token := range []string{"", n.key, flipped(first.token), forged.Token(make([]byte, 32))} {
		require.Equal(t, http.StatusUnauthorized, w.call(token, "POST", "/api/v1/runs/"+run+":complete", "").status)
	}
	require.Equal(t, "accepted", state(run))
	require.NotContains(t, w.log.String(), first.token)
}

// TestTraceIsContinued: deliveries of a triggered run are in the trace of whoever
// triggered it.
func TestTraceIsContinued(t *testing.T) {
	t.Parallel()
	w := newWalk(t)
	n := w.tenant(access.DefaultNamespace)
	url, got := accepting(t)
	for _, overlap := range []string{"allow", "replace"} { // claimed, and admitted
		id := w.must(n.key, "POST", "/api/v1/jobs", fmt.Sprintf(`{
			"name":"traced-%s","schedule":"every 24h","overlap":%q,
			"target":{"kind":"http","config":{"url":%q}}}`, overlap, overlap, url), "id")
		for range 2 {
			const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
			trigger := w.base + "/api/v1/jobs/" + id + ":trigger"
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, trigger, nil)
			require.NoError(t, err)
			r.Header.Set("Authorization", "Bearer "+n.key)
			r.Header.Set("Traceparent", trace)
			resp, err := http.DefaultClient.Do(r)
			require.NoError(t, err)
			_ = resp.Body.Close()
			sent := (<-got).trace
			require.Equal(t, trace[:36], sent[:36])
			require.NotEqual(t, trace, sent)
		}
	}
}

// flipped is a token with one letter changed, and not the last, which has bits that mean nothing.
func flipped(token string) string {
	i := len(token) - 9
	other := "0"
	if token[i] == '0' {
		other = "1"
	}
	return token[:i] + other + token[i+1:]
}
