package server_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestWrongRequestsAreToldSo: the response to a wrong request names the field and what to do, and never
// repeats the value that was sent.
func TestWrongRequestsAreToldSo(t *testing.T) {
	t.Parallel()
	b := setup(t)
	require.Equal(t, 201, b.call("POST", "/jobs", strings.Replace(hourly, "report", "there", 1)).status)
	// job changes or adds members of a job.
	job := func(change string) string {
		out := `{"target":{"kind":"noop"}` + change + `}`
		for name, value := range map[string]string{"name": `"x"`, "schedule": `"0 9 * * *"`} {
			if !strings.Contains(change, `,"`+name+`":`) {
				out = `{"` + name + `":` + value + "," + out[1:]
			}
		}
		return out
	}
	for name, tc := range map[string]struct {
		method, path, body string
		status             int
		want               []string
	}{
		"unknown parameter": {
			"GET", "/jobs?stat=active", "", 422,
			[]string{`"field":"stat"`, `did you mean state?`},
		},
		"parameter like none": {
			"GET", "/self?verbosity=5", "", 422,
			[]string{`"field":"verbosity"`, `there are none here`},
		},
		"parameter twice": {
			"GET", "/jobs?state=active&state=paused", "", 422,
			[]string{`"field":"state"`, `more than once`},
		},
		"empty number": {
			"GET", "/jobs?page_size=", "", 422,
			[]string{`"field":"page_size"`, `it is empty`},
		},
		"empty time": {
			"GET", "/runs?due_from=", "", 422,
			[]string{`"field":"due_from"`, `it is empty`},
		},
		"not a number": {
			"GET", "/jobs?page_size=many", "", 422,
			[]string{`"field":"page_size"`, `it is not a whole number`},
		},
		"too large a number": {
			"GET", "/jobs?page_size=501", "", 422,
			[]string{`it is more than 500`, `use 500 or less`},
		},
		"not a time": {
			"GET", "/jobs?due_from=tomorrow", "", 422,
			[]string{`it is not a time`, `2027-01-31T09:00:00Z`},
		},
		"none of the states": {
			"GET", "/runs?state=failed,canceled", "", 422,
			[]string{`"field":"state[1]"`, `use one of pending, retrying, due`},
		},
		"an empty state": {
			"GET", "/runs?state=", "", 422,
			[]string{`"field":"state"`, `it is empty`, `give it a value, or leave it out`},
		},
		"bad token": {
			"GET", "/audit?page_token=x", "", 400,
			[]string{`"field":"page_token"`},
		},
		"bad cron": {
			"POST", "/jobs", job(`,"schedule":"61 * * * *"`), 422,
			[]string{`"field":"schedule.cron"`, `is not 0 to 59`, `for example 0 9 * * 1-5`},
		},
		"unknown zone": {
			"POST", "/jobs", job(`,"schedule":{"cron":"0 9 * * *","timezone":"Nowhere"}`), 422,
			[]string{`"field":"schedule.timezone"`, `use an IANA name`},
		},
		"unknown field": {
			"POST", "/jobs", job(`,"priorty":5`), 422,
			[]string{`"field":"priorty"`, `did you mean priority?`},
		},
		"unknown inner field": {
			"POST", "/jobs", job(`,"retry":{"max_attempt":5}`), 422,
			[]string{`"field":"retry.max_attempt"`, `did you mean max_attempts?`},
		},
		"unknown in a schedule": {
			"POST", "/jobs", job(`,"schedule":{"crn":"0 9 * * *"}`), 422,
			[]string{`"field":"schedule.crn"`, `did you mean cron?`},
		},
		"number for a cron": {
			"POST", "/jobs", job(`,"schedule":{"cron":5}`), 422,
			[]string{`"field":"schedule.cron"`, `it is not a string`},
		},
		"number for a schedule": {
			"POST", "/jobs", job(`,"schedule":5`), 422,
			[]string{`"field":"schedule"`, `neither a text nor an object`},
		},
		"missing": {
			"POST", "/jobs", `{"name":"x","schedule":"0 9 * * *"}`, 422,
			[]string{`"field":"target","problem":"it is missing"`},
		},
		"wrong types": {
			"POST", "/jobs", job(`,"priority":"high","labels":{"a":5},"retry":[]`), 422,
			[]string{
				`"field":"priority","problem":"it is not a whole number"`,
				`"field":"labels.a","problem":"it is not a string"`,
				`"field":"retry","problem":"it is not an object"`,
			},
		},
		"none of the values": {
			"POST", "/jobs", job(`,"overlap":"never"`), 422,
			[]string{`"field":"overlap"`, `use one of skip, queue, queue_all, allow, replace`},
		},
		"empty name": {
			"POST", "/jobs", job(`,"name":""`), 422,
			[]string{`"field":"name","problem":"it is empty"`},
		},
		"no body": {
			"POST", "/jobs", ``, 400,
			[]string{`the body is missing; send a JSON object`},
		},
		"cut off": {
			"POST", "/jobs", `{"name":`, 400,
			[]string{`it ends too early`},
		},
		"comma": {
			"POST", "/jobs", `{"name":"x",}`, 400,
			[]string{`it is not JSON`, `one too many?`},
		},
		"list": {
			"POST", "/jobs", `[]`, 422,
			[]string{`it is not an object`},
		},
		"too large": {
			"POST", "/jobs", job(`,"payload":"` + strings.Repeat("x", 1<<20) + `"`), 413,
			[]string{`larger than 1 MB`, `/api/v1/jobs:bulk`},
		},
		"too large for many": {
			"POST", "/jobs:bulk", strings.Repeat("x", 17<<20), 413,
			[]string{`larger than 16 MB; send the jobs in several requests`},
		},
		"too many leases": {
			"POST", "/queues/mail/sessions", `{"name":"` + strings.Repeat("x", 4<<20) + `"}`, 413,
			[]string{`larger than 4 MB; name fewer runs`},
		},
		"too many runs": {
			"POST", "/queues/mail/sessions/ses_x:heartbeat", `{"runs":"` + strings.Repeat("x", 4<<20) + `"}`, 413,
			[]string{`larger than 4 MB; name fewer runs`},
		},
		"too many reports": {
			"POST", "/queues/mail/sessions/ses_x:complete", `{"reports":"` + strings.Repeat("x", 1<<20) + `"}`, 413,
			[]string{`larger than 1 MB; name fewer runs`},
		},
		"unknown in a patch": {
			"PATCH", "/jobs/there", `{"priorty":5}`, 422,
			[]string{`"field":"priorty"`, `did you mean priority?`},
		},
		"unknown in a line": {
			"POST", "/jobs:bulk", `{"schedul":"every 1h"}`, 200,
			[]string{`"field":"schedul"`, `did you mean schedule?`},
		},
		"name twice": {
			"POST", "/jobs", job(`,"name":"y","name":"z"`), 422,
			[]string{`"field":"name","problem":"it is written twice","fix":"write it once"`},
		},
		"twice in a part": {
			"PUT", "/jobs/x", job(`,"retry":{"base":"1s","base":"2s"}`), 422,
			[]string{`"field":"retry.base","problem":"it is written twice"`},
		},
		"twice in a patch": {
			"PATCH", "/jobs/there", `{"priority":5,"priority":6}`, 422,
			[]string{`"field":"priority","problem":"it is written twice"`},
		},
		"twice in a line": {
			"POST", "/jobs:bulk", job(`,"name":"y","name":"z"`), 200,
			[]string{`"field":"name","problem":"it is written twice"`, `"created":0`},
		},
		"twice in a preview": {
			"POST", "/jobs:preview", `{"schedule":"@daily","schedule":"@hourly"}`, 422,
			[]string{`"field":"schedule","problem":"it is written twice"`},
		},
		"no such job": {
			"GET", "/jobs/none", "", 404,
			[]string{`there is no such job in this namespace`},
		},
		"no such queue": {
			"POST", "/queues/none:pause", "", 404,
			[]string{`there is no such queue in this namespace`},
		},
		"no such operation": {
			"GET", "/job", "", 404,
			[]string{`there is no operation GET /api/v1/job;`, `/docs`},
		},
		"a name with a colon": {
			"GET", "/jobs/a:b", "", 404,
			[]string{`a colon that belongs to a name is written %3A`},
		},
	} {
		t.Run(name, func(t *testing.T) { //nolint:paralleltest // one API for all
			var header []string
			if strings.HasSuffix(tc.path, ":bulk") {
				header = []string{"Content-Type", "application/x-ndjson"}
			}
			a := b.call(tc.method, tc.path, tc.body, header...)
			require.Equal(t, tc.status, a.status, "%s", a.body)
			for _, want := range tc.want {
				require.Contains(t, string(a.body), want)
			}
			for _, huma := range []string{"expected", "validation failed", "property"} {
				require.NotContains(t, string(a.body), huma)
			}
		})
	}
}

func TestTheKindOfABody(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for kind, want := range map[string]int{
		"application/json": 201, "application/json; charset=utf-8": 201, "application/vnd.x+json": 201,
		"APPLICATION/JSON": 201, "application/x-www-form-urlencoded": 415, "text/plain": 415, "application/yaml": 415,
		"application/x-ndjson": 415, "nonsense": 415,
	} {
		plain := strings.NewReplacer("/", "-", ";", "-", " ", "", "=", "-", "+", "-").Replace(kind)
		name := strings.ToLower(plain) + kind[:1]
		a := b.call("POST", "/jobs", strings.Replace(hourly, "report", name, 1), "Content-Type", kind)
		require.Equal(t, want, a.status, "%s: %s", kind, a.body)
		if want == 415 {
			require.Contains(t, string(a.body), "send application/json and say so in the header Content-Type")
		}
	}
	require.Equal(t, 415, b.call("POST", "/jobs:bulk", hourly, "Content-Type", "text/csv").status)
	for kind, want := range map[string]int{"application/json-patch": 415, "application/merge-patch+json": 200} {
		a := b.call("PATCH", "/jobs/application-jsona", `{"priority":1}`, "Content-Type", kind)
		require.Equal(t, want, a.status, "%s: %s", kind, a.body)
	}
}

// TestAnotherMethod: if a path has operations with other methods, the response lists the methods.
func TestAnotherMethod(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for path, allow := range map[string]string{
		"/jobs": "GET, POST", "/jobs/x": "GET, PUT, PATCH, DELETE", "/jobs/x:pause": "POST", "/jobs/x/runs": "GET",
		"/self": "GET", "/openapi.yaml": "GET", "/jobs:bulk": "POST",
	} {
		for _, method := range []string{"GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "QUERY"} {
			if strings.Contains(allow, method) {
				continue
			}
			a := b.call(method, path, "")
			require.Equal(t, http.StatusMethodNotAllowed, a.status, "%s %s: %s", method, path, a.body)
			require.Equal(t, allow, a.header.Get("Allow"))
			require.Equal(t, "method_not_allowed", a.json(t)["code"])
		}
	}
	require.Equal(t, http.StatusNotFound, b.call("POST", "/nothing", "").status)
	for _, path := range []string{
		"/jobs/x:nonsense", "/jobs/x:", "/jobs/:pause", "/jobs/x/:pause", "/jobs/:x:pause", "/:pause/jobs/x",
	} {
		require.Equal(t, http.StatusNotFound, b.call("POST", path, "").status, path)
	}
	for _, name := range []string{":bulk", ":preview", "a:b", "a:pause"} {
		path := "/jobs/" + strings.ReplaceAll(name, ":", "%3A")
		require.Equal(t, 201, b.call("PUT", path, strings.Replace(hourly, "report", name, 1)).status, name)
		require.Equal(t, 200, b.call("POST", path+":pause", "").status, name)
		require.Equal(t, 204, b.call("DELETE", path, "").status, name)
	}
}

// TestStatesInAQuery: a query may repeat a state parameter or separate states with commas.
func TestStatesInAQuery(t *testing.T) {
	t.Parallel()
	n := setupNode(t)
	n.work()
	id := n.create("a", yearly, "/ok")
	n.await("/runs/"+n.trigger(id), "state", "succeeded")
	require.Equal(t, 200, n.call("POST", "/jobs/a:pause", "").status)
	count := func(query string) int {
		a := n.call("GET", "/jobs/a/runs?"+query, "")
		require.Equal(t, 200, a.status, "%s: %s", query, a.body)
		return len(a.json(t)["items"].([]any))
	}
	require.Equal(t, 1, count("state=succeeded"))
	for _, query := range []string{
		"state=failed&state=succeeded", "state=succeeded&state=failed", "state=failed,succeeded",
		"state=failed%2Csucceeded", "state=failed,cancelled&state=succeeded",
	} {
		require.Equal(t, 1, count(query), query)
	}
	require.Zero(t, count("state=failed&state=cancelled"))
}

// TestNullIsAsLeftOut: null means the same as leaving out an optional field, in a job and in its parts.
func TestNullIsAsLeftOut(t *testing.T) {
	t.Parallel()
	b := setup(t)
	a := b.call("POST", "/jobs", `{"name":"plain","schedule":"every 1h","target":{"kind":"noop"}}`)
	require.Equal(t, 201, a.status, "%s", a.body)
	plain := a.json(t)
	a = b.call("POST", "/jobs", `{"name":"nulls","schedule":"every 1h","target":{"kind":"noop","config":null},
		"labels":null,"payload":null,"queue":null,"priority":null,
		"retry":{"max_attempts":null,"backoff":null,"base":null,"cap":null,"jitter":null},"missed":null,"overlap":null,
		"timeout":null,"deadline":null,"delivery":null,"pause_after_failures":null,"keep_finished_for":null}`)
	require.Equal(t, 201, a.status, "%s", a.body)
	nulls := a.json(t)
	for _, own := range []string{"id", "name", "created_at", "updated_at"} {
		delete(plain, own)
		delete(nulls, own)
	}
	require.Equal(t, plain, nulls)
	require.Equal(t, 201, b.call("POST", "/keys", `{"name":"k","role":"viewer","expires_in":null}`).status)
	require.Equal(t, 200, b.call("POST", "/jobs/nulls:pause", `{"note":null}`).status)
	a = b.call("POST", "/jobs", `{"name":null,"schedule":"every 1h","target":{"kind":"noop"}}`)
	require.Equal(t, 422, a.status, "this one is required")
}

// TestTwoKeysAreRejected: nothing in a request is ignored.
func TestTwoKeysAreRejected(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, keys := range [][]string{{b.key, "bfk_x"}, {"bfk_x", b.key}, {b.key, b.key}} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, b.url+"/jobs", http.NoBody)
		require.NoError(t, err)
		for _, k := range keys {
			r.Header.Add("Authorization", "Bearer "+k)
		}
		resp, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		text, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.GreaterOrEqual(t, resp.StatusCode, 400)
		if keys[0] == b.key {
			require.Contains(t, string(text), `"field":"Authorization","problem":"it is given more than once"`)
		}
	}
}
