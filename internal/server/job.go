package server

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
)

// operation describes one, with the role that it needs.
func operation(id, method, path, summary string, role access.Role) huma.Operation {
	return huma.Operation{
		OperationID: id, Method: method, Path: "/api/v1" + path, Summary: summary, Tags: []string{strings.Split(id, "-")[1]},
		Metadata: map[string]any{needs: role}, MaxBodyBytes: maxBody,
	}
}

// JobPath names a job.
type JobPath struct {
	Job string `path:"job" maxLength:"600" doc:"The job's id, or its name, escaped." example:"nightly-report"`
}

// Precondition binds a change to a version.
type Precondition struct {
	IfMatch string `header:"If-Match" maxLength:"60" pattern:"^(\\*|\"?[0-9]{1,9}(-[0-9a-z]{1,20})?\"?)$" patternDescription:"an ETag of a job, such as \"3-hq2k5mz1x1\", a version, such as \"3\", or *" doc:"The job's ETag: the change is refused with 412 if the job was changed, paused or resumed meanwhile. A version alone, such as \"3\", binds it to the definition; * to there being such a job."`
}

// JobOutput is an answer with a job.
type JobOutput struct {
	ETag string `header:"ETag" doc:"Another one after each change, pause and resume: for If-Match."`
	Body Job
}

func jobResult(j job.Job) *JobOutput {
	return &JobOutput{ETag: `"` + j.Tag() + `"`, Body: wireJob(j)}
}

func (s *Server) registerJobs() {
	create := operation("create-job", http.MethodPost, "/jobs", "Create a job", access.Editor)
	create.DefaultStatus = http.StatusCreated
	huma.Register(s.api, create, s.createJob)
	huma.Register(s.api, operation("get-job", http.MethodGet, "/jobs/{job}", "Get a job", access.Viewer), s.getJob)
	huma.Register(s.api, operation("replace-job", http.MethodPut, "/jobs/{job}", "Replace a job, or create one by name", access.Editor), s.replaceJob)
	replace := s.api.OpenAPI().Paths["/api/v1/jobs/{job}"].Put
	created := *replace.Responses["200"]
	created.Description = http.StatusText(http.StatusCreated)
	replace.Responses["201"] = &created // huma knows one success for an operation
	remove := operation("delete-job", http.MethodDelete, "/jobs/{job}", "Delete a job", access.Editor)
	remove.DefaultStatus = http.StatusNoContent
	remove.Description = "Its runs that have not begun are taken back, those that have begun are carried to their end, and its history stays. " + claimLead
	huma.Register(s.api, remove, s.deleteJob)
}

type createJobInput struct {
	Idempotency
	Body JobInput
}

type createJobOutput struct {
	Location string `header:"Location" doc:"Where the job is."`
	ETag     string `header:"ETag" doc:"Another one after each change, pause and resume: for If-Match."`
	Body     Job
}

func createdJob(j job.Job) *createJobOutput {
	r := jobResult(j)
	return &createJobOutput{"/api/v1/jobs/" + r.Body.ID, r.ETag, r.Body}
}

func (s *Server) createJob(ctx context.Context, in *createJobInput) (*createJobOutput, error) {
	once, err := in.once("create-job", &in.Body, func(made any) any { return createdJob(made.(job.Job)) })
	if err != nil {
		return nil, s.problem(ctx, err)
	}
	j, err := s.create(ctx, &in.Body, once)
	if err != nil {
		out, err := recalled[createJobOutput](once, err)
		if err != nil {
			return nil, s.refused(ctx, err, nil)
		}
		return out, nil
	}
	return createdJob(j), nil
}

func (s *Server) create(ctx context.Context, in *JobInput, once *job.IdempotentRequest) (job.Job, error) {
	d, err := s.checked(in)
	if err != nil {
		return job.Job{}, err
	}
	p := principal(ctx)
	return s.opts.Jobs.CreateJob(ctx, job.CreateParams{Namespace: p.Namespace, Definition: d, Actor: p.Actor(), Idempotent: once})
}

// checked is a definition that the store will take, and the job's target too:
// all that is wrong is told at once.
func (s *Server) checked(in *JobInput) (job.Definition, error) {
	d, err := s.outside(in)
	return d, errors.Join(err, d.Validate())
}

// outside checks what only the API knows of: how things are written, and targets.
func (s *Server) outside(in *JobInput) (job.Definition, error) {
	d, err := in.definition()
	if s.opts.Check != nil && d.Target.Kind != "" {
		err = errors.Join(err, s.opts.Check(d.Target.Kind, d.Target.Config))
	}
	return d, err
}

func (s *Server) getJob(ctx context.Context, in *JobPath) (*JobOutput, error) {
	j, err := s.named(ctx, in.Job)
	if err != nil {
		return nil, s.problem(ctx, err)
	}
	return jobResult(j), nil
}

// named returns the job that a path names: by id or by name.
func (s *Server) named(ctx context.Context, path string) (job.Job, error) {
	ns := principal(ctx).Namespace
	if id, err := job.ParseJobID(path); err == nil {
		return s.opts.Jobs.Job(ctx, ns, id)
	}
	return s.opts.Jobs.JobByName(ctx, ns, path)
}

// idOf returns the id of the job that a path names.
func (s *Server) idOf(ctx context.Context, path string) (uuid.UUID, error) {
	if id, err := job.ParseJobID(path); err == nil {
		return id, nil
	}
	j, err := s.named(ctx, path)
	return j.ID, err
}

type deleteJobInput struct {
	JobPath
	Precondition
}

func (s *Server) deleteJob(ctx context.Context, in *deleteJobInput) (*struct{}, error) {
	o, err := s.order(ctx, in.Job, &in.Precondition)
	if err == nil {
		_, err = s.opts.Jobs.DeleteJob(ctx, o)
	}
	if err != nil {
		return nil, s.changed(ctx, err, &in.Precondition)
	}
	return nil, nil
}

// order is what a request asks of a job.
func (s *Server) order(ctx context.Context, path string, m *Precondition) (job.ChangeParams, error) {
	id, err := s.idOf(ctx, path)
	if err != nil {
		return job.ChangeParams{}, err
	}
	return s.bound(ctx, id, m)
}
