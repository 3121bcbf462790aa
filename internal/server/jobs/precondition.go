package jobs

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/server/rest"
)

// Precondition is the input of changes that may depend on the version of a job.
type Precondition struct {
	IfMatch IfMatch `header:"If-Match"`
}

// IfMatch is the value of the header If-Match.
type IfMatch string

// Schema is called by huma.
func (IfMatch) Schema(huma.Registry) *huma.Schema {
	maxLength := 60
	return &huma.Schema{
		Type: "string", MaxLength: &maxLength,
		Pattern:            `^(\*|"?[0-9]{1,9}(-[0-9a-z]{1,20})?"?)$`,
		PatternDescription: `an ETag of a job, such as "3-hq2k5mz1x1", a version, such as "3", or *`,
		Description: "The job's ETag: the change fails with 412 if the job was changed, paused or resumed since. " +
			`A version alone, such as "3", checks only the definition. * checks only that the job exists.`,
	}
}

// names reports whether the precondition names a version or an ETag.
func (m *Precondition) names() bool { return m.IfMatch != "" && m.IfMatch != "*" }

// failed returns the error of a change. A conflict means 412 if the client named a version or an ETag.
func (m *Precondition) failed(err error) error {
	if m.names() && errors.Is(err, job.ErrConflict) {
		return rest.NewProblem("precondition_failed",
			"the job has changed since you read it; read it again and repeat your change")
	}
	return err
}

// params returns the change of a job that a request asks for, with its precondition.
func (m *Precondition) params(ctx context.Context, id uuid.UUID) (job.ChangeParams, error) {
	p := rest.Principal(ctx)
	out := job.ChangeParams{Namespace: p.Namespace, ID: id, Actor: p.Actor()}
	if !m.names() {
		return out, nil
	}
	tag := strings.Trim(string(m.IfMatch), `"`)
	if strings.Contains(tag, "-") {
		out.IfTag = tag
		return out, nil
	}
	v, err := strconv.ParseInt(tag, 10, 32)
	if err != nil || v < 1 {
		return out, rest.NewProblem("precondition_failed",
			"If-Match names version "+tag+", which no job has; send the job's ETag")
	}
	out.IfVersion = int32(v)
	return out, nil
}

// changeParams returns the change of the job that a path names.
func (h *Handlers) changeParams(ctx context.Context, path string, m *Precondition) (job.ChangeParams, error) {
	id, err := h.ID(ctx, path)
	if err != nil {
		return job.ChangeParams{}, err
	}
	return m.params(ctx, id)
}
