package app

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
)

// TestAWorkersKeyIsGoodForItsQueuesAlone (S19) calls every operation with a worker's key of queue A. Operations that
// are not for workers are rejected, and so are those of queue B. On A, sessions of B and of the queue A of another
// namespace do not exist.
func TestAWorkersKeyIsGoodForItsQueuesAlone(t *testing.T) {
	t.Parallel()
	w := newWalk(t)
	admin := w.tenant(access.DefaultNamespace)
	other, err := w.store.CreateNamespace(t.Context(), "other")
	require.NoError(t, err)
	_, theirs := w.workerKey(other.ID, "a")
	_, mine := w.workerKey(access.DefaultNamespace, "a")
	_, both := w.workerKey(access.DefaultNamespace, "a", "b")
	open := func(key, queue string) string {
		return w.must(key, "POST", "/api/v1/queues/"+queue+"/sessions", `{"name":"w"}`, "id")
	}
	own, onB, foreign := open(mine, "a"), open(both, "b"), open(theirs, "a")
	refused, unseen := 0, 0
	for _, o := range operations(t, w.base) {
		objects := map[string]string{}
		for k, v := range admin.objects {
			objects[k] = v
		}
		objects["queue"], objects["session"] = "b", onB
		if o.id == "heartbeat-session" || o.id == "claim-runs" { // not those that end it
			objects["queue"], objects["session"] = "a", own
			require.Equal(t, http.StatusOK, w.ask(mine, o, o.at(objects), o.payload(t)).status, o.id)
			objects["queue"], objects["session"] = "b", onB
		}
		body := o.payload(t)
		if o.id == "create-login-session" {
			body = `{"key":"` + mine + `"}`
		}
		got := w.ask(mine, o, o.at(objects), body)
		if o.byToken() {
			require.Equal(t, http.StatusUnauthorized, got.status, "%s takes no key: %s", o.id, got.body)
			continue
		}
		require.Equal(t, http.StatusForbidden, got.status, "%s: %s", o.id, got.body)
		refused++
		if o.role != "worker" || !strings.Contains(o.path, "{session}") {
			continue
		}
		objects["queue"] = "a"
		for _, session := range []string{onB, foreign, job.FormatSessionID(uuid.New()), "ses_nonsense"} {
			objects["session"] = session
			got := w.ask(mine, o, o.at(objects), o.payload(t))
			require.Equal(t, http.StatusNotFound, got.status, "%s of %s: %s", o.id, session, got.body)
			unseen++
		}
	}
	require.Greater(t, refused, 30)
	require.GreaterOrEqual(t, unseen, 16)
	// And what a session has can be reported through it alone.
	w.must(admin.key, "POST", "/api/v1/jobs",
		`{"name":"pulled","schedule":"every 24h","queue":"b",
		"target":{"kind":"worker","config":{"handler":"x"}}}`, "id")
	run := w.must(admin.key, "POST", "/api/v1/jobs/pulled:trigger", "", "id")
	require.Equal(t, run, w.must(both, "POST", "/api/v1/queues/b/sessions/"+onB+":claim",
		`{"handlers":["x"],"max":1,"wait_ms":20000}`, "run"))
	lease := `"run":"` + run + `","attempt":1`
	report := `{"reports":[{` + lease + `,"outcome":"succeeded"}]}`
	row := func() (text string) {
		require.NoError(t,
			w.pool.QueryRow(t.Context(), `SELECT x::text FROM run x WHERE handler = 'x' AND state = 1`).Scan(&text))
		return text
	}
	before := row()
	for session, key := range map[string]string{own: mine, foreign: theirs} {
		at := "/api/v1/queues/a/sessions/" + session
		for _, outcome := range []string{
			`"succeeded"`, `"succeeded","result":{"x":1}`, `"failed"`, `"failed","final":true`, `"cancelled"`,
			`"snoozed","retry_after_ms":1000`,
		} {
			got := string(w.call(key, "POST", at+":complete", `{"reports":[{`+lease+`,"outcome":`+outcome+`}]}`).body)
			require.Contains(t, got, `"code":"stale"`, outcome)
			require.Contains(t, got, `"reason":"lost"`, "and nothing reports it: %s", outcome)
		}
		heartbeat := w.call(key, "POST", at+":heartbeat", `{"runs":[{`+lease+`,"percent":50,"progress":"stolen"}]}`)
		require.Contains(t, string(heartbeat.body), `"reason":"lost"`)
		adoption := w.call(key, "POST", "/api/v1/queues/a/sessions",
			`{"name":"w","adopt":"`+onB+`","runs":[{`+lease+`}]}`)
		require.Contains(t, string(adoption.body), `"reason":"lost"`)
	}
	require.Equal(t, before, row(), "and none of it changed anything")
	require.Contains(t, string(w.call(both, "POST", "/api/v1/queues/b/sessions/"+onB+":complete", report).body),
		`"accepted":true`)
	require.Contains(t, string(w.call(admin.key, "GET", "/api/v1/runs/"+run, "").body), `"state":"succeeded"`)
}

func (w *walk) workerKey(namespace uuid.UUID, queues ...string) (access.APIKey, string) {
	w.t.Helper()
	k, secret, err := w.store.CreateKey(w.t.Context(),
		access.KeyParams{Namespace: namespace, Name: "worker", Role: access.Worker, Queues: queues, Actor: "test"})
	require.NoError(w.t, err)
	return k, secret
}
