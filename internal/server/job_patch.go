package server

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/belfry-dev/belfry/internal/job"
)

func (s *Server) registerPatch() {
	patch := operation("patch-job", http.MethodPatch, "/jobs/{job}", "Change parts of a job", job.Editor)
	patch.Description = "A JSON merge patch (RFC 7396) of the fields that create-job takes: what is left out stays, and null gives a field its default. The job that comes of it is checked as a whole."
	huma.Register(s.api, patch, s.patchJob)
}

type patchJobInput struct {
	JobPath
	Precondition
	RawBody []byte `contentType:"application/merge-patch+json"`
}

// maxPatches bounds how often a patch is made anew because the job has changed
// since it was read.
const maxPatches = 10

func (s *Server) patchJob(ctx context.Context, in *patchJobInput) (*JobOutput, error) {
	want, err := in.version()
	if err != nil {
		return nil, err
	}
	p := principal(ctx)
	for try := 1; ; try++ {
		old, err := s.named(ctx, in.Job)
		if err != nil {
			return nil, s.problem(ctx, err)
		}
		if want != 0 && want != old.Version {
			return nil, s.changed(ctx, job.ErrConflict, want)
		}
		d, err := s.patched(old, in.RawBody)
		if err != nil {
			return nil, s.problem(ctx, err)
		}
		j, err := s.opts.Jobs.UpdateJob(ctx, job.UpdateOrder{Namespace: p.Namespace, ID: old.ID, IfVersion: old.Version, Definition: d, Actor: p.Actor()})
		switch {
		case err == nil:
			return jobResult(j), nil
		case !errors.Is(err, job.ErrConflict) || !s.moved(ctx, old):
			return nil, s.problem(ctx, err)
		case want != 0 || try == maxPatches:
			return nil, s.changed(ctx, err, old.Version)
		}
	}
}

// moved says that a job has another version than when it was read: only then is
// a conflict one that a patch can be made anew for.
func (s *Server) moved(ctx context.Context, old job.Job) bool {
	now, err := s.opts.Jobs.Job(ctx, old.Namespace, old.ID)
	return err == nil && now.Version != old.Version
}

// patched is the definition of a job with a patch.
func (s *Server) patched(old job.Job, patch []byte) (job.Definition, error) {
	var fields struct {
		Payload JSON `json:"payload"`
		Target  *struct {
			Config JSON `json:"config"`
		} `json:"target"`
	}
	if object(patch) == nil {
		return job.Definition{}, newProblem("bad_request", "the body is not a JSON object")
	}
	before := wireJob(old).JobInput
	text, err := json.Marshal(before)
	if err != nil {
		return job.Definition{}, err
	}
	if text, err = mergePatch(text, patch); err != nil {
		return job.Definition{}, err
	}
	var in JobInput
	if err := strictly(text, &in); err != nil {
		return job.Definition{}, err
	}
	// What was not patched stays as it was written, to the byte.
	if err := json.Unmarshal(patch, &fields); err == nil {
		if fields.Payload == nil {
			in.Payload = before.Payload
		}
		if in.Target.Kind == before.Target.Kind && (fields.Target == nil || fields.Target.Config == nil) {
			in.Target.Config = before.Target.Config
		}
	}
	return s.checked(&in)
}

// mergePatch is RFC 7396. Values that it does not look into stay as they are.
func mergePatch(target, patch json.RawMessage) (json.RawMessage, error) {
	change := object(patch)
	if change == nil {
		return patch, nil // it takes the target's place
	}
	into := object(target)
	if into == nil {
		into = map[string]json.RawMessage{}
	}
	for name, value := range change {
		if string(value) == "null" {
			delete(into, name)
			continue
		}
		merged, err := mergePatch(into[name], value)
		if err != nil {
			return nil, err
		}
		into[name] = merged
	}
	return json.Marshal(into)
}

// object is the members of a JSON object; nil: it is none.
func object(text json.RawMessage) (members map[string]json.RawMessage) {
	if json.Unmarshal(text, &members) != nil {
		return nil
	}
	return members
}
