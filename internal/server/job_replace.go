package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/job"
)

type replaceJobInput struct {
	JobPath
	Precondition
	IfNoneMatch string `header:"If-None-Match" enum:"*" doc:"*: create the job, and refuse with 412 if there is one of this name."`
	Body        JobInput
}

type replaceJobOutput struct {
	Status int
	ETag   string `header:"ETag" doc:"Another one after each change, pause and resume: for If-Match."`
	Body   Job
}

func replaced(status int, j job.Job) *replaceJobOutput {
	r := jobResult(j)
	return &replaceJobOutput{status, r.ETag, r.Body}
}

// errRaced: the job came or went between the look and the change.
var errRaced = fmt.Errorf("%w: the job is created and deleted by others all the time", job.ErrConflict)

func (s *Server) replaceJob(ctx context.Context, in *replaceJobInput) (*replaceJobOutput, error) {
	_, byName := job.ParseJobID(in.Job)
	if byName != nil && in.Body.Name != in.Job {
		return nil, s.problem(ctx, &job.Problem{Field: "name", Problem: "it is not the name in the path", Fix: "write the same name in both; to rename a job use its id in the path, or PATCH"})
	}
	d, err := s.checked(&in.Body)
	if err != nil {
		return nil, s.problem(ctx, err)
	}
	for try := 1; ; try++ {
		var out *replaceJobOutput
		old, err := s.named(ctx, in.Job)
		switch {
		case errors.Is(err, job.ErrNotFound) && byName != nil:
			out, err = s.putNew(ctx, in, d)
		case err == nil:
			out, err = s.putOver(ctx, in, d, old)
		}
		if errors.Is(err, errRaced) && try < maxPatches {
			continue
		}
		if err != nil {
			return nil, s.problem(ctx, err)
		}
		return out, nil
	}
}

// putNew creates the job that a PUT names.
func (s *Server) putNew(ctx context.Context, in *replaceJobInput, d job.Definition) (*replaceJobOutput, error) {
	if in.IfMatch != "" {
		return nil, newProblem("precondition_failed", "there is no such job; leave If-Match out to create it")
	}
	p := principal(ctx)
	j, err := s.opts.Jobs.CreateJob(ctx, job.CreateParams{Namespace: p.Namespace, Definition: d, Actor: p.Actor()})
	if errors.Is(err, job.ErrConflict) {
		return nil, errRaced
	}
	if err != nil {
		return nil, err
	}
	return replaced(http.StatusCreated, j), nil
}

// putOver gives the job that a PUT names its new definition.
func (s *Server) putOver(ctx context.Context, in *replaceJobInput, d job.Definition, old job.Job) (*replaceJobOutput, error) {
	if in.IfNoneMatch != "" {
		return nil, newProblem("precondition_failed", "there is a job of this name; leave If-None-Match out to replace it")
	}
	o, err := s.bound(ctx, old.ID, &in.Precondition)
	if err != nil {
		return nil, err
	}
	j, err := s.opts.Jobs.UpdateJob(ctx, job.UpdateParams{Namespace: o.Namespace, ID: o.ID, IfVersion: o.IfVersion, IfTag: o.IfTag, Definition: d, Actor: o.Actor})
	if errors.Is(err, job.ErrNotFound) && in.IfMatch == "" {
		return nil, errRaced
	}
	if err != nil {
		return nil, s.changed(ctx, err, &in.Precondition)
	}
	return replaced(http.StatusOK, j), nil
}

// changed is the problem of a change that may be bound to a version.
func (s *Server) changed(ctx context.Context, err error, m *Precondition) error {
	if m.binds() && errors.Is(err, job.ErrConflict) {
		return newProblem("precondition_failed", "the job has changed since you read it; read it again and repeat your change")
	}
	return s.problem(ctx, err)
}

// binds says that a change is for one version alone.
func (m *Precondition) binds() bool { return m != nil && m.IfMatch != "" && m.IfMatch != "*" }

// bound is an order for a job, bound to the version that a request names.
func (s *Server) bound(ctx context.Context, id uuid.UUID, m *Precondition) (job.ChangeParams, error) {
	p := principal(ctx)
	o := job.ChangeParams{Namespace: p.Namespace, ID: id, Actor: p.Actor()}
	if !m.binds() {
		return o, nil
	}
	tag := strings.Trim(m.IfMatch, `"`)
	if strings.Contains(tag, "-") {
		o.IfTag = tag
		return o, nil
	}
	v, err := strconv.ParseInt(tag, 10, 32)
	if err != nil || v < 1 {
		return o, newProblem("precondition_failed", "If-Match names version "+tag+", which no job has; send the job's ETag")
	}
	o.IfVersion = int32(v)
	return o, nil
}
