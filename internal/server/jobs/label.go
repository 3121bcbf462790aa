package jobs

import (
	"context"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/server/rest"
)

func (h *Handlers) registerLabels() {
	rest.Register(h.api, rest.Operation{
		ID: "list-labels", Route: "GET /labels", Summary: "List the keys of the labels of jobs",
		Description: "At most 100 keys, in order. Counts stop at 20 values and 1,000 jobs, and say so.",
		Role:        access.Viewer,
	}, h.listLabels)
	rest.Register(h.api, rest.Operation{
		ID: "list-label-values", Route: "GET /labels/{key}", Summary: "List the values of a label",
		Description: "At most 200 values, in order. Counts stop at 1,000 jobs, and say so. If no job has the key, " +
			"the list is empty.",
		Role: access.Viewer,
	}, h.listLabelValues)
}

// LabelList lists the keys of labels.
type LabelList struct {
	Labels  []Label `json:"labels"`
	Partial bool    `json:"partial" doc:"There are more keys."`
}

// Label is a key of labels.
type Label struct {
	Key        string `json:"key" example:"team"`
	Values     int64  `json:"values" doc:"Number of different values."`
	MoreValues bool   `json:"more_values,omitempty" doc:"There are more values than that."`
	Jobs       int64  `json:"jobs" doc:"Number of jobs that have it."`
	More       bool   `json:"more,omitempty" doc:"There are more jobs than that."`
}

type labelsOutput struct {
	Body LabelList
}

func (h *Handlers) listLabels(ctx context.Context, _ *struct{}) (*labelsOutput, error) {
	keys, more, err := h.views.Labels(ctx, rest.Principal(ctx).Namespace)
	if err != nil {
		return nil, err
	}
	return &labelsOutput{LabelList{rest.Map(keys, func(k job.LabelKey) Label {
		return Label{k.Key, k.Values, k.MoreValues, k.Jobs, k.MoreJobs}
	}), more}}, nil
}

type labelInput struct {
	Key    string `path:"key" maxLength:"600" doc:"The key, escaped." example:"team"`
	Prefix string `query:"prefix" maxLength:"200" doc:"Only values that begin with this."`
}

// LabelValueList lists the values of a label.
type LabelValueList struct {
	Values  []LabelValue `json:"values"`
	Partial bool         `json:"partial" doc:"There are more values. Use prefix to find them."`
}

// LabelValue is a value of a label.
type LabelValue struct {
	Value string `json:"value" example:"billing"`
	Jobs  int64  `json:"jobs" doc:"Number of jobs that have it."`
	More  bool   `json:"more,omitempty" doc:"There are more jobs than that."`
}

type labelOutput struct {
	Body LabelValueList
}

func (h *Handlers) listLabelValues(ctx context.Context, in *labelInput) (*labelOutput, error) {
	values, more, err := h.views.LabelValues(ctx, rest.Principal(ctx).Namespace, in.Key, in.Prefix)
	if err != nil {
		return nil, err
	}
	return &labelOutput{LabelValueList{rest.Map(values, func(v job.LabelValue) LabelValue {
		return LabelValue{v.Value, v.Jobs, v.MoreJobs}
	}), more}}, nil
}
