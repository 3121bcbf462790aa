package rest

import "net/http"

const (
	policyHeader = "Content-Security-Policy"
	// policy is for everything that is not a page: a browser that shows it as one loads and runs nothing.
	policy = "default-src 'none'; frame-ancestors 'none'"
)

// secure sets the headers that every answer of a node has. A page sets its own Content-Security-Policy.
//
// There are no CORS headers anywhere: no page of another origin may read an answer.
func secure(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set(policyHeader, policy)
		if r.TLS != nil { // browsers then refuse a copy of the page over plain HTTP
			h.Set("Strict-Transport-Security", "max-age=31536000")
		}
		next.ServeHTTP(w, r)
	})
}
