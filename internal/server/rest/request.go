package rest

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
)

// huma accepts requests that say something without effect: it takes the first of several values, treats
// an empty value as none, and ignores headers that an operation does not have. This file rejects them.

// checkRequest rejects a request if the operation would ignore a part of it.
func (a *API) checkRequest(ctx huma.Context, next func(huma.Context)) {
	r, _ := humago.Unwrap(ctx)
	query := r.URL.Query()
	bad := append(checkQuery(ctx.Operation(), query), checkHeaders(ctx.Operation(), r)...)
	bad = append(bad, checkPromises(ctx.Operation(), r)...)
	if len(bad) > 0 {
		a.reject(ctx, listProblems(bad))
		return
	}
	if p := checkMedia(ctx.Operation(), r); p != nil {
		a.reject(ctx, p)
		return
	}
	r.URL.RawQuery = query.Encode()
	next(huma.WithValue(ctx, apiKey{}, a))
}

// checkMedia rejects a body of a media type that the operation does not take. A type that ends with
// +json is JSON.
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
	return NewProblem("unsupported_media", "the Content-Type of the body is "+Printable(kind)+"; send "+
		strings.Join(takes, " or ")+" and say so in the header Content-Type (curl: --json for JSON)")
}

// checkQuery rejects unknown, repeated and empty parameters. Lists of names may be written both as
// a=x&a=y and as a=x,y; it rewrites the second form to the first.
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
			bad = append(bad, FieldProblem{
				Field: Printable(name), Problem: "there is no such query parameter", Fix: Suggest(name, names),
			})
		case schema.Type == huma.TypeArray && schema.Items.Ref != "": // an Enum
			query[name] = strings.Split(strings.Join(values, ","), ",")
			if slices.Contains(query[name], "") {
				bad = append(bad, emptyValue(name))
			}
		case schema.Type == huma.TypeArray:
		case len(values) > 1:
			bad = append(bad, repeated(name))
		case values[0] == "" && (schema.Type != huma.TypeString || schema.Format != "" || len(schema.Enum) > 0):
			bad = append(bad, emptyValue(name))
		}
	}
	slices.SortFunc(bad, func(a, b FieldProblem) int { return strings.Compare(a.Field, b.Field) })
	return bad
}

// checkHeaders rejects a header that the operation knows and that is empty or there several times.
func checkHeaders(o *huma.Operation, r *http.Request) (bad []FieldProblem) {
	known := []string{"Authorization"}
	for _, p := range o.Parameters {
		if p.In == "header" {
			known = append(known, p.Name)
		}
	}
	for _, name := range known {
		switch values := r.Header.Values(name); {
		case len(values) > 1:
			bad = append(bad, repeated(name))
		case len(values) == 1 && values[0] == "":
			bad = append(bad, emptyValue(name))
		}
	}
	return bad
}

func repeated(name string) FieldProblem {
	return FieldProblem{Field: name, Problem: "it is given more than once", Fix: "send it once"}
}

func emptyValue(name string) FieldProblem {
	return FieldProblem{Field: name, Problem: "it is empty", Fix: "give it a value, or leave it out"}
}

// checkPromises rejects an Idempotency-Key or an If-Match on an operation that would ignore it, because the
// client relies on it. Reading changes nothing, so GET may have them.
func checkPromises(o *huma.Operation, r *http.Request) (bad []FieldProblem) {
	if r.Method == http.MethodGet {
		return nil
	}
	for _, h := range [][2]string{
		{idempotencyHeader, "leave it out, and before you repeat a request whose response was lost, " +
			"check whether it took effect"},
		{"If-Match", "leave it out"},
	} {
		takes := slices.ContainsFunc(o.Parameters, func(p *huma.Param) bool { return p.In == "header" && p.Name == h[0] })
		if !takes && r.Header.Get(h[0]) != "" {
			bad = append(bad, FieldProblem{Field: h[0], Problem: "this operation does not take one", Fix: h[1]})
		}
	}
	return bad
}
