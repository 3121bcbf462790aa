package app

import (
	"net/http"
	"strings"

	"github.com/belfry-dev/belfry/internal/server/sessions"
)

// LoginCode logs in to the UI without a key, once. It is for belfry dev.
type LoginCode = sessions.Code

// NewLoginCode returns a code that logs in with a key.
func NewLoginCode(key string) *LoginCode { return sessions.NewCode(key) }

const uiPath = "/ui/"

// mountUI serves the web UI, which needs no key and no database: its pages are the same for everyone and read all data
// from the API. A browser that opens / is redirected to it; all other requests for / are the API's.
func mountUI(mux *http.ServeMux, ui, api http.Handler) {
	if ui == nil {
		ui = http.HandlerFunc(noUI)
	}
	mux.Handle("GET "+uiPath, ui)
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		if !strings.Contains(r.Header.Get("Accept"), "text/html") {
			api.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Vary", "Accept")
		w.Header().Set("Cache-Control", "no-store")
		http.Redirect(w, r, uiPath, http.StatusSeeOther)
	})
}

const noUIPage = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Belfry</title>
<h1>This build of Belfry has no web UI</h1>
<p>Build it and the program again: <code>make web build</code>
<p>Everything else works: the command line (<code>belfry help</code>) and the API (<a href="/docs">its reference</a>).
</html>
`

// noUI answers for a binary that was built without the UI.
func noUI(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusNotFound)
	_, _ = w.Write([]byte(noUIPage)) // it fails only if the client has disconnected
}
