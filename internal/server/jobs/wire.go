package jobs

import (
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/problem"
	"github.com/belfry-dev/belfry/internal/server/rest"
)

// JobInput is a job as users write it. Fields that are left out have their defaults.
type JobInput struct {
	Name string `json:"name" minLength:"1" maxLength:"200" doc:"Unique in the namespace." example:"nightly-report"`

	Description string `json:"description,omitempty" maxLength:"1000" doc:"What it is for." example:"Sends the sales report."`
	Owner       string `json:"owner,omitempty" maxLength:"200" doc:"Who is responsible, such as a team." example:"billing"`

	Labels   map[string]string `json:"labels,omitempty" doc:"For filters. At most 32 labels."`
	Schedule Schedule          `json:"schedule" doc:"When it runs."`
	Target   Target            `json:"target" doc:"Where its runs go."`
	Payload  rest.JSON         `json:"payload,omitempty" doc:"Sent with each run: any JSON, at most 256 kB."`

	Queue    string `json:"queue,omitempty" maxLength:"63"`
	Priority int16  `json:"priority,omitempty" minimum:"0" maximum:"9"`

	Retry   *Retry        `json:"retry,omitempty" doc:"What happens after a failed attempt."`
	Missed  *Missed       `json:"missed,omitempty" doc:"What happens to occurrences that could not run on time."`
	Overlap string        `json:"overlap,omitempty" enum:"skip,queue,queue_all,allow,replace"`
	Timeout rest.Duration `json:"timeout,omitempty" doc:"Timeout of one attempt, 1s to 24h. Default 30s." example:"30s"`

	ReportTimeout rest.Duration `json:"report_timeout,omitempty" example:"1h"`

	Deadline rest.Duration `json:"deadline,omitempty" example:"10m"`
	Delivery string        `json:"delivery,omitempty" enum:"at_least_once,at_most_once"`

	Concurrency    *Concurrency `json:"concurrency,omitempty"`
	IdempotencyKey string       `json:"idempotency_key,omitempty" maxLength:"1024" example:"job.name + '/' + string(due_at)"`

	PauseAfterFailures int32         `json:"pause_after_failures,omitempty" minimum:"0"`
	KeepFinishedFor    rest.Duration `json:"keep_finished_for,omitempty" example:"24h"`
}

// Descriptions implements rest.Described.
func (JobInput) Descriptions() map[string]string {
	return map[string]string{
		"queue":    "Queue of its runs. It is created on first use. Default: default.",
		"priority": "Runs with a higher priority start first when slots are short. Default 0.",
		"overlap":  "What happens if a run is due while another run of the job is live. Default skip.",
		"report_timeout": "After a target has accepted a run with 202: maximum time until it reports or sends its " +
			"next heartbeat, 1s to 7d. Default 1h.",
		"deadline": "A run that has not started this long after its due time is skipped as expired. " +
			"Default: no deadline.",
		"delivery":    "at_most_once: an attempt whose outcome is unknown is never retried. Default at_least_once.",
		"concurrency": "Limits the live runs that share a key, across all jobs of the namespace.",
		"idempotency_key": "CEL expression for the key that the target receives. The key is the same on every " +
			"attempt and redrive. Default: the run's id.",
		"pause_after_failures": "Number of failed runs in a row after which the job is paused. 0: never.",
		"keep_finished_for":    "How long a finished one-off job is kept. Default 24h.",
	}
}

// Target says where runs go.
type Target struct {
	Kind   string    `json:"kind" minLength:"1" maxLength:"32" doc:"The kind of target." example:"http"`
	Config rest.JSON `json:"config,omitempty" doc:"Settings of this kind. For http: url, method, headers, body."`
}

// TransformSchema is called by huma. It adds an example of a config, which has no type here.
func (Target) TransformSchema(_ huma.Registry, s *huma.Schema) *huma.Schema {
	s.Properties["config"].Examples = []any{map[string]any{"url": "https://hooks.example.com/nightly"}}
	return s
}

// Retry says how often and when a failed attempt is retried.
type Retry struct {
	MaxAttempts *int16        `json:"max_attempts,omitempty" minimum:"1" maximum:"100"`
	Backoff     string        `json:"backoff,omitempty" enum:"none,fixed,linear,exponential"`
	Base        rest.Duration `json:"base,omitempty" doc:"The first delay. Default 5s." example:"5s"`
	Cap         rest.Duration `json:"cap,omitempty" doc:"The longest delay. Default 15m." example:"15m"`
	Jitter      *float64      `json:"jitter,omitempty" minimum:"-1" maximum:"1" example:"0.2"`
}

// Descriptions implements rest.Described.
func (Retry) Descriptions() map[string]string {
	return map[string]string{
		"max_attempts": "Maximum number of attempts. Default 3.",
		"backoff":      "How the delay grows. Default exponential.",
		"jitter":       "The random part of the delay. Default 0.2; -1 means none.",
	}
}

// Concurrency limits the live runs that share a key.
type Concurrency struct {
	Key string `json:"key" minLength:"1" maxLength:"200" example:"customer-42"`
	Max *int32 `json:"max,omitempty" minimum:"1" maximum:"10000"`
}

// Descriptions implements rest.Described.
func (Concurrency) Descriptions() map[string]string {
	return map[string]string{
		"key": "What the runs share, such as a customer or an account.",
		"max": "A run of this job starts only while fewer runs with the key are live, of any job. Default 1.",
	}
}

// Missed is the policy for occurrences whose time passed before they could run.
type Missed struct {
	Policy        string        `json:"policy,omitempty" enum:"skip,once,all"`
	CatchUpWindow rest.Duration `json:"catch_up_window,omitempty" example:"30m"`
	Max           *int32        `json:"max,omitempty" minimum:"1" maximum:"10000"`
	Pace          rest.Duration `json:"pace,omitempty" example:"1s"`
	Paused        string        `json:"paused,omitempty" enum:"skip,once,all"`
	Created       string        `json:"created,omitempty" enum:"skip,once,all"`
}

// Descriptions implements rest.Described.
func (Missed) Descriptions() map[string]string {
	return map[string]string{
		"policy": "Occurrences missed while the cluster was down: skip them, run the newest, or run all. " +
			"Default once.",
		"catch_up_window": "Older occurrences are skipped. Default 30m.",
		"max": "With all: maximum number of occurrences that run. If there are more, the newest run. " +
			"Default 100.",
		"pace":    "With all: time between two starts. Default 1s.",
		"paused":  "Occurrences missed while the job was paused. Default skip.",
		"created": "A one-off job whose time had already passed when it was created. Default once.",
	}
}

// definition returns the input in the words of package job, where zero means the default. A zero that a user wrote is
// therefore rejected here, unless it has a meaning of its own.
func (in *JobInput) definition() (job.Definition, error) {
	var bad problem.Checker
	duration := func(field string, text rest.Duration) job.Duration {
		d, err := text.Parse(field, 0, "30s, 15m, 1h30m or 7d")
		switch {
		case err != nil:
			bad = append(bad, err)
		case text != "" && d == 0 && field != "deadline": // a deadline of 0 is none
			bad.Add(field, "it is 0", "use a longer time, or leave the field out to get its default")
		}
		return job.Duration(d)
	}
	const least = "use 1 or more, or leave the field out to get its default"
	d := job.Definition{
		Name: in.Name, Description: in.Description, Owner: in.Owner,
		Labels: in.Labels, Schedule: in.Schedule.Spec, Payload: in.Payload.Raw(), Queue: in.Queue,
		Target:   job.Target{Kind: in.Target.Kind, Config: in.Target.Config.Raw()},
		Priority: in.Priority,
		Policy: job.Policy{
			Overlap: job.Overlap(in.Overlap), Delivery: job.Delivery(in.Delivery),
			IdempotencyKey: in.IdempotencyKey, PauseAfterFailures: in.PauseAfterFailures,
			Timeout: duration("timeout", in.Timeout), ReportTimeout: duration("report_timeout", in.ReportTimeout),
			Deadline:        duration("deadline", in.Deadline),
			KeepFinishedFor: duration("keep_finished_for", in.KeepFinishedFor),
		},
	}
	if r := in.Retry; r != nil {
		d.Retry = job.Retry{
			Backoff: job.Backoff(r.Backoff), MaxAttempts: nonzero(&bad, "retry.max_attempts", r.MaxAttempts, least),
			Jitter: nonzero(&bad, "retry.jitter", r.Jitter, "use -1 for none, or leave the field out to get its default"),
			Base:   duration("retry.base", r.Base), Cap: duration("retry.cap", r.Cap),
		}
	}
	if m := in.Missed; m != nil {
		d.Missed = job.Missed{
			Policy: job.MissedPolicy(m.Policy), Paused: job.MissedPolicy(m.Paused),
			Created: job.MissedPolicy(m.Created), Max: nonzero(&bad, "missed.max", m.Max, least),
			CatchUpWindow: duration("missed.catch_up_window", m.CatchUpWindow), Pace: duration("missed.pace", m.Pace),
		}
	}
	if c := in.Concurrency; c != nil {
		d.Concurrency = job.Concurrency{Key: c.Key, Max: nonzero(&bad, "concurrency.max", c.Max, least)}
	}
	return d, bad.Err()
}

// nonzero returns the value of an optional field, and adds a problem if it was written as 0.
func nonzero[T int16 | int32 | float64](bad *problem.Checker, field string, v *T, fix string) T {
	if v == nil {
		return 0
	}
	if *v == 0 {
		bad.Add(field, "it is 0", fix)
	}
	return *v
}

// Job is a job as it is stored, with all defaults filled in.
type Job struct {
	ID        string    `json:"id" doc:"Its id." example:"job_06f8m2tq5dtk1e7n9q0c3s5v7g"`
	State     string    `json:"state" enum:"active,paused,finished" doc:"finished: no occurrence is left."`
	Note      string    `json:"note,omitempty" doc:"Why it is paused."`
	Version   int32     `json:"version" doc:"1 at first, plus one with each new definition. Usable as If-Match."`
	CreatedAt time.Time `json:"created_at"`
	CreatedBy string    `json:"created_by" doc:"The actor that created it, as in the audit log." example:"key:deploy"`
	UpdatedAt time.Time `json:"updated_at" doc:"Last change of its definition, pause or resume."`
	UpdatedBy string    `json:"updated_by" doc:"The actor of that change. belfry: Belfry itself."`

	PausedAt    *time.Time `json:"paused_at,omitempty" doc:"Since when it is paused."`
	PausedBy    string     `json:"paused_by,omitempty" doc:"The actor that paused it. belfry: Belfry, after failures."`
	PausedUntil *time.Time `json:"paused_until,omitempty" doc:"When Belfry resumes it. Absent: a user has to."`

	Recent
	LastRun  *LastRun  `json:"last_run,omitempty" doc:"Of get-job: the newest run that started, or was skipped."`
	Warnings []Warning `json:"warnings,omitempty" doc:"Of a create or change: what may not be as meant."`

	// NextDueAt is for users only: no decision depends on it.
	NextDueAt    *time.Time `json:"next_due_at" doc:"Next due time, calendars applied. null: paused, or no run is left."`
	NextDueLocal string     `json:"next_due_local,omitempty" doc:"The same in the schedule's zone." example:"2026-03-30T02:00:00+02:00"`
	InWords
	JobInput
}

var stateNames = map[job.State]string{job.Active: "active", job.Paused: "paused", job.Finished: "finished"}

func wireJob(j job.Job) Job {
	words, zone := inWords(j.Schedule, j.ID.String())
	local := ""
	if !j.NextDue.IsZero() {
		local = j.NextDue.In(zone).Format(time.RFC3339)
	}
	return Job{
		ID: job.FormatJobID(j.ID), NextDueAt: rest.OptionalTime(j.NextDue), State: stateNames[j.State], Note: j.Note,
		Version: j.Version, CreatedAt: j.CreatedAt, CreatedBy: j.CreatedBy, UpdatedAt: j.UpdatedAt,
		UpdatedBy: j.UpdatedBy, PausedAt: rest.OptionalTime(j.PausedAt), PausedBy: j.PausedBy,
		PausedUntil: rest.OptionalTime(j.PausedUntil), NextDueLocal: local, InWords: words,
		JobInput: wireDefinition(&j.Definition),
	}
}

func wireDefinition(d *job.Definition) JobInput {
	out := JobInput{
		Name: d.Name, Description: d.Description, Owner: d.Owner, Labels: d.Labels,
		Schedule: Schedule{d.Schedule}, Payload: rest.JSON(d.Payload),
		Target: Target{Kind: d.Target.Kind, Config: rest.JSON(d.Target.Config)},
		Queue:  d.Queue, Priority: d.Priority,
		Retry: &Retry{
			MaxAttempts: &d.Retry.MaxAttempts, Backoff: string(d.Retry.Backoff), Jitter: &d.Retry.Jitter,
			Base: wireDuration(d.Retry.Base), Cap: wireDuration(d.Retry.Cap),
		},
		Missed: &Missed{
			Policy: string(d.Missed.Policy), Paused: string(d.Missed.Paused), Created: string(d.Missed.Created),
			CatchUpWindow: wireDuration(d.Missed.CatchUpWindow), Max: &d.Missed.Max, Pace: wireDuration(d.Missed.Pace),
		},
		Overlap: string(d.Overlap), Delivery: string(d.Delivery),
		Timeout: wireDuration(d.Timeout), ReportTimeout: wireDuration(d.ReportTimeout),
		Deadline: wireDuration(d.Deadline), KeepFinishedFor: wireDuration(d.KeepFinishedFor),
		IdempotencyKey: d.IdempotencyKey, PauseAfterFailures: d.PauseAfterFailures,
	}
	if c := d.Concurrency; c.Key != "" {
		out.Concurrency = &Concurrency{c.Key, &c.Max}
	}
	return out
}

// wireDuration returns an empty string for 0, so that JSON leaves it out.
func wireDuration(d job.Duration) rest.Duration {
	if d == 0 {
		return ""
	}
	return rest.Duration(d.String())
}
