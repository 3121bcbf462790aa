package server

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/google/uuid"
	"golang.org/x/time/rate"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
)

// The limits of a request.
const (
	maxBody      = 1 << 20 // bytes; a job has at most 256 kB of payload and 64 kB of config
	readTimeout  = 30 * time.Second
	writeTimeout = 60 * time.Second
	opTimeout    = 30 * time.Second
)

// Keys is the store, as authentication and the keys see it.
type Keys interface {
	Principal(ctx context.Context, hash [32]byte) (access.Principal, error)
	KeyHashes(ctx context.Context) ([][8]byte, error)
	CreateKey(ctx context.Context, o access.KeyParams) (access.APIKey, string, error)
	Keys(ctx context.Context, namespace uuid.UUID) ([]access.APIKey, error)
	RevokeKey(ctx context.Context, namespace, id uuid.UUID, actor string) error
}

// Jobs is the store, as the definitions of jobs see it.
type Jobs interface {
	CreateJob(ctx context.Context, o job.CreateParams) (job.Job, error)
	UpdateJob(ctx context.Context, o job.UpdateParams) (job.Job, error)
	DeleteJob(ctx context.Context, o job.ChangeParams) (job.Change, error)
	Job(ctx context.Context, namespace, id uuid.UUID) (job.Job, error)
	JobByName(ctx context.Context, namespace uuid.UUID, name string) (job.Job, error)
	ListJobs(ctx context.Context, o job.ListParams) (job.ListPage, error)
}

// Verbs is the store, as the verbs on jobs see it.
type Verbs interface {
	PauseJob(ctx context.Context, o job.ChangeParams, note string) (job.Change, error)
	ResumeJob(ctx context.Context, o job.ChangeParams) (job.Change, error)
	TriggerJob(ctx context.Context, o job.ChangeParams, payload json.RawMessage) (job.Key, error)
	CreateJobs(ctx context.Context, o job.BulkParams) ([]job.Made, error)
	BackfillJob(ctx context.Context, o job.BackfillParams) (job.Backfilled, error)
}

// Options of a Server.
type Options struct {
	Keys    Keys
	Jobs    Jobs
	Verbs   Verbs
	Ledger  Ledger
	Stories Stories

	DeadLetters DeadLetters
	Operations  Operations
	Queues      Queues
	Workers     Workers
	Secrets     Secrets
	Reports     Reports
	// ReportKey is the key of the cluster for the tokens of runs; none: no token is
	// good.
	ReportKey []byte
	Cluster   Clusters
	Audit     AuditLog
	// Interrupt ends an attempt early if this node is delivering it, and says
	// whether it is; nil: it never is.
	Interrupt func(k job.Key, attempt int16) bool
	// Check tells what is wrong with a target: its kind, or its settings. nil:
	// nothing is checked.
	Check func(kind string, config json.RawMessage) error
	// Classify tells what kind of error of the store one is; nil: nothing is known.
	Classify func(error) ErrorClass
	Limits   Limits
	Observe  Observer // may be nil
	Log      *slog.Logger
	Version  string
}

// Server answers the API. Safe for concurrent use.
type Server struct {
	opts     Options
	api      huma.API
	mux      *http.ServeMux
	routes   []string
	keys     keyCache
	ring     keyRing
	limiter  keyLimiter
	failures failureLimiter
	slots    chan struct{} // one for each request under way
	waiting  chan struct{} // and for each that waits for output
	bulks    *bulkGate
	lines    *rate.Limiter // of the log
}

// New makes a Server.
func New(o Options) *Server {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Classify == nil {
		o.Classify = func(error) ErrorClass { return Unknown }
	}
	o.Limits = o.Limits.orDefault()
	s := &Server{
		opts: o, mux: http.NewServeMux(), limiter: keyLimiter{limits: o.Limits},
		slots: make(chan struct{}, o.Limits.Requests), waiting: make(chan struct{}, maxWaiting), lines: rate.NewLimiter(lineRate, lineBurst), bulks: newBulkGate(o.Limits.Bulks),
	}
	s.api = humago.New(verbMux{s}, s.describe())
	s.api.UseMiddleware(s.authenticate, s.checkRequest)
	s.registerJobs()
	s.registerJobLists()
	s.registerBulkCreate()
	s.registerPatch()
	s.registerPreviews()
	s.registerBackfill()
	s.registerVerbs()
	s.registerKeys()
	s.registerRuns()
	s.registerWhy()
	s.registerDeadLetters()
	s.registerOperations()
	s.registerQueues()
	s.registerWorkers()
	s.registerSecrets()
	s.registerReports()
	s.registerCluster()
	s.registerAudit()
	s.registerDocs()
	s.mux.HandleFunc("/", s.noOperation)
	return s
}

// Problems, and not huma's own errors, everywhere. huma keeps these in package
// variables, so they are set once, for all servers of the process.
func init() { //nolint:gochecknoinits // there is no other way, and it must be before the first request
	huma.NewError = func(status int, message string, errs ...error) huma.StatusError {
		return fromHuma(nil, status, message, errs...)
	}
	huma.NewErrorWithContext = fromHuma
	huma.DefaultArrayNullable = false // a list may be empty, and is never null
}

func (s *Server) describe() huma.Config {
	c := huma.DefaultConfig("Belfry", s.opts.Version)
	c.Info.Description = "Jobs that run on time, on more than one machine."
	c.OpenAPIPath, c.DocsPath, c.SchemasPath = "", "", "" // registerDocs has them
	c.CreateHooks = nil                                   // no $schema in answers
	c.RejectUnknownQueryParameters = true
	c.Components.SecuritySchemes = map[string]*huma.SecurityScheme{
		"key": {Type: "http", Scheme: "bearer", Description: "An API key, made by `belfry key create`: `Authorization: Bearer bfk_…`."},
		"run": {Type: "http", Scheme: "bearer", Description: "The token of one run, which a target gets with the run: `Authorization: Bearer bfr_…`. For reports on that run alone."},
	}
	c.Security = []map[string][]string{{"key": {}}}
	c.Tags = groups
	c.Extensions = map[string]any{"x-problems": problemKinds()}
	c.OnAddOperation = append(c.OnAddOperation, describeOperation)
	c.Transformers = append(c.Transformers, addRequestID)
	return c
}

// Routes lists all that is answered, as patterns of http.ServeMux: a test walks
// them and finds none that is open by mistake.
func (s *Server) Routes() []string { return s.routes }

// OpenAPI is the description as YAML.
func (s *Server) OpenAPI() ([]byte, error) { return s.api.OpenAPI().YAML() }

// Handler answers /api/ and /docs.
func (s *Server) Handler() http.Handler { return s.recorded(s.bounded(s.mux)) }

// HTTP makes the server of the process, with its limits.
func HTTP(h http.Handler) *http.Server {
	return &http.Server{
		Handler: h, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: readTimeout, WriteTimeout: writeTimeout,
		IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
	}
}

// Paths such as /jobs/{job}:pause are not patterns of ServeMux, whose wildcards
// are whole segments. Between the two, the verb becomes the first segment, with its
// colon: no other path begins so, and none takes it for a name.

// verbMux registers them.
type verbMux struct{ *Server }

func (m verbMux) HandleFunc(pattern string, h func(http.ResponseWriter, *http.Request)) {
	m.routes = append(m.routes, pattern)
	if colon := strings.LastIndexByte(pattern, ':'); colon > strings.LastIndexByte(pattern, '/') {
		method, path, _ := strings.Cut(pattern[:colon], " ")
		pattern = method + " /" + pattern[colon:] + path
	}
	m.mux.HandleFunc(pattern, h)
}

func (m verbMux) ServeHTTP(w http.ResponseWriter, r *http.Request) { m.mux.ServeHTTP(w, r) }

// verbRequest is a request as verbMux has registered it; nil if no operation can
// be meant. A colon that belongs to a name is written %3A, and stays one.
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

func writeProblem(w http.ResponseWriter, p *Problem) {
	p.RequestID = w.Header().Get(requestIDHeader)
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p) // the client is gone if this fails
}

// printable keeps what a user sent fit to be shown.
func printable(s string) string {
	if len(s) > 100 {
		s = s[:100] + "…"
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '·'
		}
		return r
	}, s)
}
