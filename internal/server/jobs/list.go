package jobs

import (
	"context"
	"strings"
	"time"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/problem"
	"github.com/belfry-dev/belfry/internal/server/rest"
)

func (h *Handlers) registerList() {
	rest.Register(h.api, rest.Operation{
		ID: "list-jobs", Route: "GET /jobs", Summary: "List jobs", Role: access.Viewer,
		Description: "All filters must match. The order is that of creation. With include a page has at most 100 jobs.\n\n" +
			"With due_from or due_to, the list has the active jobs in the order of their next occurrence that is not planned " +
			"yet, and no other filter is allowed. Runs are planned about a minute before they are due: " +
			"list those with GET /runs and the state pending.\n\n" +
			"A page may be short or even empty without being the last: continue while there is a next_page_token.",
	}, h.listJobs)
}

type listJobsInput struct {
	Label   []string  `query:"label,explode" maxItems:"32" doc:"key=value. Repeat it to require several labels." example:"team=billing"`
	State   string    `query:"state" enum:"active,paused,finished" doc:"State of the jobs."`
	Name    string    `query:"name" maxLength:"200" doc:"Part of the name, ignoring case. Fast with three letters or digits in a row."`
	Target  string    `query:"target" maxLength:"32" doc:"The kind of target." example:"http"`
	Queue   string    `query:"queue" maxLength:"63" doc:"Name of the queue."`
	DueFrom time.Time `query:"due_from" doc:"By due time, from here on. Not with other filters."`
	DueTo   time.Time `query:"due_to" doc:"By due time, before this time. Not with other filters."`
	Include
	rest.PageInput
}

type listJobsOutput struct {
	Body rest.Page[Job]
}

func (h *Handlers) listJobs(ctx context.Context, in *listJobsInput) (*listJobsOutput, error) {
	params, err := in.params(ctx)
	if err != nil {
		return nil, err
	}
	page, err := h.store.ListJobs(ctx, params)
	if err != nil {
		return nil, err
	}
	out := &listJobsOutput{}
	out.Body.Items = rest.Map(page.Jobs, wireJob)
	if in.Include.Include != "" {
		if err := h.addRecent(ctx, page.Jobs, out.Body.Items); err != nil {
			return nil, err
		}
	}
	if page.Next != nil {
		out.Body.NextPageToken = rest.Token(ctx, pageMark{params.Due != nil, *page.Next})
	}
	return out, nil
}

func (in *listJobsInput) params(ctx context.Context) (out job.ListParams, err error) {
	out = job.ListParams{
		Namespace: rest.Principal(ctx).Namespace, Name: in.Name, Target: in.Target, Queue: in.Queue, Limit: in.PageSize,
	}
	if in.Include.Include != "" {
		out.Limit = min(out.Limit, maxRecentJobs)
	}
	out.State = State(in.State)
	if out.Labels, err = Labels(in.Label); err != nil {
		return out, err
	}
	if !in.DueFrom.IsZero() || !in.DueTo.IsZero() {
		out.Due = &job.DueRange{From: in.DueFrom, Before: in.DueTo}
		if in.State != "" || in.Name != "" || in.Target != "" || in.Queue != "" || len(in.Label) > 0 {
			field := "due_from"
			if in.DueFrom.IsZero() {
				field = "due_to"
			}
			return out, &problem.Problem{
				Field: field, Problem: "a list by due time has no other filters",
				Fix: "leave out label, state, name, target and queue, or list in the order of creation",
			}
		}
	}
	after := pageMark{ByDue: out.Due != nil}
	if err := in.After(ctx, &after); err != nil {
		return out, err
	}
	if after.ByDue != (out.Due != nil) {
		return out, rest.BadToken()
	}
	out.After = after.ListMark
	return out, nil
}

// State returns the state that a name is of, or 0.
func State(name string) job.State {
	for state, other := range stateNames {
		if other == name {
			return state
		}
	}
	return 0
}

// StateName returns the name of a state.
func StateName(s job.State) string { return stateNames[s] }

// Labels reads labels that are written as key=value.
func Labels(texts []string) (out []job.Label, err error) {
	for _, text := range texts {
		key, value, ok := strings.Cut(text, "=")
		if !ok {
			return nil, &problem.Problem{
				Field: "label", Problem: "it is not key=value", Fix: "write for example team=billing",
			}
		}
		out = append(out, job.Label{Key: key, Value: value})
	}
	return out, nil
}

// pageMark is where a page of jobs ended. The order of the list decides what the mark means.
type pageMark struct {
	ByDue bool
	job.ListMark
}
