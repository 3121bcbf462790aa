package server

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/schedule"
)

// JobInput is a job as users write it. What is left out has its default.
type JobInput struct {
	Name     string            `json:"name" minLength:"1" maxLength:"200" doc:"Unique in the namespace." example:"nightly-report"`
	Labels   map[string]string `json:"labels,omitempty" doc:"For filters. At most 32."`
	Schedule Schedule          `json:"schedule" doc:"When it runs."`
	Target   Target            `json:"target" doc:"Where its runs go."`
	Payload  JSON              `json:"payload,omitempty" doc:"Sent with each run: any JSON, at most 256 kB."`
	Queue    string            `json:"queue,omitempty" maxLength:"63" doc:"The lane its runs are in. Made if there is none of this name. Default: default."`
	Priority int16             `json:"priority,omitempty" minimum:"0" maximum:"9" doc:"Higher goes first when there is more to do than slots. Default 0."`
	MaxRuns  int32             `json:"max_runs,omitempty" minimum:"0" doc:"The job is finished after so many runs by its schedule. 0: no limit."`

	Retry   *Retry   `json:"retry,omitempty" doc:"What happens after a failed attempt."`
	Missed  *Missed  `json:"missed,omitempty" doc:"What happens to occurrences whose time passed while they could not run."`
	Overlap string   `json:"overlap,omitempty" enum:"skip,queue,queue_all,allow,replace" doc:"What happens when a run is due while another of the job is live. Default skip."`
	Timeout Duration `json:"timeout,omitempty" doc:"Of one attempt, 1s to 24h. Default 30s." example:"30s"`

	ReportTimeout Duration `json:"report_timeout,omitempty" doc:"How long a target that accepted a run, with 202, may take to report on it, or until its next heartbeat, 1s to 7d. Default 1h." example:"1h"`

	Deadline Duration `json:"deadline,omitempty" doc:"A run that could not start so long after its due time is skipped as expired. Default: none." example:"10m"`
	Delivery string   `json:"delivery,omitempty" enum:"at_least_once,at_most_once" doc:"at_most_once: an attempt whose outcome is unknown is never tried again. Default at_least_once."`

	Concurrency    *Concurrency `json:"concurrency,omitempty" doc:"Bounds the live runs of all jobs of the namespace that have the same key."`
	IdempotencyKey string       `json:"idempotency_key,omitempty" maxLength:"1024" doc:"A CEL expression for the key that the target gets, the same on every attempt and redrive. Default: the run's id." example:"job.name + '/' + string(due_at)"`

	PauseAfterFailures int32    `json:"pause_after_failures,omitempty" minimum:"0" doc:"The job is paused after so many failed runs in a row. 0: never."`
	KeepFinishedFor    Duration `json:"keep_finished_for,omitempty" doc:"How long a finished one-off job is kept. Default 24h." example:"24h"`
}

// Target says where runs go.
type Target struct {
	Kind   string `json:"kind" minLength:"1" maxLength:"32" doc:"The kind of target." example:"http"`
	Config JSON   `json:"config,omitempty" doc:"Settings of this kind. For http: url, method, headers, body."`
}

// TransformSchema is for huma: an example of settings, which have no type here.
func (Target) TransformSchema(_ huma.Registry, s *huma.Schema) *huma.Schema {
	s.Properties["config"].Examples = []any{map[string]any{"url": "https://hooks.example.com/nightly"}}
	return s
}

// Retry says how often and when a failed attempt is tried again.
type Retry struct {
	MaxAttempts int16    `json:"max_attempts,omitempty" minimum:"0" maximum:"100" doc:"Attempts in all. Default 3."`
	Backoff     string   `json:"backoff,omitempty" enum:"none,fixed,linear,exponential" doc:"How the delay grows. Default exponential."`
	Base        Duration `json:"base,omitempty" doc:"The first delay. Default 5s." example:"5s"`
	Cap         Duration `json:"cap,omitempty" doc:"The longest delay. Default 15m." example:"15m"`
	Jitter      float64  `json:"jitter,omitempty" minimum:"-1" maximum:"1" doc:"The part of the delay that is random. Default 0.2; -1 means none."`
}

// Concurrency bounds the live runs that share a key.
type Concurrency struct {
	Key string `json:"key" minLength:"1" maxLength:"200" doc:"What the runs share, such as a customer or an account." example:"customer-42"`
	Max int32  `json:"max,omitempty" minimum:"0" maximum:"10000" doc:"A run of this job starts when fewer runs with the key are live, whatever job they belong to. Default 1."`
}

// Missed is the policy for occurrences whose time passed.
type Missed struct {
	Policy        string   `json:"policy,omitempty" enum:"skip,once,all" doc:"While the cluster was down: skip them, run the newest, or run all. Default once."`
	CatchUpWindow Duration `json:"catch_up_window,omitempty" doc:"Older ones are skipped. Default 30m." example:"30m"`
	Max           int32    `json:"max,omitempty" minimum:"0" maximum:"10000" doc:"With all: at most so many run, the newest. Default 100."`
	Pace          Duration `json:"pace,omitempty" doc:"With all: the distance at which they start. Default 1s." example:"1s"`
	Paused        string   `json:"paused,omitempty" enum:"skip,once,all" doc:"While the job was paused. Default skip."`
	Created       string   `json:"created,omitempty" enum:"skip,once,all" doc:"A one-off whose time had passed when it was created. Default once."`
}

// Duration is written as 30s, 15m, 1h30m or 7d.
type Duration string

// Schema is for huma.
func (Duration) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: "string", MaxLength: ptr(32)}
}

// JSON is any JSON value, kept as it was written.
type JSON json.RawMessage

// Schema is for huma.
func (JSON) Schema(huma.Registry) *huma.Schema { return &huma.Schema{} }

// MarshalJSON and UnmarshalJSON keep it as it is.
func (j JSON) MarshalJSON() ([]byte, error) { return json.RawMessage(j).MarshalJSON() }

// UnmarshalJSON is the other way.
func (j *JSON) UnmarshalJSON(data []byte) error { return (*json.RawMessage)(j).UnmarshalJSON(data) }

// Schedule is written as an object or as one string.
type Schedule struct{ schedule.Spec }

const named = "#/components/schemas/"

func textOf(about, example string) *huma.Schema {
	return &huma.Schema{Type: "string", Description: about + " Such as " + example + ".", MaxLength: ptr(1024)}
}

// scheduleSpec describes a schedule as an object.
func scheduleSpec() *huma.Schema {
	return &huma.Schema{
		Type: "object", AdditionalProperties: false, Description: "Exactly one of at, every, cron and rrule.",
		Properties: map[string]*huma.Schema{
			"at":        textOf("Once, at this time; without an offset it is read in timezone.", "2027-01-31T09:00:00Z"),
			"every":     textOf("Each time this long has passed since anchor.", "15m"),
			"cron":      textOf("5 or 6 fields, names, L W # H, and macros.", "0 9 * * 1-5"),
			"rrule":     textOf("RFC 5545, FREQ=DAILY or slower.", "FREQ=MONTHLY;BYDAY=-1FR;BYHOUR=17"),
			"anchor":    textOf("Where every counts from, or the DTSTART of an rrule.", "2026-01-01T00:00:00Z"),
			"timezone":  textOf("IANA name. Default UTC.", "America/New_York"),
			"dst":       {Ref: named + "DST", Description: "What a change of the clock does."},
			"start_at":  {Type: "string", Format: "date-time", Description: "Nothing before."},
			"end_at":    {Type: "string", Format: "date-time", Description: "Nothing at or after."},
			"jitter":    textOf("Each run starts up to this much later, always the same for a due time.", "30s"),
			"calendars": {Type: "array", Description: "What is excluded.", Items: &huma.Schema{Ref: named + "Calendar"}},
		},
	}
}

// Schema is for huma. Its parts have names, so that a generated client has one
// type for each and not one for each place.
func (Schedule) Schema(r huma.Registry) *huma.Schema {
	list := func(about string) *huma.Schema {
		return &huma.Schema{Type: "array", Description: about, Items: &huma.Schema{Type: "string"}}
	}
	dst := &huma.Schema{
		Type: "object", AdditionalProperties: false, Properties: map[string]*huma.Schema{
			"gap":  {Type: "string", Enum: []any{"shift", "skip"}, Description: "A time that does not happen. Default shift: once, when the gap ends."},
			"fold": {Type: "string", Enum: []any{"first", "second", "both"}, Description: "A time that happens twice. Default first."},
		},
	}
	calendar := &huma.Schema{
		Type: "object", AdditionalProperties: false, Properties: map[string]*huma.Schema{
			"dates": list("2026-12-25, 2026-12-24/2027-01-01, or each year 12-25."), "weekdays": list("sat, sun, …"), "windows": list("12:00-13:00"),
		},
	}
	either := &huma.Schema{OneOf: []*huma.Schema{
		textOf("A time is at, FREQ=… an rrule, every 15m is every, all else is cron.", "0 9 * * 1-5"), {Ref: named + "ScheduleSpec"},
	}, Examples: []any{"0 9 * * 1-5", map[string]any{"cron": "30 2 * * *", "timezone": "America/New_York"}}}
	for name, schema := range map[string]*huma.Schema{"Schedule": either, "ScheduleSpec": scheduleSpec(), "DST": dst, "Calendar": calendar} {
		schema.PrecomputeMessages()
		r.Map()[name] = schema
	}
	return &huma.Schema{Ref: named + "Schedule"}
}

func ptr[T any](v T) *T { return &v }

// definition is the domain's form of an input.
func (in *JobInput) definition() (job.Definition, error) {
	var bad []error
	duration := func(field string, text Duration) (d job.Duration) {
		if text != "" {
			if err := d.UnmarshalText([]byte(text)); err != nil {
				bad = append(bad, &job.Problem{Field: field, Problem: "it is not a duration", Fix: "write for example 30s, 15m, 1h30m or 7d"})
			}
		}
		return d
	}
	d := job.Definition{
		Name: in.Name, Labels: in.Labels, Schedule: in.Schedule.Spec, Payload: null(in.Payload), Queue: in.Queue,
		Target: job.Target{Kind: in.Target.Kind, Config: null(in.Target.Config)}, Priority: in.Priority, MaxRuns: in.MaxRuns,
		Policy: job.Policy{
			Overlap: job.Overlap(in.Overlap), Delivery: job.Delivery(in.Delivery), IdempotencyKey: in.IdempotencyKey, PauseAfterFailures: in.PauseAfterFailures,
			Timeout: duration("timeout", in.Timeout), ReportTimeout: duration("report_timeout", in.ReportTimeout), Deadline: duration("deadline", in.Deadline), KeepFinishedFor: duration("keep_finished_for", in.KeepFinishedFor),
		},
	}
	if r := in.Retry; r != nil {
		d.Retry = job.Retry{
			MaxAttempts: r.MaxAttempts, Backoff: job.Backoff(r.Backoff), Jitter: r.Jitter,
			Base: duration("retry.base", r.Base), Cap: duration("retry.cap", r.Cap),
		}
	}
	if m := in.Missed; m != nil {
		d.Missed = job.Missed{
			Policy: job.MissedPolicy(m.Policy), Paused: job.MissedPolicy(m.Paused), Created: job.MissedPolicy(m.Created), Max: m.Max,
			CatchUpWindow: duration("missed.catch_up_window", m.CatchUpWindow), Pace: duration("missed.pace", m.Pace),
		}
	}
	if c := in.Concurrency; c != nil {
		d.Concurrency = job.Concurrency{Key: c.Key, Max: c.Max}
	}
	return d, errors.Join(bad...)
}

// null is JSON without a literal null, which means nothing was sent.
func null(j JSON) json.RawMessage {
	if string(j) == "null" {
		return nil
	}
	return json.RawMessage(j)
}

// Job is a job as it is kept: all defaults filled in.
type Job struct {
	ID        string    `json:"id" doc:"Its id." example:"job_06f8m2tq5dtk1e7n9q0c3s5v7g"`
	State     string    `json:"state" enum:"active,paused,finished" doc:"finished: nothing of its schedule is left."`
	Note      string    `json:"note,omitempty" doc:"Why it is paused."`
	Version   int32     `json:"version" doc:"1 at create, one more with each change of the definition. Also the ETag."`
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
	// NextDueAt is for users; decisions never read it.
	NextDueAt *time.Time `json:"next_due_at" doc:"When it is due next: its first planned run that has not begun, else the first occurrence that is not planned and that no calendar takes away. null: never, or it is paused."`
	JobInput
}

var stateNames = map[job.State]string{job.Active: "active", job.Paused: "paused", job.Finished: "finished"}

func wireJob(j job.Job) Job {
	text := func(d job.Duration) Duration {
		if d == 0 {
			return ""
		}
		return Duration(d.String())
	}
	var shared *Concurrency
	if j.Concurrency.Key != "" {
		shared = &Concurrency{j.Concurrency.Key, j.Concurrency.Max}
	}
	var next *time.Time
	if !j.NextDue.IsZero() {
		next = &j.NextDue
	}
	return Job{
		ID: job.FormatJobID(j.ID), NextDueAt: next, State: stateNames[j.State], Note: j.Note, Version: j.Version, CreatedAt: j.CreatedAt, UpdatedAt: j.UpdatedAt,
		JobInput: JobInput{
			Name: j.Name, Labels: j.Labels, Schedule: Schedule{j.Schedule}, Payload: JSON(j.Payload), Queue: j.Queue, Priority: j.Priority, MaxRuns: j.MaxRuns,
			Target: Target{Kind: j.Target.Kind, Config: JSON(j.Target.Config)},
			Retry: &Retry{
				MaxAttempts: j.Retry.MaxAttempts, Backoff: string(j.Retry.Backoff), Base: text(j.Retry.Base), Cap: text(j.Retry.Cap), Jitter: j.Retry.Jitter,
			},
			Missed: &Missed{
				Policy: string(j.Missed.Policy), CatchUpWindow: text(j.Missed.CatchUpWindow), Max: j.Missed.Max, Pace: text(j.Missed.Pace),
				Paused: string(j.Missed.Paused), Created: string(j.Missed.Created),
			},
			Overlap: string(j.Overlap), Timeout: text(j.Timeout), ReportTimeout: text(j.ReportTimeout), Deadline: text(j.Deadline), Delivery: string(j.Delivery),
			Concurrency: shared, IdempotencyKey: j.IdempotencyKey, PauseAfterFailures: j.PauseAfterFailures, KeepFinishedFor: text(j.KeepFinishedFor),
		},
	}
}
