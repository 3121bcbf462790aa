package server

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/belfry-dev/belfry/internal/config"
)

// What huma would let pass: it takes the first of several values, and an empty one
// for none, and knows no header that an operation has not.

// checkRequest lets a request pass if it says nothing that would be ignored.
func (s *Server) checkRequest(ctx huma.Context, next func(huma.Context)) {
	r, _ := humago.Unwrap(ctx)
	query := r.URL.Query()
	bad := append(checkQuery(ctx.Operation(), query), checkHeaders(ctx.Operation(), r)...)
	if p := idempotencyOf(ctx.Operation(), r); p != nil {
		bad = append(bad, *p)
	}
	if len(bad) > 0 {
		p := newProblem("invalid", listed)
		p.Problems = bad
		s.refuse(ctx, p)
		return
	}
	if p := checkMedia(ctx.Operation(), r); p != nil {
		s.refuse(ctx, p)
		return
	}
	r.URL.RawQuery = query.Encode()
	next(huma.WithValue(ctx, schemasKey{}, s.api.OpenAPI().Components.Schemas))
}

// checkMedia refuses a body of a kind that the operation does not take. A kind that
// ends with +json is JSON.
func checkMedia(o *huma.Operation, r *http.Request) *Problem {
	kind, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	kind = strings.ToLower(strings.TrimSpace(kind))
	if o.RequestBody == nil || kind == "" || r.ContentLength == 0 {
		return nil
	}
	takes := slices.Sorted(maps.Keys(o.RequestBody.Content))
	isJSON := strings.HasSuffix(kind, "+json") && slices.Contains(takes, "application/json")
	if isJSON || slices.Contains(takes, kind) {
		return nil
	}
	return newProblem("unsupported_media", "the body is said to be "+printable(kind)+"; send "+strings.Join(takes, " or ")+" and say so in the header Content-Type (curl: --json for JSON)")
}

// checkQuery tells what is wrong with a query. Lists of names may be written both
// ways, a=x&a=y and a=x,y: the second becomes the first.
func checkQuery(o *huma.Operation, query url.Values) (bad []FieldProblem) {
	known := map[string]*huma.Schema{}
	var names []string
	for _, p := range o.Parameters {
		if p.In == "query" {
			known[p.Name] = p.Schema
			names = append(names, p.Name)
		}
	}
	for name, values := range query {
		schema, ok := known[name]
		switch {
		case !ok:
			bad = append(bad, FieldProblem{Field: printable(name), Problem: "there is no such query parameter", Fix: suggest(name, names)})
		case schema.Type == huma.TypeArray && len(schema.Items.Enum) > 0:
			query[name] = strings.Split(strings.Join(values, ","), ",")
		case schema.Type == huma.TypeArray:
		case len(values) > 1:
			bad = append(bad, FieldProblem{Field: name, Problem: "it is there more than once", Fix: "send it once"})
		case values[0] == "" && (schema.Type != huma.TypeString || schema.Format != "" || len(schema.Enum) > 0):
			bad = append(bad, FieldProblem{Field: name, Problem: "it is empty", Fix: "give it a value, or leave it out"})
		}
	}
	slices.SortFunc(bad, func(a, b FieldProblem) int { return strings.Compare(a.Field, b.Field) })
	return bad
}

// checkHeaders refuses a header that an operation knows and that says nothing.
func checkHeaders(o *huma.Operation, r *http.Request) (bad []FieldProblem) {
	for _, p := range o.Parameters {
		if values := r.Header.Values(p.Name); p.In == "header" && len(values) > 0 && values[0] == "" {
			bad = append(bad, FieldProblem{Field: p.Name, Problem: "it is empty", Fix: "give it a value, or leave it out"})
		}
	}
	return bad
}

// suggest is what to do about a name that is not known.
func suggest(name string, names []string) string {
	switch near := config.Nearest(name, names); {
	case near != "":
		return "did you mean " + near + "?"
	case len(names) == 0:
		return "leave it out; there are none here"
	default:
		slices.Sort(names)
		return "leave it out, or use one of " + strings.Join(names, ", ")
	}
}

// idempotencyOf refuses an Idempotency-Key where it would be ignored: who sends
// one relies on it. What only reads is the same however often it is sent.
func idempotencyOf(o *huma.Operation, r *http.Request) *FieldProblem {
	takes := slices.ContainsFunc(o.Parameters, func(p *huma.Param) bool { return p.In == "header" && p.Name == idempotencyHeader })
	if takes || r.Method == http.MethodGet || r.Header.Get(idempotencyHeader) == "" {
		return nil
	}
	return &FieldProblem{Field: idempotencyHeader, Problem: "this operation does not take one", Fix: "leave it out, and before you repeat a request whose answer was lost, look at what it came to"}
}

// methods that operations may have.
var methods = []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}

// noOperation answers what nothing else does: 405 if the path has operations by
// other methods, else 404.
func (s *Server) noOperation(w http.ResponseWriter, r *http.Request) {
	var allow []string
	for _, method := range methods {
		other := *r
		other.Method = method
		if _, pattern := s.mux.Handler(&other); pattern != "/" && pattern != "" {
			allow = append(allow, method)
		}
	}
	if len(allow) == 0 {
		notFound(w, r)
		return
	}
	w.Header().Set("Allow", strings.Join(allow, ", "))
	writeProblem(w, newProblem("method_not_allowed", "there is no "+asked(r)+"; use "+strings.Join(allow, ", ")))
}

func notFound(w http.ResponseWriter, r *http.Request) {
	detail := "there is no operation " + asked(r) + "; /docs and /api/v1/openapi.yaml list them"
	if strings.Contains(asked(r), ":") {
		detail += "; a colon that belongs to a name is written %3A"
	}
	writeProblem(w, newProblem("not_found", detail))
}

// asked is the method and the path as they were sent: that of a verb was moved.
func asked(r *http.Request) string {
	path, _, _ := strings.Cut(r.RequestURI, "?")
	return printable(r.Method) + " " + printable(path)
}
