package jobs

import (
	"context"
	"time"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/problem"
	"github.com/belfry-dev/belfry/internal/server/rest"
	"github.com/belfry-dev/belfry/internal/timeline"
)

func (h *Handlers) registerTimeline() {
	rest.Register(h.api, rest.Operation{
		ID: "get-job-timeline", Route: "GET /jobs/{job}/timeline",
		Summary: "Show what a job did, does and will do",
		Description: "One item for each occurrence of the schedule, whether it ran, was skipped, waits or is still to " +
			"come, and one for each run that a user made. Unlike the list of runs it has what was skipped for a whole " +
			"schedule, as in an outage, and what a clock change or a calendar removes. By its id, a deleted job has " +
			"its timeline too.\n\nMore than 500 items are counted in buckets instead. If there is too much to read, " +
			"partial is true, and covered_from and covered_to say which part of the window is complete.",
		Role: access.Viewer,
	}, h.getTimeline)
	rest.Register(h.api, rest.Operation{
		ID: "get-job-stats", Route: "GET /jobs/{job}/stats", Summary: "Count what a job did",
		Description: "Numbers about the runs and skips of a window of due times, as the timeline shows them. By its " +
			"id, a deleted job has them too.",
		Role: access.Viewer,
	}, h.getStats)
}

// Window is a range of due times.
type Window struct {
	From time.Time `query:"from" doc:"Due at this time or later. Default 14 days ago."`
	To   time.Time `query:"to" doc:"Due before this time, at most 400 days after from."`
}

type timelineInput struct {
	JobPath
	Window
	Zone string `query:"zone" maxLength:"64" doc:"IANA zone in which buckets begin. Default: that of the schedule."`
}

// Timeline is what a job did, does and will do in a window of due times.
type Timeline struct {
	From        time.Time         `json:"from" doc:"Start of the window, inclusive."`
	To          time.Time         `json:"to" doc:"End of the window, exclusive."`
	Now         time.Time         `json:"now" doc:"When it was read, by the clock of the database."`
	HistoryFrom time.Time         `json:"history_from" doc:"History is kept from here on."`
	Zone        string            `json:"zone" doc:"Time zone of the schedule; local times are in it." example:"Europe/Berlin"`
	Items       []TimelineItem    `json:"items" doc:"By due time. Empty if there are buckets."`
	Buckets     []TimelineBucket  `json:"buckets,omitempty" doc:"If there are more than 500 items: counts, in order of time."`
	Versions    []TimelineVersion `json:"versions" doc:"Versions that took effect in the window, in order."`
	Partial     bool              `json:"partial" doc:"Not all of the window could be read."`
	CoveredFrom *time.Time        `json:"covered_from,omitempty" doc:"If partial: all is complete from here on."`
	CoveredTo   *time.Time        `json:"covered_to,omitempty" doc:"If partial: all is complete before this time."`
}

// TimelineItem is an occurrence, or a run that a user made.
type TimelineItem struct {
	DueAt   time.Time `json:"due_at"`
	Local   string    `json:"local" doc:"The same in the zone." example:"2026-03-29T03:00:00+02:00"`
	State   string    `json:"state" example:"succeeded"`
	Reason  string    `json:"reason,omitempty" doc:"Why it was skipped, failed or was cancelled." example:"missed"`
	Origin  string    `json:"origin,omitempty" enum:"schedule,trigger,backfill,missed,redrive" doc:"What created the run."`
	Mark    string    `json:"mark,omitempty" enum:"shifted,first_pass,second_pass" doc:"What a clock change did to it."`
	Nominal string    `json:"nominal,omitempty" doc:"The local time that does not exist." example:"2026-03-29T02:30:00"`
	Version int32     `json:"version,omitempty" doc:"Version of the run, or the one that was in force."`

	Run       string     `json:"run,omitempty" doc:"Id of its run. Absent: it has none."`
	RunAt     *time.Time `json:"run_at,omitempty" doc:"When the run may start: jitter and retries move it."`
	StartedAt *time.Time `json:"started_at,omitempty" doc:"Start of the last attempt."`
	EndedAt   *time.Time `json:"ended_at,omitempty"`
	Lateness  *int64     `json:"lateness_ms,omitempty" doc:"How late the first attempt began, in milliseconds."`
	Duration  *int64     `json:"duration_ms,omitempty" doc:"How long the last attempt took, in milliseconds."`
	Attempt   int16      `json:"attempt,omitempty" doc:"Number of the last attempt."`

	Count     int64      `json:"count,omitempty" doc:"Number of occurrences, if the item is a range that cannot be listed one by one."`
	LastDueAt *time.Time `json:"last_due_at,omitempty" doc:"The last due time, if the item is a range."`
	LastLocal string     `json:"last_local,omitempty" doc:"The same in the zone."`
}

// Descriptions implements rest.Described.
func (TimelineItem) Descriptions() map[string]string {
	return map[string]string{
		"state": "That of its run, or: planned (not due yet), paused (the resume decides), due (late, and no node has " +
			"planned it yet), skipped (see reason), forgotten (what its schedule skipped then is no longer known), " +
			"archived (see belfry archive runs), unknown (the ledger does not explain it, which must not happen).",
	}
}

// TimelineBucket counts the items of some time.
type TimelineBucket struct {
	From      time.Time `json:"from"`
	To        time.Time `json:"to" doc:"Exclusive."`
	Succeeded int64     `json:"succeeded"`
	Failed    int64     `json:"failed"`
	Cancelled int64     `json:"cancelled"`
	Skipped   int64     `json:"skipped" doc:"For any reason but an outage."`
	Missed    int64     `json:"missed" doc:"Skipped because no node served the job when it was due."`
	Live      int64     `json:"live" doc:"Due, retrying, running or accepted."`
	Planned   int64     `json:"planned" doc:"Not due yet."`
	Paused    int64     `json:"paused" doc:"The resume of the job decides."`
	Archived  int64     `json:"archived" doc:"Only the archive has their day."`
	Unknown   int64     `json:"unknown" doc:"Unknown or forgotten."`
}

// TimelineVersion is a change of the definition.
type TimelineVersion struct {
	Version int32     `json:"version"`
	At      time.Time `json:"at" doc:"When it took effect."`
	Actor   string    `json:"actor" doc:"The actor that wrote it, as in the audit log." example:"key:deploy"`
}

type timelineOutput struct {
	Body Timeline
}

// maxItems is how many items a timeline lists. More are counted in buckets.
const maxItems = 500

func (h *Handlers) getTimeline(ctx context.Context, in *timelineInput) (*timelineOutput, error) {
	f, err := h.facts(ctx, in.Job, &in.Window, timeline.Ahead)
	if err != nil {
		return nil, err
	}
	line, zone := timeline.Build(f), f.Zone()
	days := zone
	if in.Zone != "" {
		if days, err = time.LoadLocation(in.Zone); err != nil {
			return nil, problem.New("zone", "there is no such zone", "use an IANA name such as Europe/Berlin")
		}
	}
	out := &timelineOutput{Body: Timeline{
		From: f.From, To: f.To, Now: f.Now, HistoryFrom: f.HistoryFrom, Zone: zone.String(), Partial: line.Partial,
		Items: []TimelineItem{}, Versions: []TimelineVersion{},
	}}
	if line.Partial {
		out.Body.CoveredFrom, out.Body.CoveredTo = rest.OptionalTime(line.From), rest.OptionalTime(line.To)
	}
	if len(line.Items) > maxItems {
		out.Body.Buckets = rest.Map(line.Buckets(f.From, f.To, days), wireBucket)
	} else {
		spread := f.Spread()
		out.Body.Items = rest.Map(line.Items, func(i timeline.Item) TimelineItem { return wireItem(&i, zone, spread) })
	}
	for _, v := range f.Versions {
		if !v.From.Before(f.From) {
			out.Body.Versions = append(out.Body.Versions, TimelineVersion{v.Number, v.From, v.By})
		}
	}
	return out, nil
}

// facts reads what the ledger says about a job in a window.
func (h *Handlers) facts(
	ctx context.Context, name string, w *Window, ahead time.Duration,
) (out timeline.Facts, err error) {
	p := timeline.Params{Namespace: rest.Principal(ctx).Namespace, From: w.From.UTC(), To: w.To.UTC(), Ahead: ahead}
	for _, t := range []time.Time{p.From, p.To} {
		if y := t.Year(); !t.IsZero() && (y < firstYear || y > lastYear) {
			return out, &problem.Problem{
				Field: "from or to", Problem: "its year is out of range", Fix: "use a year from 1970 to 2199",
			}
		}
	}
	switch from, to := p.Window(time.Time{}); {
	case !from.Before(to):
		return out, &problem.Problem{Field: "to", Problem: "it is not after from", Fix: "swap or move them"}
	case to.Sub(from) > timeline.MaxWindow:
		return out, &problem.Problem{
			Field: "to", Problem: "it is more than 400 days after from", Fix: "ask for less at a time",
		}
	}
	if p.Job, err = h.ID(ctx, name); err != nil {
		return out, err
	}
	return h.views.Timeline(ctx, p)
}

func wireItem(i *timeline.Item, zone *time.Location, spread func(time.Time) time.Duration) TimelineItem {
	out := TimelineItem{
		DueAt: i.DueAt, Local: i.DueAt.In(zone).Format(time.RFC3339), State: string(i.State), Reason: string(i.Reason),
		Mark: string(i.Mark), Nominal: i.Nominal, Version: i.Version, Count: i.Count,
		LastDueAt: rest.OptionalTime(i.LastDueAt),
	}
	if !i.LastDueAt.IsZero() {
		out.LastLocal = i.LastDueAt.In(zone).Format(time.RFC3339)
	}
	e := i.Entry
	if e == nil {
		return out
	}
	out.Run, out.Origin, out.Attempt = job.FormatRunID(e.Key), job.OriginNames[e.Origin], e.Attempt
	out.RunAt, out.StartedAt = rest.OptionalTime(e.RunAt), rest.OptionalTime(e.BeganAt())
	out.EndedAt, out.Lateness = rest.OptionalTime(e.EndedAt), lateness(e, spread)
	if began := e.BeganAt(); !began.IsZero() && !e.EndedAt.IsZero() {
		ms := max(e.EndedAt.Sub(began), 0).Milliseconds()
		out.Duration = &ms
	}
	return out
}

func wireBucket(b timeline.Bucket) TimelineBucket {
	return TimelineBucket{
		From: b.From, To: b.To, Succeeded: b.Succeeded, Failed: b.Failed, Cancelled: b.Cancelled, Skipped: b.Skipped,
		Missed: b.Missed, Live: b.Live, Planned: b.Planned, Paused: b.Paused, Archived: b.Archived,
		Unknown: b.Unknown,
	}
}
