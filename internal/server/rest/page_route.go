package rest

import (
	"html/template"
	"net/http"
	"strings"
)

// Page adds a route that is no operation of the API: a browser opens it, without a key. Its handler returns an error
// instead of an answer, which a browser sees as a page and a program as a problem.
func (a *API) Page(path, operation string, h func(w http.ResponseWriter, r *http.Request) error) {
	verbMux{a}.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
		recordOf(r.Context()).operation = operation
		err := h(w, r)
		if err == nil {
			return
		}
		p := a.Problem(r.Context(), err)
		for name, values := range p.GetHeaders() {
			w.Header()[name] = values
		}
		if !strings.Contains(r.Header.Get("Accept"), "text/html") {
			writeProblem(w, p)
			return
		}
		p.RequestID = w.Header().Get(requestIDHeader)
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.WriteHeader(p.Status)
		_ = problemPage.Execute(w, p) // it fails only if the client has disconnected
	})
}

// problemPage loads nothing and runs nothing, as the policy of all answers demands.
var problemPage = template.Must(template.New("problem").Parse(`<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Log in · Belfry</title>
<h1>The login did not work</h1>
<p>{{.Detail}}
<p><a href="/ui/">Back to the login</a>
<p><small>{{.Code}} · request {{.RequestID}}</small>
</html>
`))

// Fail notes an error of the server for the log, where the client sees a problem only.
func Fail(r *http.Request, err error) { recordOf(r.Context()).err = err }
