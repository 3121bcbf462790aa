package server

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/server/brokers"
	"github.com/belfry-dev/belfry/internal/server/cluster"
	"github.com/belfry-dev/belfry/internal/server/jobs"
	"github.com/belfry-dev/belfry/internal/server/load"
	"github.com/belfry-dev/belfry/internal/server/oidc"
	"github.com/belfry-dev/belfry/internal/server/overview"
	"github.com/belfry-dev/belfry/internal/server/quotas"
	"github.com/belfry-dev/belfry/internal/server/rest"
	"github.com/belfry-dev/belfry/internal/server/secrets"
	"github.com/belfry-dev/belfry/internal/server/sessions"
	"github.com/belfry-dev/belfry/internal/share"
)

// Options of a Server.
type Options struct {
	Keys  Keys
	Jobs  jobs.Store
	Verbs jobs.Verbs
	// Versions has the versions of definitions.
	Versions jobs.Versions
	Ledger   Ledger
	Load     load.Store
	Overview overview.Views
	Live     overview.Cluster
	Views    jobs.Views // what people look at
	Stories  Stories

	DeadLetters DeadLetters
	Operations  Operations
	Queues      cluster.Queues
	Workers     Workers
	Secrets     secrets.Store
	Reports     Reports
	// Redact removes the secrets of a run from the text of a report on it. nil: there are none.
	Redact func(ctx context.Context, r access.Report, text string) (string, error)
	// ReportKeys has the cluster's keys for run tokens; nil: every run token is rejected.
	ReportKeys access.ReportKeyRing
	Cluster    cluster.Clusters
	Audit      AuditLog
	Quotas     quotas.Store
	Brokers    brokers.Store
	// Refused is called for each request of a known key that may not change what it wanted to; may be nil.
	Refused func(p access.Principal, operation string, from access.Origin)
	// Logins has the login sessions of the web UI. LoginCode creates one without a key; nil: no code does.
	Logins    sessions.Store
	LoginCode *sessions.Code
	// OIDC lets people log in through an identity provider; nil: keys alone log in.
	OIDC *OIDC
	// Interrupt ends an attempt early if this node is delivering it, and reports whether it is.
	// nil means that it never is.
	Interrupt func(k job.Key, attempt int16) bool
	// Check reports what is wrong with a target: its kind, or its config. nil accepts every target.
	Check jobs.NewCheck
	// Clear reports whether a valid target would send a secret without encryption. nil: none does.
	Clear func(t job.Target) bool
	// Classify names errors of the store that have no error value of their own; may be nil.
	Classify func(error) rest.ErrorClass
	Limits   rest.Limits
	Observe  rest.Observer // may be nil
	Log      *slog.Logger
	Version  string
	// Sampled reports whether a run is traced whatever its outcome; nil: tracing is off.
	Sampled func(key job.Key, trigger string) bool
	// TraceURL is where people look at a trace, with {trace_id} in place of its id; empty: nowhere.
	TraceURL string
}

// OIDC is an identity provider, and what its people may do.
type OIDC struct {
	oidc.Config
	Grants access.Grants
}

func (o *OIDC) provider() *access.Provider {
	if o == nil {
		return nil
	}
	return &access.Provider{Issuer: o.Issuer, Grants: o.Grants}
}

// Server serves the API. It is safe for concurrent use.
type Server struct {
	opts    Options
	api     *rest.API
	jobs    *jobs.Handlers
	waiting *share.Pool // of requests that wait for output
}

// groups of operations, in the order in which a reader needs them.
var groups = []rest.Group{
	{
		Name: "jobs",
		Description: "A job is a saved definition: a schedule, a target, policies and a payload. " +
			"In a path it is named by its id, or by its name, escaped.",
	},
	{Name: "imports", Description: "Jobs from elsewhere, converted."},
	{
		Name: "runs",
		Description: "A run is one occurrence of a job, live or ended. " +
			"Its id is the idempotency key that its target receives.",
	},
	{Name: "dead-letters", Description: "Runs that failed permanently and wait for redrive or discard."},
	{Name: "labels", Description: "The labels of jobs, for filters."},
	{Name: "load", Description: "When how many runs are due."},
	{Name: "overview", Description: "How the namespace is doing."},
	{Name: "stats", Description: "What happened in each minute or hour."},
	{Name: "operations", Description: "Bulk work that nodes do in the background."},
	{
		Name:        "queues",
		Description: "A queue groups runs that share limits, and can be paused. It is created on first use.",
	},
	{Name: "keys", Description: "API keys of the namespace."},
	{Name: "brokers", Description: "What the operator of the cluster has set for targets that send messages."},
	{Name: "quotas", Description: "What the operator of the cluster limits for the namespace."},
	{Name: "audit", Description: "Who changed what."},
	{Name: "cluster", Description: "The nodes."},
	{Name: "schedules", Description: "What the schedules of all jobs have in common."},
	{Name: "self", Description: "The key, or the person, that sends the request."},
	{Name: "session", Description: "The login session of the web UI that sends the request."},
	{Name: "sessions", Description: "The login sessions of the key, or the person, that sends the request."},
}

// New returns a Server with all operations.
func New(o Options) *Server {
	api := rest.New(rest.Options{
		Keys: o.Keys, Provider: o.OIDC.provider(), ReportKeys: o.ReportKeys, Classify: o.Classify,
		ExplainChoice: jobs.ExplainSchedule, Limits: o.Limits, Refused: o.Refused, Groups: groups, Observe: o.Observe,
		Log: o.Log, Version: o.Version,
	})
	s := &Server{opts: o, api: api, waiting: share.New(maxWaiting)}
	s.jobs = jobs.Register(api, jobs.Options{
		Store: o.Jobs, Verbs: o.Verbs, Versions: o.Versions, Runs: o.Ledger, Views: o.Views, Check: o.Check, Clear: o.Clear,
	})
	load.Register(api, o.Load)
	overview.Register(api, &overview.Handlers{Views: o.Overview, Cluster: o.Live, Load: o.Load})
	s.registerKeys()
	s.registerSessions()
	s.registerRuns()
	s.registerWhy()
	s.registerDeadLetters()
	s.registerOperations()
	s.registerBulkJobs()
	s.registerBulkRuns()
	cluster.Register(api, cluster.Options{Queues: o.Queues, Cluster: o.Cluster, Version: o.Version})
	s.registerWorkers()
	secrets.Register(api, o.Secrets)
	s.registerReports()
	s.registerAudit()
	quotas.Register(api, o.Quotas)
	brokers.Register(api, o.Brokers)
	return s
}

func (s *Server) registerSessions() {
	o := s.opts
	sessions.Register(s.api, sessions.Options{
		Store: o.Logins, Code: o.LoginCode, Version: o.Version, Provider: o.OIDC.provider(),
	})
	if o.OIDC != nil {
		if o.Log == nil {
			o.Log = slog.New(slog.DiscardHandler)
		}
		oidc.Register(s.api, oidc.Options{Config: o.OIDC.Config, Grants: o.OIDC.Grants, Store: o.Logins, Log: o.Log})
	}
}

// Routes lists every route as a pattern of http.ServeMux.
func (s *Server) Routes() []string { return s.api.Routes() }

// Operations returns the ids of all operations.
func (s *Server) Operations() []string { return s.api.Operations() }

// OpenAPI returns the description of the API as YAML.
func (s *Server) OpenAPI() ([]byte, error) { return s.api.OpenAPI() }

// Handler serves /api/ and /docs.
func (s *Server) Handler() http.Handler { return s.api.Handler() }
