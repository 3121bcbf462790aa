package rest

import (
	"embed"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
)

// The API reference is a page that shows the OpenAPI description. It loads nothing from other hosts, so
// it works without internet access and no third party learns who reads it.

//go:embed docs
var docs embed.FS

// docsPolicy allows the page its own files and the description, and nothing else.
const docsPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// registerDocs registers the routes that need no key.
func (a *API) registerDocs() {
	file := func(name string) func() ([]byte, error) {
		return func() ([]byte, error) { return docs.ReadFile("docs/" + name) }
	}
	a.serve("/docs", "text/html; charset=utf-8", file("index.html"))
	a.serve("/docs/docs.js", "text/javascript; charset=utf-8", file("docs.js"))
	a.serve("/docs/docs.css", "text/css; charset=utf-8", file("docs.css"))
	a.serve("/api/v1/openapi.yaml", "application/openapi+yaml", a.OpenAPI)
	a.serve("/api/v1/openapi.json", "application/openapi+json", func() ([]byte, error) {
		return json.Marshal(a.huma.OpenAPI())
	})
}

// serve answers GET requests for a path. It calls read once.
func (a *API) serve(path, contentType string, read func() ([]byte, error)) {
	once := sync.OnceValues(read)
	verbMux{a}.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
		body, err := once()
		if err != nil {
			recordOf(r.Context()).err = err
			writeProblem(w, NewProblem("internal", seeLog))
			return
		}
		w.Header().Set("Content-Type", contentType)
		if strings.HasPrefix(path, "/docs") {
			w.Header().Set(policyHeader, docsPolicy)
		}
		_, _ = w.Write(body) // it fails only if the client has disconnected
	})
}
