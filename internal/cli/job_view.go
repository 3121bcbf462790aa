package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/belfry-dev/belfry/internal/cli/remote"
	"github.com/belfry-dev/belfry/internal/cli/terminal"
	"github.com/belfry-dev/belfry/internal/cli/timeline"
	"github.com/belfry-dev/belfry/internal/schedule"
)

// jobView is a job, as far as it is printed for people.
type jobView struct {
	ID    string `json:"id"`
	Name  string `json:"name"`
	State string `json:"state"`
	Note  string `json:"note"`

	Description string     `json:"description"`
	Owner       string     `json:"owner"`
	PausedAt    *time.Time `json:"paused_at"`
	PausedBy    string     `json:"paused_by"`
	PausedUntil *time.Time `json:"paused_until"`
	CreatedBy   string     `json:"created_by"`
	UpdatedBy   string     `json:"updated_by"`
	LastRun     *struct {
		ID        string     `json:"id"`
		State     string     `json:"state"`
		StartedAt *time.Time `json:"started_at"`
		EndedAt   *time.Time `json:"ended_at"`
		Reason    string     `json:"reason"`
	} `json:"last_run"`
	Recent        []timeline.Run `json:"recent"`
	RecentPartial bool           `json:"recent_partial"`
	Warnings      []struct {
		Field   string `json:"field"`
		Message string `json:"message"`
		Fix     string `json:"fix"`
	} `json:"warnings"`

	Version   int32             `json:"version"`
	Labels    map[string]string `json:"labels"`
	Schedule  schedule.Spec     `json:"schedule"`
	Words     string            `json:"words"`
	Target    targetView        `json:"target"`
	Payload   json.RawMessage   `json:"payload"`
	Queue     string            `json:"queue"`
	Priority  int               `json:"priority"`
	Overlap   string            `json:"overlap"`
	Timeout   string            `json:"timeout"`
	Deadline  string            `json:"deadline"`
	Delivery  string            `json:"delivery"`
	NextDueAt *time.Time        `json:"next_due_at"`
	CreatedAt *time.Time        `json:"created_at"`
	UpdatedAt *time.Time        `json:"updated_at"`
	Retry     struct {
		MaxAttempts int     `json:"max_attempts"`
		Backoff     string  `json:"backoff"`
		Base        string  `json:"base"`
		Cap         string  `json:"cap"`
		Jitter      float64 `json:"jitter"`
	} `json:"retry"`
	Missed struct {
		Policy        string `json:"policy"`
		CatchUpWindow string `json:"catch_up_window"`
		Max           int    `json:"max"`
		Pace          string `json:"pace"`
		Paused        string `json:"paused"`
		Created       string `json:"created"`
	} `json:"missed"`
	Concurrency struct {
		Key string `json:"key"`
		Max int    `json:"max"`
	} `json:"concurrency"`
	IdempotencyKey     string `json:"idempotency_key"`
	ReportTimeout      string `json:"report_timeout"`
	PauseAfterFailures int    `json:"pause_after_failures"`
	KeepFinishedFor    string `json:"keep_finished_for"`
}

type targetView struct {
	Kind   string          `json:"kind"`
	Config json.RawMessage `json:"config"`
}

// String returns the kind and what the config names: a URL, a handler, a program, a topic.
func (t targetView) String() string {
	var c struct {
		Method     string   `json:"method"`
		URL        string   `json:"url"`
		Handler    string   `json:"handler"`
		Image      string   `json:"image"`
		Program    string   `json:"program"`
		Args       []string `json:"args"`
		Topic      string   `json:"topic"`
		Subject    string   `json:"subject"`
		Exchange   string   `json:"exchange"`
		RoutingKey string   `json:"routing_key"`
	}
	if json.Unmarshal(t.Config, &c) != nil {
		return t.Kind
	}
	words := slices.Concat([]string{
		t.Kind, c.Method, c.URL, c.Handler, c.Image, c.Program, c.Topic, c.Subject, c.Exchange, c.RoutingKey,
	}, c.Args)
	words = slices.DeleteFunc(words, func(s string) bool { return s == "" })
	return terminal.Clean(strings.Join(words, " "))
}

// rest returns the fields of the config that String leaves out, such as headers, as JSON.
func (t targetView) rest() string {
	var all map[string]json.RawMessage
	if json.Unmarshal(t.Config, &all) != nil {
		return ""
	}
	for _, shown := range []string{
		"method", "url", "handler", "image", "program", "args", "topic", "subject", "exchange", "routing_key",
	} {
		delete(all, shown)
	}
	if len(all) == 0 {
		return ""
	}
	text, _ := json.Marshal(all) //nolint:errchkjson // it was JSON before
	return terminal.Clean(string(text))
}

// zone returns the zone of the schedule, or UTC if this machine does not know it.
func (j *jobView) zone() *time.Location {
	if z, err := time.LoadLocation(j.Schedule.Timezone); err == nil {
		return z
	}
	return time.UTC
}

// zoneOf returns the zone of a job, or UTC if the job cannot be read, as when it is deleted.
func zoneOf(ctx context.Context, r *remote.Server, job string) (*time.Location, error) {
	raw, err := r.Get(ctx, remote.JobPath(job), nil)
	if err != nil {
		return time.UTC, nil //nolint:nilerr // the zone is a convenience
	}
	j, err := terminal.Decode[jobView](raw)
	if err != nil {
		return nil, err
	}
	return j.zone(), nil
}

// when describes the schedule in a few words.
func (j *jobView) when() string {
	s := j.Schedule
	switch {
	case s.Cron != "":
		return s.Cron
	case s.Every != "":
		return "every " + s.Every
	case s.At != "":
		return "at " + s.At
	}
	return s.RRule
}

// bounds describes what limits the schedule, to append to when.
func (j *jobView) bounds(zone *time.Location) (out string) {
	s := j.Schedule
	for _, b := range []struct{ name, value string }{
		{"from", terminal.Time(&s.StartAt, zone)},
		{"until", terminal.Time(&s.EndAt, zone)},
		{"jitter", s.Jitter},
		{"gap", string(s.DST.Gap)},
		{"fold", string(s.DST.Fold)},
	} {
		if b.value != "" && b.value != "-" {
			out += ", " + b.name + " " + b.value
		}
	}
	if len(s.Calendars) > 0 {
		out += ", except what its calendars exclude"
	}
	return out
}

func (j *jobView) retry() string {
	r := j.Retry
	switch {
	case r.MaxAttempts == 1:
		return "none: 1 attempt"
	case r.Backoff == "none":
		return fmt.Sprintf("%d attempts, at once", r.MaxAttempts)
	}
	return fmt.Sprintf("%d attempts, %s from %s to %s, jitter %g", r.MaxAttempts, r.Backoff, r.Base, r.Cap, r.Jitter)
}

func (j *jobView) missed() string {
	m := j.Missed
	text := m.Policy
	if m.Policy == "all" {
		text += fmt.Sprintf(", at most %d, %s apart", m.Max, m.Pace)
	}
	if m.Policy != "skip" {
		text += ", within " + m.CatchUpWindow
	}
	if j.Schedule.At != "" {
		text += "; if it was created too late: " + m.Created
	}
	return text + "; after a pause: " + m.Paused
}

func (j *jobView) concurrency() string {
	if j.Concurrency.Key == "" {
		return ""
	}
	return fmt.Sprintf("at most %d with the key %s", j.Concurrency.Max, j.Concurrency.Key)
}

// keptFor says how long the job stays after its last run, if it has a last one.
func (j *jobView) keptFor() string {
	if j.Schedule.At == "" {
		return ""
	}
	return j.KeepFinishedFor + " after it ran"
}

// lastRun describes the newest run that started or was skipped.
func (j *jobView) lastRun(zone *time.Location) string {
	if j.LastRun == nil {
		return ""
	}
	at := j.LastRun.EndedAt
	if at == nil {
		at = j.LastRun.StartedAt
	}
	words := []string{terminal.State(j.LastRun.State), terminal.Clean(j.LastRun.Reason), terminal.Moment(at, zone)}
	return strings.Join(slices.DeleteFunc(words, func(s string) bool { return s == "" }), " ")
}

// warn prints what may not be as meant.
func (j *jobView) warn(r *remote.Server) {
	for _, w := range j.Warnings {
		r.Line("%s %s: %s; %s", terminal.Yellow.Render("warning"), w.Field, w.Message, w.Fix)
	}
}

// by formats a time and the actor of a change.
func by(at *time.Time, actor string, zone *time.Location) string {
	text := terminal.Moment(at, zone)
	if at != nil && actor != "" {
		text += ", by " + terminal.Clean(actor)
	}
	return text
}

// number formats a number. 0 means that it is not set.
func number(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

// showJob prints a page about a job.
func showJob(r *remote.Server, raw []byte, stats string) error {
	return r.Show(raw, func() error {
		j, err := terminal.Decode[jobView](raw)
		if err != nil {
			return err
		}
		zone := j.zone()
		state := terminal.State(j.State)
		if j.Note != "" {
			state += ": " + j.Note
		}
		return terminal.WriteFields(r.Out, []terminal.Field{
			{"name", terminal.Strong.Render(j.Name)},
			{"id", j.ID},
			{"description", j.Description},
			{"owner", j.Owner},
			{"state", state},
			{"paused", by(j.PausedAt, j.PausedBy, zone)},
			{"paused until", terminal.Moment(j.PausedUntil, zone)},
			{"schedule", j.when() + " in " + zone.String() + j.bounds(zone)},
			{"in words", j.Words},
			{"last run", j.lastRun(zone)},
			{"last 14 days", stats},
			{"next due", terminal.Moment(j.NextDueAt, zone)},
			{"target", j.Target.String()},
			{"target config", j.Target.rest()},
			{"payload", terminal.Truncate(string(j.Payload), 200)},
			{"labels", terminal.Pairs(j.Labels)},
			{"queue", j.Queue + ", priority " + strconv.Itoa(j.Priority)},
			{"retry", j.retry()},
			{"timeout", j.Timeout},
			{"report timeout", j.ReportTimeout},
			{"deadline", j.Deadline},
			{"overlap", j.Overlap},
			{"concurrency", j.concurrency()},
			{"idempotency key", j.IdempotencyKey},
			{"missed", j.missed()},
			{"delivery", j.Delivery},
			{"pauses after", number(j.PauseAfterFailures)},
			{"is kept for", j.keptFor()},
			{"version", strconv.Itoa(int(j.Version))},
			{"created", by(j.CreatedAt, j.CreatedBy, zone)},
			{"updated", by(j.UpdatedAt, j.UpdatedBy, zone)},
		})
	})
}
