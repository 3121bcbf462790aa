package rest

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/belfry-dev/belfry/internal/problem"
)

// Paths such as /jobs/{job}:pause are not patterns of ServeMux, whose wildcards are whole segments.
// The router moves the verb, with its colon, to the front: /:pause/jobs/{job}. No other path begins
// with a colon, and no name can be mistaken for a verb.

// verbMux registers patterns with the verb in front.
type verbMux struct{ *API }

func (m verbMux) HandleFunc(pattern string, h func(http.ResponseWriter, *http.Request)) {
	m.routes = append(m.routes, pattern)
	if colon := strings.LastIndexByte(pattern, ':'); colon > strings.LastIndexByte(pattern, '/') {
		method, path, _ := strings.Cut(pattern[:colon], " ")
		pattern = method + " /" + pattern[colon:] + path
	}
	m.mux.HandleFunc(pattern, h)
}

func (m verbMux) ServeHTTP(w http.ResponseWriter, r *http.Request) { m.mux.ServeHTTP(w, r) }

// verbRequest returns a request as verbMux registered its pattern, or nil if no operation can match.
// A colon inside a name is escaped as %3A and stays where it is.
func verbRequest(r *http.Request) *http.Request {
	path := r.URL.EscapedPath()
	colon := strings.LastIndexByte(path, ':')
	switch {
	case strings.Contains(path, "/:"):
		return nil
	case colon < strings.LastIndexByte(path, '/'):
		return r
	}
	plain, err := url.PathUnescape(path)
	if err != nil {
		return nil
	}
	verb, err := url.PathUnescape(path[colon:])
	if err != nil {
		return nil
	}
	u := *r.URL
	u.RawPath, u.Path = "/"+path[colon:]+path[:colon], "/"+verb+strings.TrimSuffix(plain, verb)
	out := r.Clone(r.Context())
	out.URL = &u
	return out
}

// methods that operations may have.
var methods = []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}

// noOperation answers requests that match no route: with 405 if the path has operations with other
// methods, else with 404.
func (a *API) noOperation(w http.ResponseWriter, r *http.Request) {
	var allow []string
	for _, method := range methods {
		other := *r
		other.Method = method
		if _, pattern := a.mux.Handler(&other); pattern != "/" && pattern != "" {
			allow = append(allow, method)
		}
	}
	if len(allow) == 0 {
		notFound(w, r)
		return
	}
	w.Header().Set("Allow", strings.Join(allow, ", "))
	writeProblem(w, NewProblem("method_not_allowed", "there is no "+requestLine(r)+"; use "+strings.Join(allow, ", ")))
}

func notFound(w http.ResponseWriter, r *http.Request) {
	line := requestLine(r)
	detail := "there is no operation " + line + "; the API is at /api/v1, and /docs describes it"
	if strings.Contains(line, ":") {
		detail += "; a colon that belongs to a name is written %3A"
	}
	writeProblem(w, NewProblem("not_found", detail))
}

// requestLine returns the method and the path as the client sent them, with the verb in its place.
func requestLine(r *http.Request) string {
	path, _, _ := strings.Cut(r.RequestURI, "?")
	return Printable(r.Method) + " " + Printable(path)
}

// Printable makes text from a client fit to be shown: short and without control characters.
func Printable(s string) string { return problem.Printable(s) }
