package jobs

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/server/rest"
)

// Versions is the part of the store that has the versions of definitions.
type Versions interface {
	JobVersions(ctx context.Context, namespace, id uuid.UUID, before int32, limit int) ([]job.Version, error)
	JobVersion(ctx context.Context, namespace, id uuid.UUID, number int32) (job.Version, error)
}

func (h *Handlers) registerVersions() {
	rest.Register(h.api, rest.Operation{
		ID: "list-job-versions", Route: "GET /jobs/{job}/versions", Summary: "List the versions of a job, newest first",
		Description: "Each change of the definition is a version. By its id, a deleted job has its versions too.",
		Role:        access.Viewer,
	}, h.listVersions)
	rest.Register(h.api, rest.Operation{
		ID: "get-job-version", Route: "GET /jobs/{job}/versions/{version}", Summary: "Get a version of a job",
		Role: access.Viewer,
	}, h.getVersion)
	rest.Register(h.api, rest.Operation{
		ID: "rollback-job", Route: "POST /jobs/{job}:rollback", Summary: "Restore an earlier version of a job",
		Description: "The definition of that version becomes a new version. It takes effect like any other change of " +
			"the definition. If it is equal to the current one, nothing changes.",
		Role: access.Editor, Example: `{"version":1}`,
	}, h.rollbackJob)
}

// JobVersion is a version in a list.
type JobVersion struct {
	Version   int32     `json:"version"`
	CreatedAt time.Time `json:"created_at" doc:"When it took effect."`
	CreatedBy string    `json:"created_by" doc:"The actor that wrote it, as in the audit log." example:"key:deploy"`
}

// JobVersionDetail is a version with its definition.
type JobVersionDetail struct {
	JobVersion
	InWords
	Definition JobInput `json:"definition" doc:"With all defaults filled in."`
}

func wireVersion(v job.Version) JobVersion { return JobVersion{v.Number, v.CreatedAt, v.CreatedBy} }

type listVersionsInput struct {
	JobPath
	rest.PageInput
}

func (h *Handlers) listVersions(ctx context.Context, in *listVersionsInput) (*rest.PageOutput[JobVersion], error) {
	id, err := h.ID(ctx, in.Job)
	if err != nil {
		return nil, err
	}
	return rest.List[int32, job.Version, JobVersion]{
		First: math.MaxInt32,
		Read: func(ctx context.Context, namespace uuid.UUID, before int32, limit int) ([]job.Version, error) {
			found, err := h.versions.JobVersions(ctx, namespace, id, before, limit)
			if err == nil && len(found) == 0 {
				err = job.ErrNotFound // every job has a version
			}
			return found, err
		},
		Mark: func(v job.Version) int32 { return v.Number }, Wire: wireVersion,
	}.Page(ctx, &in.PageInput)
}

type getVersionInput struct {
	JobPath
	Version int32 `path:"version" minimum:"1" doc:"Number of the version." example:"1"`
}

type getVersionOutput struct {
	Body JobVersionDetail
}

func (h *Handlers) getVersion(ctx context.Context, in *getVersionInput) (*getVersionOutput, error) {
	id, err := h.ID(ctx, in.Job)
	if err != nil {
		return nil, err
	}
	v, err := h.versions.JobVersion(ctx, rest.Principal(ctx).Namespace, id, in.Version)
	if err != nil {
		return nil, err
	}
	words, _ := inWords(v.Schedule, id.String())
	return &getVersionOutput{JobVersionDetail{wireVersion(v), words, wireDefinition(&v.Definition)}}, nil
}

// RollbackRequest names the version of a rollback.
type RollbackRequest struct {
	Version int32 `json:"version" minimum:"1" doc:"The version to restore." example:"1"`
}

type rollbackJobInput struct {
	JobPath
	Precondition
	Body RollbackRequest
}

func (h *Handlers) rollbackJob(ctx context.Context, in *rollbackJobInput) (*JobOutput, error) {
	old, err := h.find(ctx, in.Job)
	if err != nil {
		return nil, err
	}
	c, err := in.params(ctx, old.ID)
	if err != nil {
		return nil, err
	}
	v, err := h.versions.JobVersion(ctx, c.Namespace, c.ID, in.Body.Version)
	if errors.Is(err, job.ErrNotFound) {
		return nil, rest.NewProblem("not_found", fmt.Sprintf(
			"the job has no version %d; GET /jobs/{job}/versions lists those that it has", in.Body.Version))
	}
	if err == nil {
		err = h.targetCheck(ctx)(v.Target)
	}
	if err != nil {
		return nil, err
	}
	j, err := h.store.UpdateJob(ctx, job.UpdateParams{
		Namespace: c.Namespace, ID: c.ID, IfVersion: c.IfVersion, IfTag: c.IfTag, Definition: v.Definition,
		Rollback: v.Number, Actor: c.Actor,
	})
	if err != nil {
		return nil, in.failed(err)
	}
	return h.changedResult(j, old.Schedule), nil
}
