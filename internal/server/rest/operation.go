package rest

import (
	"cmp"
	"context"
	"encoding/json"
	"net/url"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/belfry-dev/belfry/internal/access"
)

// Operation describes an operation: what the router, authentication and the API reference need.
type Operation struct {
	ID          string // stable, such as "pause-job"
	Route       string // method and path below /api/v1, such as "POST /jobs/{job}:pause"
	Summary     string
	Description string
	Role        access.Role // that a key needs, or ByToken, or Public; none is Admin
	Status      int         // of a success; none is 200, or 204 without a body

	MaxBody     int64         // bytes; none is 1 MB
	TooLarge    string        // what a client can do about a larger body
	BodyTimeout time.Duration // for reading the body; none is 5 seconds
	Example     string        // a body as JSON, which must work: make schemathesis sends it

	// Enter is called when the body has been read; may be nil. It may wait or reject the request.
	// leave is called when the request ends.
	Enter func(ctx context.Context) (leave func(), err error)
	// Describe adds to the description what Go types cannot say; may be nil.
	Describe func(*huma.OpenAPI, *huma.Operation)

	maxValues int // of its body, by its schema
}

// ByToken is the role of operations that take the token of one run instead of a key. The token is
// good for these operations on that run only.
const ByToken access.Role = "run"

// Public is the role of operations that need no key. What they do is open to everyone who reaches a node.
const Public access.Role = "none"

const (
	// BasePath is the path of the API.
	BasePath    = "/api/v1"
	defaultBody = 1 << 20 // bytes; a job has at most 256 kB of payload and 64 kB of config
	// bulkHint is for operations that do not say what to do about a body that is too large.
	bulkHint = "a payload may have 256 kB, and many jobs go through POST /api/v1/jobs:bulk"
)

// Path returns the path of a resource, for the header Location.
func Path(collection, id string) string {
	return BasePath + "/" + collection + "/" + url.PathEscape(id)
}

// Register adds an operation. The handler may return any error: Register maps it to a Problem.
func Register[In, Out any](a *API, o Operation, handle func(context.Context, *In) (*Out, error)) {
	o.MaxBody, o.TooLarge = cmp.Or(o.MaxBody, defaultBody), cmp.Or(o.TooLarge, bulkHint)
	o.BodyTimeout = cmp.Or(o.BodyTimeout, a.opts.Limits.BodyTimeout)
	huma.Register(a.huma, a.forHuma(o), func(ctx context.Context, in *In) (*Out, error) {
		if bad := recordOf(ctx).bad; bad != nil {
			return nil, bad
		}
		out, err := handle(ctx, in)
		if err != nil {
			return nil, a.Problem(ctx, err)
		}
		return out, nil
	})
	addDescriptions(a.huma.OpenAPI().Components.Schemas)
	method, path, _ := strings.Cut(o.Route, " ")
	registered := methodsOf(a.huma.OpenAPI().Paths[BasePath+path])[method]
	if o.Describe != nil {
		o.Describe(a.huma.OpenAPI(), registered)
	}
	o.maxValues = a.valuesOf(registered)
	registered.Metadata[metadata] = o
}

func methodsOf(p *huma.PathItem) map[string]*huma.Operation {
	return map[string]*huma.Operation{"GET": p.Get, "POST": p.Post, "PUT": p.Put, "PATCH": p.Patch, "DELETE": p.Delete}
}

// metadata is where a huma operation keeps the Operation it was made from.
const metadata = "operation"

func operationOf(o *huma.Operation) Operation {
	out, _ := o.Metadata[metadata].(Operation)
	return out
}

// roleOf returns the role that an operation needs. An operation that names no role needs admin, so
// forgetting the role opens nothing.
func roleOf(o *huma.Operation) access.Role { return cmp.Or(operationOf(o).Role, access.Admin) }

func (a *API) forHuma(o Operation) huma.Operation {
	method, path, _ := strings.Cut(o.Route, " ")
	a.operations = append(a.operations, o.ID)
	out := huma.Operation{
		OperationID: o.ID, Method: method, Path: BasePath + path, Summary: o.Summary, Description: o.Description,
		DefaultStatus: o.Status, Metadata: map[string]any{metadata: o},
	}
	out.MaxBodyBytes, out.BodyReadTimeout, out.SkipValidateBody = -1, -1, true // admitBody has done it
	switch o.Role {
	case ByToken:
		out.Security = []map[string][]string{{"run": {}}}
	case Public:
		out.Security = []map[string][]string{{}}
	}
	if o.Enter != nil {
		out.Middlewares = huma.Middlewares{a.enter}
	}
	return out
}

// enter is the middleware of operations with Enter.
func (a *API) enter(ctx huma.Context, next func(huma.Context)) {
	leave, err := operationOf(ctx.Operation()).Enter(ctx.Context())
	if err != nil {
		a.reject(ctx, err)
		return
	}
	defer leave()
	next(ctx)
}

// describe adds the role, the example and the group of an operation to its description. The group is
// the first part of its path, such as jobs in /api/v1/jobs/{job}:pause.
func describe(_ *huma.OpenAPI, o *huma.Operation) {
	if o.Extensions == nil {
		o.Extensions = map[string]any{}
	}
	o.Extensions["x-role"] = roleOf(o)
	if example := operationOf(o).Example; example != "" {
		for _, media := range o.RequestBody.Content {
			media.Example = json.RawMessage(example)
		}
	}
	if _, path, ok := strings.Cut(o.Path, "/v1/"); ok {
		o.Tags = []string{strings.FieldsFunc(path, func(r rune) bool { return r == '/' || r == ':' })[0]}
	}
}
