package jobs

import (
	"context"
	"errors"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/server/rest"
)

const exampleJob = `{"name":"nightly-report","schedule":{"cron":"30 2 * * *","timezone":"America/New_York"},` +
	`"target":{"kind":"http","config":{"url":"https://hooks.example.com/nightly"}},"payload":{"report":"sales"}}`

// claimLead is what users must know about changes and the runs of the next moment.
const claimLead = "Runs are claimed up to 250 ms before they are due, so that they start on time: " +
	"after the answer no run of the job begins but one that was claimed before, which is due within 250 ms."

func (h *Handlers) registerJobs() {
	rest.Register(h.api, rest.Operation{
		ID: "create-job", Route: "POST /jobs", Summary: "Create a job", Role: access.Editor,
		Status: http.StatusCreated, Example: exampleJob,
	}, h.createJob)
	rest.Register(h.api, rest.Operation{
		ID: "get-job", Route: "GET /jobs/{job}", Summary: "Get a job", Role: access.Viewer,
	}, h.getJob)
	rest.Register(h.api, rest.Operation{
		ID: "replace-job", Route: "PUT /jobs/{job}", Summary: "Replace a job, or create one by name",
		Role: access.Editor, Example: exampleJob, Describe: alsoCreates,
	}, h.replaceJob)
	rest.Register(h.api, rest.Operation{
		ID: "delete-job", Route: "DELETE /jobs/{job}", Summary: "Delete a job",
		Description: "Its runs that have not begun are taken back, those that have begun are carried to their end, " +
			"and its history stays. " + claimLead,
		Role: access.Editor, Status: http.StatusNoContent,
	}, h.deleteJob)
}

// alsoCreates adds the status 201 to the description. huma knows one success for an operation.
func alsoCreates(_ *huma.OpenAPI, o *huma.Operation) {
	created := *o.Responses["200"]
	created.Description = http.StatusText(http.StatusCreated)
	o.Responses["201"] = &created
}

// JobOutput is a response with a job.
type JobOutput struct {
	ETag string `header:"ETag" doc:"For If-Match. Changes with each change, pause and resume."`
	Body Job
}

func jobResult(j job.Job) *JobOutput {
	return &JobOutput{ETag: `"` + j.Tag() + `"`, Body: wireJob(j)}
}

type createJobInput struct {
	rest.Idempotency
	Body JobInput
}

func (h *Handlers) createdJob(j job.Job) *savedJobOutput {
	r := jobResult(j)
	r.Body.Warnings = append(pastWarnings(&j), h.clearWarnings(&j)...)
	return &savedJobOutput{http.StatusCreated, rest.Path("jobs", r.Body.ID), r.ETag, r.Body}
}

func (h *Handlers) createJob(ctx context.Context, in *createJobInput) (*savedJobOutput, error) {
	create := func(once *job.IdempotentRequest) (job.Job, error) {
		d, err := in.Body.checked(h.targetCheck(ctx))
		if err != nil {
			return job.Job{}, err
		}
		p := rest.Principal(ctx)
		return h.store.CreateJob(ctx, job.CreateParams{
			Namespace: p.Namespace, Definition: d, Actor: p.Actor(), Idempotent: once,
		})
	}
	return rest.Once(&in.Idempotency, "create-job", &in.Body, h.createdJob, create)
}

// checked returns the definition in an input. It checks the definition and its target, and reports
// everything that is wrong at once.
func (in *JobInput) checked(check TargetCheck) (job.Definition, error) {
	d, err := in.checkedOutside(check)
	return d, errors.Join(err, d.Validate())
}

// checkedOutside checks only what the store does not: how values are written, and the target.
func (in *JobInput) checkedOutside(check TargetCheck) (job.Definition, error) {
	d, err := in.definition()
	if d.Target.Kind != "" {
		err = errors.Join(err, check(d.Target))
	}
	return d, err
}

type getJobInput struct {
	JobPath
	Include
}

func (h *Handlers) getJob(ctx context.Context, in *getJobInput) (*JobOutput, error) {
	j, err := h.find(ctx, in.Job)
	if err != nil {
		return nil, err
	}
	out := jobResult(j)
	if out.Body.LastRun, err = h.lastRun(ctx, &j); err != nil || in.Include.Include == "" {
		return out, err
	}
	with := []Job{out.Body}
	err = h.addRecent(ctx, []job.Job{j}, with)
	out.Body = with[0]
	return out, err
}

type deleteJobInput struct {
	JobPath
	Precondition
}

func (h *Handlers) deleteJob(ctx context.Context, in *deleteJobInput) (*struct{}, error) {
	params, err := h.changeParams(ctx, in.Job, &in.Precondition)
	if err == nil {
		_, err = h.store.DeleteJob(ctx, params)
	}
	return nil, in.failed(err)
}
