package rest

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"golang.org/x/time/rate"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/server/body"
	"github.com/belfry-dev/belfry/internal/share"
)

// Options of an API.
type Options struct {
	Keys Keys
	// Provider is the identity provider whose people may log in; nil: there is none.
	Provider *access.Provider
	// ReportKeys has the cluster's keys for run tokens; nil: every run token is rejected, and the key of page tokens is
	// known to all. The keys of page tokens are derived from them.
	ReportKeys access.ReportKeyRing
	// Classify names errors of the store that have no error value of their own; may be nil.
	Classify func(error) ErrorClass
	// ExplainChoice explains a value that matches none of the alternatives of its schema; may be nil.
	// It returns nothing if it does not know the field.
	ExplainChoice func(field string, value any) []FieldProblem

	// Refused is called for each request of a known key, or person, that may not change what it wanted to; may be nil.
	Refused func(p access.Principal, operation string, from access.Origin)

	Limits  Limits
	Groups  []Group
	Observe Observer // may be nil
	Log     *slog.Logger
	Version string
}

// Group is a group of operations, named by the first part of their paths.
type Group struct{ Name, Description string }

// API routes requests to operations. Register adds operations; Handler serves them.
// It is safe for concurrent use once all operations are registered.
type API struct {
	opts       Options
	huma       huma.API
	mux        *http.ServeMux
	routes     []string
	operations []string

	keys     keyCache
	hashes   *knownHashes
	limiter  keyLimiter
	failures failureLimiter
	starts   failureLimiter // of logins at an identity provider
	origins  http.CrossOriginProtection
	slots    *share.Pool // one for each request in progress, by namespace
	bodies   *body.Pools
	logLines *rate.Limiter
}

// New returns an API that has the documentation and no operations yet.
func New(o Options) *API {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.ReportKeys == nil {
		o.ReportKeys = access.ReportKeys{nil}
	}
	if o.Classify == nil {
		o.Classify = func(error) ErrorClass { return Unknown }
	}
	if o.ExplainChoice == nil {
		o.ExplainChoice = func(string, any) []FieldProblem { return nil }
	}
	if o.Refused == nil {
		o.Refused = func(access.Principal, string, access.Origin) {}
	}
	o.Limits = o.Limits.orDefault()
	a := &API{
		opts: o, mux: http.NewServeMux(), bodies: body.NewPools(o.Limits.Bodies),
		limiter: keyLimiter{limits: o.Limits}, hashes: newKnownHashes(),
		slots: share.New(int64(o.Limits.Requests)), logLines: rate.NewLimiter(logRate, logBurst),
	}
	a.huma = humago.New(verbMux{a}, a.config())
	a.huma.UseMiddleware(a.authenticate, a.checkRequest, a.admitBody)
	a.registerDocs()
	a.mux.HandleFunc("/", a.noOperation)
	return a
}

// huma keeps its error constructors in package variables, so all servers of the process share them.
func init() { //nolint:gochecknoinits // huma offers no other way, and they must be set before the first request
	huma.NewError = func(status int, message string, errs ...error) huma.StatusError {
		return fromHuma(nil, status, message, errs...)
	}
	huma.NewErrorWithContext = fromHuma
	huma.DefaultArrayNullable = false // a list may be empty, but is never null
}

func (a *API) config() huma.Config {
	c := huma.DefaultConfig("Belfry", a.opts.Version)
	c.Info.Description = "Jobs that run on time, on more than one machine."
	c.Servers = []*huma.Server{{URL: "/", Description: "The node that serves this description."}}
	c.Components.Schemas = huma.NewMapRegistry(schemaPrefix, schemaName)
	c.OpenAPIPath, c.DocsPath, c.SchemasPath = "", "", "" // registerDocs serves them
	c.Formats = map[string]huma.Format{"application/json": huma.DefaultJSONFormat, "json": huma.DefaultJSONFormat}
	c.CreateHooks = nil // no $schema in responses
	c.RejectUnknownQueryParameters = true
	c.Components.SecuritySchemes = map[string]*huma.SecurityScheme{
		"key": {
			Type: "http", Scheme: "bearer",
			Description: "An API key, made by `belfry key create`: `Authorization: Bearer bfk_…`.",
		},
		"run": {
			Type: "http", Scheme: "bearer",
			Description: "The token of one run, which a target gets with the run: " +
				"`Authorization: Bearer bfr_…`. For reports on that run alone.",
		},
	}
	c.Components.SecuritySchemes["session"] = &huma.SecurityScheme{
		Type: "apiKey", In: "cookie", Name: secureCookie,
		Description: "A login session of the web UI, created by `POST /api/v1/session`. Requests that change something " +
			"must come from a page of the same origin and have the header `" + intentHeader + ": 1`.",
	}
	c.Security = []map[string][]string{{"key": {}}, {"session": {}}}
	for _, g := range a.opts.Groups {
		c.Tags = append(c.Tags, &huma.Tag{Name: g.Name, Description: g.Description})
	}
	c.Extensions = map[string]any{"x-problems": problemKinds()}
	c.OnAddOperation = append(c.OnAddOperation, describe)
	c.Transformers = append(c.Transformers, addRequestID)
	return c
}

// Routes lists every route as a pattern of http.ServeMux, so that a test can check that each route
// that needs a key asks for one.
func (a *API) Routes() []string { return a.routes }

// Operations returns the ids of all operations.
func (a *API) Operations() []string { return a.operations }

// OpenAPI returns the description of the API as YAML.
func (a *API) OpenAPI() ([]byte, error) { return a.huma.OpenAPI().YAML() }

// Limits returns the limits of the node, with defaults filled in.
func (a *API) Limits() Limits { return a.opts.Limits }

// Handler serves /api/ and /docs.
func (a *API) Handler() http.Handler { return a.observe(a.limit(a.mux)) }

// ReadTimeout bounds reading a whole request.
const ReadTimeout = 30 * time.Second

// HTTP returns an HTTP server with the timeouts, limits and security headers of a node.
func HTTP(h http.Handler) *http.Server {
	return &http.Server{
		Handler: secure(h), ReadHeaderTimeout: 10 * time.Second, ReadTimeout: ReadTimeout, WriteTimeout: 60 * time.Second,
		IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		HTTP2: &http.HTTP2Config{MaxConcurrentStreams: 100}, // of a connection; it bounds what resets can leave behind too
	}
}

// Unavailable answers every request with the reason why this node serves no API. It closes the
// connection so that the client can reach another node.
func Unavailable(why string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", retryAfter)
		w.Header().Set("Connection", "close")
		w.Header().Set("Cache-Control", "no-store")
		writeProblem(w, NewProblem("unavailable", why))
	})
}

func writeProblem(w http.ResponseWriter, p *Problem) {
	p.RequestID = w.Header().Get(requestIDHeader)
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p) // it fails only if the client has disconnected
}
