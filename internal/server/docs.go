package server

import (
	"cmp"
	"embed"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"
)

// The reference of the API: a page that draws the OpenAPI description. It loads
// nothing from elsewhere, so it works where there is no internet, and tells nobody
// that it was read.

//go:embed docs
var docs embed.FS

// docsPolicy allows the page its own files and the description, and nothing else.
const docsPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// registerDocs registers all that needs no key.
func (s *Server) registerDocs() {
	s.serve("/docs", "text/html; charset=utf-8", func() ([]byte, error) { return docs.ReadFile("docs/index.html") })
	s.serve("/docs/docs.js", "text/javascript; charset=utf-8", func() ([]byte, error) { return docs.ReadFile("docs/docs.js") })
	s.serve("/docs/docs.css", "text/css; charset=utf-8", func() ([]byte, error) { return docs.ReadFile("docs/docs.css") })
	s.serve("/api/v1/openapi.yaml", "application/openapi+yaml", s.OpenAPI)
	s.serve("/api/v1/openapi.json", "application/openapi+json", func() ([]byte, error) { return json.Marshal(s.api.OpenAPI()) })
}

// serve answers GET of a path with what read makes once.
func (s *Server) serve(path, contentType string, read func() ([]byte, error)) {
	once := sync.OnceValues(read)
	verbMux{s}.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
		body, err := once()
		if err != nil {
			recordOf(r.Context()).err = err
			writeProblem(w, newProblem("internal", "see the node's log"))
			return
		}
		w.Header().Set("Content-Type", contentType)
		w.Header().Set("Content-Security-Policy", docsPolicy)
		w.Header().Set("Referrer-Policy", "no-referrer")
		_, _ = w.Write(body) // the client is gone if this fails
	})
}

// groups are the things that operations are about, in the order in which one
// meets them.
var groups = []*huma.Tag{
	{Name: "jobs", Description: "A job is a saved definition: a schedule, a target, policies and a payload. In a path it is named by its id, or by its name, escaped."},
	{Name: "runs", Description: "A run is one occurrence of a job, live or ended. Its id is the idempotency key that its target gets."},
	{Name: "dead-letters", Description: "Runs that failed for good and wait for redrive or discard."},
	{Name: "operations", Description: "Work on many things at once, which nodes do in the background."},
	{Name: "queues", Description: "A queue is a named lane for runs, which can be paused. The first job in it makes it."},
	{Name: "keys", Description: "API keys of the namespace."},
	{Name: "audit", Description: "Who changed what."},
	{Name: "cluster", Description: "The nodes."},
	{Name: "self", Description: "Who asks."},
}

// problemKinds lists the kinds of problems, for the description.
func problemKinds() (out []map[string]any) {
	for _, code := range slices.SortedFunc(maps.Keys(kinds), func(a, b string) int { return cmp.Compare(kinds[a].status, kinds[b].status) }) {
		out = append(out, map[string]any{"code": code, "status": kinds[code].status, "title": kinds[code].title})
	}
	return out
}

// examples of bodies. make schemathesis sends them, and they must work.
var examples = map[string]string{
	"create-job":           exampleJob,
	"replace-job":          exampleJob,
	"patch-job":            `{"labels":{"team":"billing"},"retry":{"max_attempts":5}}`,
	"preview-job":          `{"schedule":{"cron":"30 2 * * *","timezone":"America/New_York"},"count":5}`,
	"trigger-job":          `{"payload":{"report":"sales"}}`,
	"backfill-job":         `{"from":"2026-05-01T00:00:00Z","to":"2026-05-02T00:00:00Z","pace":"10s","dry_run":true}`,
	"pause-job":            `{"note":"its target is being repaired"}`,
	"pause-queue":          `{"note":"the database moves"}`,
	"redrive-dead-letters": `{"queue":"default","rate":20}`,
	"discard-dead-letters": `{"reason":"attempts","failed_before":"2026-05-01T00:00:00Z"}`,
	"create-key":           `{"name":"ci","role":"editor","expires_in":"90d"}`,
	"open-session":         `{"name":"invoices-7d9f"}`,
	"claim-runs":           `{"handlers":["invoice"],"max":10,"wait_ms":100}`,
	"beat-session":         `{"runs":[{"run":"` + exampleRun + `","attempt":1,"percent":40,"progress":"page 4 of 10"}]}`,
	"complete-runs":        `{"reports":[{"run":"` + exampleRun + `","attempt":1,"outcome":"succeeded"}]}`,
}

const exampleRun = "run_06f8m2tq5dtk1e7n9q0c3s5v7g0hq3k5p2d00000"

const exampleJob = `{"name":"nightly-report","schedule":{"cron":"30 2 * * *","timezone":"America/New_York"},"target":{"kind":"http","config":{"url":"https://hooks.example.com/nightly"}},"payload":{"report":"sales"}}`

// describeOperation adds to the description which role an operation needs, and
// puts it with the others on the same things: those of a path /api/v1/jobs/….
func describeOperation(_ *huma.OpenAPI, o *huma.Operation) {
	if o.Extensions == nil {
		o.Extensions = map[string]any{}
	}
	o.Extensions["x-role"] = roleOf(o)
	if example, ok := examples[o.OperationID]; ok {
		for _, media := range o.RequestBody.Content {
			media.Example = json.RawMessage(example)
		}
	}
	if _, path, ok := strings.Cut(o.Path, "/v1/"); ok {
		o.Tags = []string{strings.FieldsFunc(path, func(r rune) bool { return r == '/' || r == ':' })[0]}
	}
}
