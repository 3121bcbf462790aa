package jobs

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/problem"
	"github.com/belfry-dev/belfry/internal/server/rest"
)

func (h *Handlers) registerList() {
	rest.Register(h.api, rest.Operation{
		ID: "list-jobs", Route: "GET /jobs", Summary: "List jobs", Role: access.Viewer,
		Description: "All filters must match. The order is that of creation; with due_from or due_to " +
			"it is that of the due times, and a page has at most 100 jobs. " +
			"If a calendar excludes the next occurrence of a job, due_from and due_to still match that " +
			"occurrence; next_due_at is the time of the next run.\n\n" +
			"A page may be short or even empty without being the last: continue while there is a next_page_token.",
	}, h.listJobs)
}

type listJobsInput struct {
	Label     []string  `query:"label,explode" maxItems:"32" doc:"key=value. Repeat it to require several labels." example:"team=billing"`
	State     string    `query:"state" enum:"active,paused,finished" doc:"State of the jobs."`
	Name      string    `query:"name" maxLength:"200" doc:"Part of the name, ignoring case. Fast with three letters or digits in a row."`
	Target    string    `query:"target" maxLength:"32" doc:"The kind of target." example:"http"`
	Queue     string    `query:"queue" maxLength:"63" doc:"Name of the queue."`
	DueFrom   time.Time `query:"due_from" doc:"Jobs that are due next at this time or later."`
	DueTo     time.Time `query:"due_to" doc:"Jobs that are due next before this time."`
	PageToken string    `query:"page_token" maxLength:"100" doc:"next_page_token of the last page."`
	PageSize  int       `query:"page_size" minimum:"1" maximum:"500" default:"50" doc:"Maximum number of jobs."`
}

// JobList is a page of jobs.
type JobList struct {
	rest.Page[Job]
	Partial bool `json:"partial,omitempty" doc:"Very many runs are planned now; jobs due in the next minute may be missing."`
}

type listJobsOutput struct {
	Body JobList
}

func (h *Handlers) listJobs(ctx context.Context, in *listJobsInput) (*listJobsOutput, error) {
	params, err := in.params(rest.Principal(ctx).Namespace)
	if err != nil {
		return nil, err
	}
	page, err := h.store.ListJobs(ctx, params)
	if err != nil {
		return nil, err
	}
	out := &listJobsOutput{}
	out.Body.Items, out.Body.Partial = rest.Map(page.Jobs, wireJob), page.Partial
	if page.Next != nil {
		out.Body.NextPageToken = formatMark(*page.Next, params.Due != nil)
	}
	return out, nil
}

func (in *listJobsInput) params(namespace uuid.UUID) (out job.ListParams, err error) {
	out = job.ListParams{
		Namespace: namespace, Name: in.Name, Target: in.Target, Queue: in.Queue, Limit: in.PageSize,
	}
	for state, name := range stateNames {
		if name == in.State {
			out.State = state
		}
	}
	for _, text := range in.Label {
		key, value, ok := strings.Cut(text, "=")
		if !ok {
			return out, &problem.Problem{
				Field: "label", Problem: "it is not key=value", Fix: "write for example label=team=billing",
			}
		}
		out.Labels = append(out.Labels, job.Label{Key: key, Value: value})
	}
	if !in.DueFrom.IsZero() || !in.DueTo.IsZero() {
		out.Due = &job.DueRange{From: in.DueFrom, Before: in.DueTo}
	}
	if in.PageToken != "" {
		out.After, err = parseMark(in.PageToken, out.Due != nil)
	}
	return out, err
}

// A page token is the id that the page ended with, followed by one byte if names are no longer searched
// for. In a list by due time it is a position in that order.
const (
	idBytes  = 16
	dueBytes = idBytes + 8 + 2 + 8
)

func formatMark(m job.ListMark, byDue bool) string {
	b := m.ID[:]
	switch {
	case byDue:
		b = binary.BigEndian.AppendUint64(b, uint64(m.Due.UnixMicro()))
		b = binary.BigEndian.AppendUint16(b, uint16(m.Partition))
		b = binary.BigEndian.AppendUint64(b, uint64(m.Cursor))
	case m.Scan:
		b = append(b, 1)
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

func parseMark(token string, byDue bool) (m job.ListMark, err error) {
	b, err := base64.RawURLEncoding.DecodeString(token)
	switch {
	case err == nil && !byDue && (len(b) == idBytes || len(b) == idBytes+1):
		return job.ListMark{ID: uuid.UUID(b[:idBytes]), Scan: len(b) > idBytes}, nil
	case err == nil && byDue && len(b) == dueBytes:
		m.ID, b = uuid.UUID(b[:idBytes]), b[idBytes:]
		m.Due = time.UnixMicro(int64(binary.BigEndian.Uint64(b))).UTC()
		m.Partition = int16(binary.BigEndian.Uint16(b[8:]))
		m.Cursor = int64(binary.BigEndian.Uint64(b[10:]))
		return m, nil
	}
	return m, &problem.Problem{
		Field: "page_token", Problem: "it is not a token of this list",
		Fix: "send next_page_token of the page before, with the same filters",
	}
}
