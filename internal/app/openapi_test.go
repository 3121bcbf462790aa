package app

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// The security tests walk the API by its own description, so that an operation
// that is new tomorrow is walked too.

// operation is one of the API.
type operation struct {
	id, method, path, role string
	params                 []string // in the path
	query                  []string
	media                  string // of the body; empty: there is none
	body                   any    // what is sent
}

// change says whether the operation changes something that is audited: what a viewer may do changes nothing but login
// sessions, and what workers do is in the ledger.
func (o operation) change() bool {
	if o.ofLogin() {
		return o.method != http.MethodGet
	}
	return o.role != "viewer" && o.role != "worker" && !o.byToken() && o.method != http.MethodGet
}

// byToken says that it is done with the token of one run: TestReports has those.
func (o operation) byToken() bool { return o.role == "run" }

// public says that it needs no key.
func (o operation) public() bool { return o.role == "none" }

// ofLogin says that it is about login sessions.
func (o operation) ofLogin() bool { return strings.Contains(o.id, "-login-session") }

// at is the path with its parameters filled in.
func (o operation) at(objects map[string]string) string {
	path := o.path
	for _, p := range o.params {
		path = strings.ReplaceAll(path, "{"+p+"}", objects[p])
	}
	return path
}

func (o operation) payload(t *testing.T) string {
	t.Helper()
	if text, ok := bodies[o.id]; ok {
		return strings.ReplaceAll(text, "UNIQUE", uuid.NewString())
	}
	if o.body == nil {
		return ""
	}
	text, err := json.Marshal(o.body)
	require.NoError(t, err)
	return string(text)
}

// noJob selects no job: an operation on all of them would change what other steps need.
const noJob = `{"filter":{"name":"no job has this name"}}`

// required are the query parameters that an operation cannot do without.
var required = map[string]string{"import-crontab": "?url=https://runner.example.com"}

// operations reads the description of a node.
func operations(t *testing.T, base string) (out []operation) {
	t.Helper()
	_, text := get(t, base+"/api/v1/openapi.json")
	var api map[string]any
	require.NoError(t, json.Unmarshal([]byte(text), &api))
	for path, item := range api["paths"].(map[string]any) {
		for method, described := range item.(map[string]any) {
			d := described.(map[string]any)
			o := operation{
				id: d["operationId"].(string), role: d["x-role"].(string),
				method: strings.ToUpper(method), path: path,
			}
			params, _ := d["parameters"].([]any)
			for _, p := range params {
				switch name := p.(map[string]any)["name"].(string); p.(map[string]any)["in"] {
				case "path":
					o.params = append(o.params, name)
				case "query":
					o.query = append(o.query, name)
				}
			}
			if b, ok := d["requestBody"].(map[string]any); ok {
				for media, content := range b["content"].(map[string]any) {
					o.media, o.body = media, sample(api, content.(map[string]any)["schema"], "")
				}
			}
			out = append(out, o)
		}
	}
	slices.SortFunc(out, func(a, b operation) int { return strings.Compare(a.id, b.id) })
	require.Greater(t, len(out), 10, "the description cannot be read any more")
	return out
}

// bodies are those that cannot be generated from their schema.
var bodies = map[string]string{
	"create-jobs":          `{"name":"UNIQUE","schedule":"every 24h","target":{"kind":"noop"}}` + "\n",
	"preview-new-job":      `{"schedule":"every 24h"}`,
	"update-job":           `{"priority":1}`,
	"create-queue":         `{"name":"made-on-the-walk","max_running":5}`,
	"backfill-job":         `{"from":"2026-01-01T00:00:00Z","to":"2026-01-03T00:00:00Z"}`,
	"discard-dead-letters": `{"all":true}`,
	"redrive-dead-letters": `{"all":true}`,
	"pause-jobs":           noJob, "resume-jobs": noJob, "trigger-jobs": noJob, "delete-jobs": noJob, "spread-jobs": noJob,
	"relabel-jobs":      `{"filter":{"name":"no job has this name"},"set":{"a":"b"}}`,
	"cancel-runs":       `{"filter":{"queue":"none"}}`,
	"retry-runs":        `{"filter":{"queue":"none","state":["failed"]}}`,
	"import-crontab":    "0 * * * * /bin/true\n",
	"claim-runs":        `{"handlers":["sample"],"max":1}`,
	"heartbeat-session": `{"runs":[]}`,
	"complete-runs":     `{"reports":[{"run":"run_06f8m2tq5dtk1e7n9q0c3s5v7g0hq3k5p2d00000","attempt":1,"outcome":"succeeded"}]}`,
}

// meant is what a sample has where the schema alone does not say it.
var meant = map[string]any{
	"schedule": "every 24h", "target": map[string]any{"kind": "noop"}, "role": "viewer",
}

// sample is a value that a schema allows: with what is required, and no more.
func sample(api map[string]any, schema any, name string) any {
	if v, ok := meant[name]; ok {
		return v
	}
	s := schema.(map[string]any)
	if ref, ok := s["$ref"].(string); ok {
		at := any(api)
		for _, key := range strings.Split(ref, "/")[1:] {
			at = at.(map[string]any)[key]
		}
		return sample(api, at, name)
	}
	if values, ok := s["enum"].([]any); ok {
		return values[0]
	}
	switch kind := fmt.Sprint(s["type"]); {
	case strings.Contains(kind, "object"):
		out := map[string]any{}
		required, _ := s["required"].([]any)
		for _, key := range required {
			out[key.(string)] = sample(api, s["properties"].(map[string]any)[key.(string)], key.(string))
		}
		return out
	case strings.Contains(kind, "array"):
		return []any{sample(api, s["items"], "")}
	case strings.Contains(kind, "integer"), strings.Contains(kind, "number"):
		return 1
	case strings.Contains(kind, "boolean"):
		return true
	case strings.Contains(kind, "string"):
		return "sample-" + uuid.NewString()[:8] // names are unique
	}
	return nil
}
