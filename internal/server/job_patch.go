package server

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
)

func (s *Server) registerPatch() {
	patch := operation("patch-job", http.MethodPatch, "/jobs/{job}", "Change parts of a job", access.Editor)
	patch.Description = "A JSON merge patch (RFC 7396) of the fields that create-job takes: what is left out stays, and null gives a field its default. The job that comes of it is checked as a whole."
	huma.Register(s.api, patch, s.patchJob)
	all := s.api.OpenAPI().Components.Schemas
	all.Map()["JobPatch"] = patchOf(all.Map()["JobInput"], all)
	content := s.api.OpenAPI().Paths["/api/v1/jobs/{job}"].Patch.RequestBody.Content
	content["application/merge-patch+json"].Schema = &huma.Schema{Ref: named + "JobPatch"}
	content["application/json"] = content["application/merge-patch+json"]
}

// patchOf describes what changes a thing of a schema: each field may be left out,
// and null gives those a default that have one, in the objects within it too.
func patchOf(s *huma.Schema, all huma.Registry) *huma.Schema {
	out := &huma.Schema{Type: huma.TypeObject, AdditionalProperties: s.AdditionalProperties, Properties: map[string]*huma.Schema{}}
	if values, ok := s.AdditionalProperties.(*huma.Schema); ok {
		values := *values
		values.Nullable = true
		out.AdditionalProperties = &values
	}
	for name, field := range s.Properties {
		patch := *field
		if inner := all.SchemaFromRef(field.Ref); inner != nil && inner.Type == huma.TypeObject {
			patch = *patchOf(inner, all)
		} else if field.Type == huma.TypeObject {
			patch = *patchOf(field, all)
		}
		patch.Description = field.Description
		if patch.Type != "" && !slices.Contains(s.Required, name) {
			patch.Nullable = true
			if len(patch.Enum) > 0 {
				patch.Enum = append(slices.Clone(patch.Enum), nil)
			}
		}
		out.Properties[name] = &patch
	}
	return out
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
	p := principal(ctx)
	for try := 1; ; try++ {
		old, err := s.named(ctx, in.Job)
		if err != nil {
			return nil, s.problem(ctx, err)
		}
		o, err := s.bound(ctx, old.ID, &in.Precondition)
		if err != nil {
			return nil, err
		}
		if !o.Fits(old) {
			return nil, s.changed(ctx, job.ErrConflict, &in.Precondition)
		}
		d, err := s.patched(old, in.RawBody)
		if err != nil {
			return nil, s.problem(ctx, err)
		}
		j, err := s.opts.Jobs.UpdateJob(ctx, job.UpdateParams{Namespace: p.Namespace, ID: old.ID, IfVersion: old.Version, IfTag: o.IfTag, Definition: d, Actor: p.Actor()})
		switch {
		case err == nil:
			return jobResult(j), nil
		case !errors.Is(err, job.ErrConflict) || !s.moved(ctx, old):
			return nil, s.problem(ctx, err)
		case in.binds():
			return nil, s.changed(ctx, err, &in.Precondition)
		case try == maxPatches:
			return nil, newProblem("conflict", "the job is changed by others all the time; try again")
		}
	}
}

// moved says that a job has another version than when it was read: only then is
// a conflict one that a patch can be made anew for.
func (s *Server) moved(ctx context.Context, old job.Job) bool {
	now, err := s.opts.Jobs.Job(ctx, old.Namespace, old.ID)
	return err == nil && now.Tag() != old.Tag()
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
