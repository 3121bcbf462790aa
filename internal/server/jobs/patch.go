package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/server/body"
	"github.com/belfry-dev/belfry/internal/server/rest"
)

func (h *Handlers) registerPatch() {
	rest.Register(h.api, rest.Operation{
		ID: "update-job", Route: "PATCH /jobs/{job}", Summary: "Change parts of a job",
		Description: "A JSON merge patch (RFC 7396) of the fields that create-job takes: what is left out stays, " +
			"and null gives a field its default. The job that comes of it is checked as a whole.",
		Role: access.Editor, Describe: describePatch,
		Example: `{"labels":{"team":"billing"},"retry":{"max_attempts":5}}`,
	}, h.patchJob)
}

// describePatch adds the schema JobPatch, which has no Go type: the body is read as JSON.
func describePatch(api *huma.OpenAPI, o *huma.Operation) {
	schemas := api.Components.Schemas
	schemas.Map()["JobPatch"] = patchOf(schemas.Map()["JobInput"], schemas)
	content := o.RequestBody.Content
	content["application/merge-patch+json"].Schema = &huma.Schema{Ref: schemaPrefix + "JobPatch"}
	content["application/json"] = content["application/merge-patch+json"]
}

// patchOf returns the schema of a merge patch for a schema: each field may be left out, and null gives
// an optional field its default. The same holds for the objects within it.
func patchOf(s *huma.Schema, all huma.Registry) *huma.Schema {
	out := &huma.Schema{
		Type: huma.TypeObject, AdditionalProperties: s.AdditionalProperties, Properties: map[string]*huma.Schema{},
	}
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

// patchJob applies a patch to the job as it was read. If the job changes before the result is written,
// it reads the job again and repeats the patch, unless the client named a version.
func (h *Handlers) patchJob(ctx context.Context, in *patchJobInput) (*JobOutput, error) {
	for try := 1; ; try++ {
		old, err := h.find(ctx, in.Job)
		if err != nil {
			return nil, err
		}
		c, err := in.params(ctx, old.ID)
		if err != nil {
			return nil, err
		}
		if !c.Fits(old) {
			return nil, in.failed(job.ErrConflict)
		}
		d, err := patched(old, in.RawBody, h.targetCheck(ctx))
		if err != nil {
			return nil, err
		}
		j, err := h.store.UpdateJob(ctx, job.UpdateParams{
			Namespace: c.Namespace, ID: c.ID, IfVersion: old.Version, IfTag: c.IfTag, Definition: d, Actor: c.Actor,
		})
		switch {
		case err == nil:
			return h.changedResult(j, old.Schedule), nil
		case !errors.Is(err, job.ErrConflict) || !h.hasChanged(ctx, old):
			return nil, err
		case in.names():
			return nil, in.failed(err)
		case try == maxTries:
			return nil, rest.NewProblem("conflict", "the job is changed by others all the time; try again")
		}
	}
}

// hasChanged reports whether a job has changed since it was read. Repeating a patch helps only against
// that conflict, and not, for example, if the new name is taken.
func (h *Handlers) hasChanged(ctx context.Context, old job.Job) bool {
	now, err := h.store.Job(ctx, old.Namespace, old.ID)
	return err == nil && now.Tag() != old.Tag()
}

// patched returns the definition of a job after a patch. What the patch does not name of the payload and the config
// stays byte for byte.
func patched(old job.Job, text []byte, check TargetCheck) (job.Definition, error) {
	patch, err := body.ParsePatch(text, "payload", "target")
	if err != nil {
		return job.Definition{}, err
	}
	before := wireJob(old).JobInput
	payload, hasPayload, hasConfig := before.Payload, patch.Has("payload"), patch.Has("target", "config")
	if !hasPayload {
		before.Payload = nil // it can be large
	}
	if text, err = json.Marshal(before); err != nil {
		return job.Definition{}, err
	}
	if text, err = patch.Apply(text); err != nil {
		return job.Definition{}, err
	}
	var in JobInput
	if err := decodeStrictly(text, &in); err != nil {
		return job.Definition{}, err
	}
	if !hasPayload {
		in.Payload = payload
	}
	if in.Target.Kind == before.Target.Kind && !hasConfig {
		in.Target.Config = before.Target.Config
	}
	return in.checked(check)
}
