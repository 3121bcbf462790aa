package jobs

import (
	"context"
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/server/rest"
	"github.com/belfry-dev/belfry/internal/timeline"
)

// Store is the part of the store that has the definitions of jobs.
type Store interface {
	CreateJob(ctx context.Context, o job.CreateParams) (job.Job, error)
	UpdateJob(ctx context.Context, o job.UpdateParams) (job.Job, error)
	DeleteJob(ctx context.Context, o job.ChangeParams) (job.Change, error)
	Job(ctx context.Context, namespace, id uuid.UUID) (job.Job, error)
	JobByName(ctx context.Context, namespace uuid.UUID, name string) (job.Job, error)
	ListJobs(ctx context.Context, o job.ListParams) (job.ListPage, error)
}

// Verbs is the part of the store that acts on jobs, and reads many for a comparison.
type Verbs interface {
	PauseJob(ctx context.Context, o job.ChangeParams, note string) (job.Change, error)
	ResumeJob(ctx context.Context, o job.ChangeParams) (job.Change, error)
	TriggerJob(ctx context.Context, o job.ChangeParams, payload json.RawMessage) (job.Key, error)
	CreateJobs(ctx context.Context, o job.BulkParams) ([]job.BulkResult, error)
	JobsByName(ctx context.Context, namespace uuid.UUID, names []string) (map[string]job.Job, error)
	BackfillJob(ctx context.Context, o job.BackfillParams) (job.BackfillResult, error)
}

// Views is the part of the store that reads jobs and their ledger as people look at them.
type Views interface {
	RecentRuns(ctx context.Context, namespace uuid.UUID, jobs []job.Job) ([]job.Recent, error)
	Timeline(ctx context.Context, p timeline.Params) (timeline.Facts, error)
	Now(ctx context.Context, namespace uuid.UUID) (time.Time, error)
	Labels(ctx context.Context, namespace uuid.UUID) (keys []job.LabelKey, more bool, err error)
	LabelValues(
		ctx context.Context, namespace uuid.UUID, key, prefix string,
	) (values []job.LabelValue, more bool, err error)
}

// Options of Handlers.
type Options struct {
	Store Store
	Verbs Verbs
	// Versions has the versions of definitions.
	Versions Versions
	// Runs lists runs. nil: jobs have no last_run.
	Runs Runs
	// Views reads what people look at.
	Views Views
	// Check reports what is wrong with a target. nil accepts every target.
	Check NewCheck
	// Clear reports whether a valid target would send a secret without encryption. nil: none does.
	Clear func(t job.Target) bool
}

// NewCheck returns the check of one request, for the namespace of its caller.
type NewCheck func(ctx context.Context, p access.Principal) TargetCheck

// TargetCheck reports what is wrong with a target: its kind, its config, or what the namespace may not use.
type TargetCheck = func(t job.Target) error

// targetCheck returns the check of targets for a request.
func (h *Handlers) targetCheck(ctx context.Context) TargetCheck {
	if h.check == nil {
		return func(job.Target) error { return nil }
	}
	return h.check(ctx, rest.Principal(ctx))
}

// Handlers handle the operations on jobs.
type Handlers struct {
	api   *rest.API
	store Store
	verbs Verbs

	versions Versions
	runs     Runs
	views    Views

	check NewCheck
	clear func(t job.Target) bool
	bulks *rest.BulkLimiter

	validate func(line []byte, most int) error // as create-job validates its body
}

// Register adds the operations on jobs to the API.
func Register(api *rest.API, o Options) *Handlers {
	h := &Handlers{
		api: api, store: o.Store, verbs: o.Verbs, versions: o.Versions, runs: o.Runs, views: o.Views,
		check: o.Check, clear: o.Clear,
		bulks: rest.NewBulkLimiter(api.Limits().Bulks),
	}
	h.registerJobs()
	h.registerList()
	h.registerBulk()
	h.validate = rest.Validator[JobInput](api)
	h.registerDiff()
	h.registerImport()
	h.registerPatch()
	h.registerPreviews()
	h.registerBackfill()
	h.registerVerbs()
	h.registerVersions()
	h.registerTimeline()
	h.registerLabels()
	return h
}

// JobPath names a job.
type JobPath struct {
	Job string `path:"job" maxLength:"600" doc:"The job's id, or its name, escaped." example:"nightly-report"`
}

// ID returns the id of the job that a path or a filter names, by id or by name.
func (h *Handlers) ID(ctx context.Context, idOrName string) (uuid.UUID, error) {
	if id, err := job.ParseJobID(idOrName); err == nil {
		return id, nil
	}
	j, err := h.find(ctx, idOrName)
	return j.ID, err
}

// find returns the job that a path names, by id or by name.
func (h *Handlers) find(ctx context.Context, idOrName string) (job.Job, error) {
	namespace := rest.Principal(ctx).Namespace
	if id, err := job.ParseJobID(idOrName); err == nil {
		return h.store.Job(ctx, namespace, id)
	}
	return h.store.JobByName(ctx, namespace, idOrName)
}
