package jobs

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/problem"
	"github.com/belfry-dev/belfry/internal/schedule"
	"github.com/belfry-dev/belfry/internal/server/rest"
)

type replaceJobInput struct {
	JobPath
	Precondition
	IfNoneMatch string `header:"If-None-Match" enum:"*" doc:"*: create the job; fail with 412 if the name is in use."`
	Body        JobInput
}

type savedJobOutput struct {
	Status   int
	Location string `header:"Location" doc:"Path of the job, if it is new."`
	ETag     string `header:"ETag" doc:"For If-Match. Changes with each change, pause and resume."`
	Body     Job
}

func (h *Handlers) replaced(status int, j job.Job, old schedule.Spec) *savedJobOutput {
	r := h.changedResult(j, old)
	return &savedJobOutput{Status: status, ETag: r.ETag, Body: r.Body}
}

// maxTries bounds how often a change is repeated because the job has changed since it was read.
const maxTries = 10

// errRaced says that the job was created or deleted between reading and changing it.
var errRaced = fmt.Errorf("%w: the job is created and deleted by others all the time", job.ErrConflict)

func (h *Handlers) replaceJob(ctx context.Context, in *replaceJobInput) (*savedJobOutput, error) {
	_, err := job.ParseJobID(in.Job)
	byName := err != nil
	if byName && in.Body.Name != in.Job {
		return nil, &problem.Problem{
			Field: "name", Problem: "it is not the name in the path",
			Fix: "write the same name in both; to rename a job use its id in the path, or PATCH",
		}
	}
	d, err := in.Body.checked(h.targetCheck(ctx))
	if err != nil {
		return nil, err
	}
	for try := 1; ; try++ {
		var out *savedJobOutput
		old, err := h.find(ctx, in.Job)
		switch {
		case errors.Is(err, job.ErrNotFound) && byName:
			out, err = h.putNew(ctx, in, d)
		case err == nil:
			out, err = h.putOver(ctx, in, d, old)
		}
		if !errors.Is(err, errRaced) || try == maxTries {
			return out, err
		}
	}
}

// putNew creates the job that a PUT names.
func (h *Handlers) putNew(ctx context.Context, in *replaceJobInput, d job.Definition) (*savedJobOutput, error) {
	if in.IfMatch != "" {
		return nil, rest.NewProblem("precondition_failed", "there is no such job; leave If-Match out to create it")
	}
	p := rest.Principal(ctx)
	j, err := h.store.CreateJob(ctx, job.CreateParams{Namespace: p.Namespace, Definition: d, Actor: p.Actor()})
	if errors.Is(err, job.ErrConflict) {
		return nil, errRaced
	}
	if err != nil {
		return nil, err
	}
	out := h.replaced(http.StatusCreated, j, schedule.Spec{})
	out.Location = rest.Path("jobs", out.Body.ID)
	return out, nil
}

// putOver gives the job that a PUT names its new definition.
func (h *Handlers) putOver(
	ctx context.Context, in *replaceJobInput, d job.Definition, old job.Job,
) (*savedJobOutput, error) {
	if in.IfNoneMatch != "" {
		return nil, rest.NewProblem("precondition_failed",
			"there is a job of this name; leave If-None-Match out to replace it")
	}
	c, err := in.params(ctx, old.ID)
	if err != nil {
		return nil, err
	}
	j, err := h.store.UpdateJob(ctx, job.UpdateParams{
		Namespace: c.Namespace, ID: c.ID, IfVersion: c.IfVersion, IfTag: c.IfTag, Definition: d, Actor: c.Actor,
	})
	if errors.Is(err, job.ErrNotFound) && in.IfMatch == "" {
		return nil, errRaced
	}
	if err != nil {
		return nil, in.failed(err)
	}
	return h.replaced(http.StatusOK, j, old.Schedule), nil
}
