package server

import (
	"embed"
	"encoding/json"
	"net/http"
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

// describeOperation adds to the description which role an operation needs, and
// puts it with the others on the same things: those of a path /api/v1/jobs/….
func describeOperation(_ *huma.OpenAPI, o *huma.Operation) {
	if o.Extensions == nil {
		o.Extensions = map[string]any{}
	}
	o.Extensions["x-role"] = roleOf(o)
	if _, path, ok := strings.Cut(o.Path, "/v1/"); ok {
		o.Tags = []string{strings.FieldsFunc(path, func(r rune) bool { return r == '/' || r == ':' })[0]}
	}
}
