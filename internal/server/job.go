package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/job"
)

// operation describes one, with the role that it needs.
func operation(id, method, path, summary string, role job.Role) huma.Operation {
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
	IfMatch string `header:"If-Match" maxLength:"40" doc:"The job's ETag: the change is refused if the job has another version meanwhile."`
}

// JobOutput is an answer with a job.
type JobOutput struct {
	ETag string `header:"ETag" doc:"The job's version."`
	Body Job
}

func jobResult(j job.Job) *JobOutput {
	return &JobOutput{ETag: fmt.Sprintf(`"%d"`, j.Version), Body: wireJob(j)}
}

func (s *Server) registerJobs() {
	create := operation("create-job", http.MethodPost, "/jobs", "Create a job", job.Editor)
	create.DefaultStatus = http.StatusCreated
	huma.Register(s.api, create, s.createJob)
	huma.Register(s.api, operation("get-job", http.MethodGet, "/jobs/{job}", "Get a job", job.Viewer), s.getJob)
	huma.Register(s.api, operation("replace-job", http.MethodPut, "/jobs/{job}", "Replace a job, or create one by name", job.Editor), s.replaceJob)
	replace := s.api.OpenAPI().Paths["/api/v1/jobs/{job}"].Put
	created := *replace.Responses["200"]
	created.Description = http.StatusText(http.StatusCreated)
	replace.Responses["201"] = &created // huma knows one success for an operation
	remove := operation("delete-job", http.MethodDelete, "/jobs/{job}", "Delete a job", job.Editor)
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
	ETag     string `header:"ETag" doc:"The job's version."`
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
			return nil, s.refused(ctx, err, 0)
		}
		return out, nil
	}
	return createdJob(j), nil
}

func (s *Server) create(ctx context.Context, in *JobInput, once *job.Once) (job.Job, error) {
	d, err := s.checked(in)
	if err != nil {
		return job.Job{}, err
	}
	p := principal(ctx)
	return s.opts.Jobs.CreateJob(ctx, job.CreateOrder{Namespace: p.Namespace, Definition: d, Actor: p.Actor(), Once: once})
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

type replaceJobInput struct {
	JobPath
	Precondition
	Body JobInput
}

type replaceJobOutput struct {
	Status int
	ETag   string `header:"ETag" doc:"The job's version."`
	Body   Job
}

func replaced(status int, j job.Job) *replaceJobOutput {
	r := jobResult(j)
	return &replaceJobOutput{status, r.ETag, r.Body}
}

func (s *Server) replaceJob(ctx context.Context, in *replaceJobInput) (*replaceJobOutput, error) {
	version, err := in.version()
	if err != nil {
		return nil, err
	}
	old, err := s.named(ctx, in.Job)
	_, notID := job.ParseJobID(in.Job)
	if errors.Is(err, job.ErrNotFound) && notID != nil && version == 0 {
		if in.Body.Name != in.Job {
			return nil, s.problem(ctx, &job.Problem{Field: "name", Problem: "it is not the name in the path", Fix: "write the same name in both; to rename a job use its id in the path"})
		}
		j, err := s.create(ctx, &in.Body, nil)
		if err != nil {
			return nil, s.problem(ctx, err)
		}
		return replaced(http.StatusCreated, j), nil
	}
	if err != nil {
		return nil, s.problem(ctx, err)
	}
	d, err := s.checked(&in.Body)
	if err != nil {
		return nil, s.problem(ctx, err)
	}
	p := principal(ctx)
	j, err := s.opts.Jobs.UpdateJob(ctx, job.UpdateOrder{Namespace: p.Namespace, ID: old.ID, IfVersion: version, Definition: d, Actor: p.Actor()})
	if err != nil {
		return nil, s.changed(ctx, err, version)
	}
	return replaced(http.StatusOK, j), nil
}

// changed is the problem of a change that was bound to a version.
func (s *Server) changed(ctx context.Context, err error, version int32) error {
	if version != 0 && errors.Is(err, job.ErrConflict) {
		return newProblem("precondition_failed", "the job has changed since you read it; read it again and repeat your change")
	}
	return s.problem(ctx, err)
}

// version of an If-Match header; 0: there is none.
func (m *Precondition) version() (int32, error) {
	if m.IfMatch == "" || m.IfMatch == "*" {
		return 0, nil
	}
	v, err := strconv.ParseInt(strings.Trim(m.IfMatch, `"`), 10, 32)
	if err != nil || v < 1 {
		return 0, newProblem("precondition_failed", `If-Match is not an ETag of this job; it looks like "3"`)
	}
	return int32(v), nil
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
		return nil, s.changed(ctx, err, o.IfVersion)
	}
	return nil, nil
}

// order is what a request asks of a job.
func (s *Server) order(ctx context.Context, path string, m *Precondition) (o job.Order, err error) {
	p := principal(ctx)
	o = job.Order{Namespace: p.Namespace, Actor: p.Actor()}
	if o.IfVersion, err = m.version(); err != nil {
		return o, err
	}
	o.ID, err = s.idOf(ctx, path)
	return o, err
}
