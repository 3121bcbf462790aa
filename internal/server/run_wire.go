package server

import (
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/server/rest"
	"github.com/belfry-dev/belfry/internal/trace"
)

// RunState is the state of a run.
type RunState = rest.Enum[runStates]

type runStates struct{}

func (runStates) Name() string { return "RunState" }

func (runStates) Values() []any {
	return []any{"pending", "retrying", "due", "running", "accepted", "succeeded", "failed", "cancelled", "skipped"}
}

// Origin says what created a run.
type Origin = rest.Enum[origins]

type origins struct{}

func (origins) Name() string { return "Origin" }

func (origins) Values() []any { return []any{"schedule", "trigger", "backfill", "missed", "redrive"} }

// Run is an entry of the ledger: a live run, a run that ended, or a range of occurrences that did not
// run.
type Run struct {
	ID        string     `json:"id"`
	Job       string     `json:"job" doc:"The id of its job."`
	JobName   string     `json:"job_name,omitempty" doc:"Absent: the job is deleted."`
	Queue     string     `json:"queue"`
	State     RunState   `json:"state"`
	Origin    Origin     `json:"origin" doc:"missed: caught up late."`
	DueAt     time.Time  `json:"due_at" doc:"The scheduled time. Never changes."`
	RunAt     time.Time  `json:"run_at" doc:"When it may start: due_at plus jitter or retry delay."`
	StartedAt *time.Time `json:"started_at,omitempty" doc:"Start of the last attempt."`
	EndedAt   *time.Time `json:"ended_at,omitempty"`
	Attempt   int16      `json:"attempt" doc:"Number of the last attempt; 0: none yet."`
	Version   int32      `json:"version" doc:"Version of the job's definition that the run was created with."`
	Reason    string     `json:"reason,omitempty" doc:"Why it did not run or succeed: a stable code." example:"overlap"`
	Status    int        `json:"status,omitempty" doc:"Status in the target's protocol." example:"503"`
	Message   string     `json:"message,omitempty" doc:"Result of the last attempt, or why it was deferred. For people."`
	Dead      bool       `json:"dead_letter" doc:"Whether it failed and waits for redrive or discard."`
	OwnKey    string     `json:"idempotency_key,omitempty"`
	Handler   string     `json:"handler,omitempty" doc:"Of a live run that workers pull: its handler."`
	Percent   *int16     `json:"percent,omitempty" doc:"Progress as its worker reported it."`
	Progress  string     `json:"progress,omitempty" doc:"Progress in words."`
	Result    rest.JSON  `json:"result,omitempty" doc:"What its worker reported with success."`
	Node      string     `json:"node,omitempty" doc:"Node of the last attempt, if its session is known."`
	Worker    string     `json:"worker,omitempty" doc:"Worker of the last attempt, if its session is known."`
	Session   string     `json:"session,omitempty" doc:"Session of that node or worker."`
	DueTo     *time.Time `json:"last_due_at,omitempty" doc:"Last of a range of skipped occurrences; due_at is the first."`
	Count     int64      `json:"count,omitempty" doc:"Size of the range. Absent: too many to count."`
}

// Descriptions implements rest.Described.
func (Run) Descriptions() map[string]string {
	return map[string]string{
		"id": "Id of the run. It is also the idempotency key that the target receives, unless the job sets " +
			"idempotency_key. It is the same for all attempts, retries and redrives.",
		"state": "pending: its time has not come. retrying: it had an attempt, and the time of the next one has not " +
			"come. due: its time has come, but it has not started. accepted: its target has accepted it and will report.",
		"idempotency_key": "Result of the job's idempotency_key, once it is known. Absent: the id is the key.",
	}
}

func wireRun(e job.Entry) Run {
	r := Run{
		ID: job.FormatRunID(e.Key), Job: job.FormatJobID(e.Job), JobName: e.JobName, Queue: e.Queue,
		State: RunState(e.Status), Origin: Origin(job.OriginNames[e.Origin]), DueAt: e.DueAt, RunAt: e.RunAt,
		StartedAt: rest.OptionalTime(e.BeganAt()), EndedAt: rest.OptionalTime(e.EndedAt),
		Attempt: e.Attempt, Version: e.Version, Reason: string(e.Reason), Status: e.Code, Message: e.Message,
		Dead: e.DeadLetter, OwnKey: e.OwnKey, DueTo: rest.OptionalTime(e.DueTo), Count: e.Count,
		Handler: e.Handler, Percent: e.Percent, Progress: e.Progress, Result: rest.JSON(e.Result),
	}
	r.Node, r.Worker = nodeOrWorker(e.Node, e.Worker)
	r.Session = optionalID(e.Session)
	return r
}

// nodeOrWorker returns the name of a session as that of a node or of a worker.
func nodeOrWorker(name string, isWorker bool) (node, worker string) {
	if isWorker {
		return "", name
	}
	return name, ""
}

// optionalID returns an empty string for the zero id, so that JSON leaves it out.
func optionalID(id uuid.UUID) string {
	if id == uuid.Nil {
		return ""
	}
	return id.String()
}

// Attempt is one attempt of a run.
type Attempt struct {
	Attempt   int16      `json:"attempt" doc:"Number of the attempt."`
	State     string     `json:"state" enum:"running,accepted,succeeded,failed,lost,cancelled,snoozed"`
	StartedAt *time.Time `json:"started_at,omitempty"`
	EndedAt   *time.Time `json:"ended_at,omitempty"`
	Status    int        `json:"status,omitempty"`
	Message   string     `json:"message,omitempty"`
	Node      string     `json:"node,omitempty"`
	Worker    string     `json:"worker,omitempty"`
	Session   string     `json:"session,omitempty"`
	Output    string     `json:"output,omitempty" doc:"End of its command's stdout and stderr, secrets redacted."`
}

// Descriptions implements rest.Described.
func (Attempt) Descriptions() map[string]string {
	return map[string]string{
		"state": "lost: its node or worker died, or its outcome was not reported in time. " +
			"snoozed: its worker postponed it.",
	}
}

// RunDetail is a run with all its attempts.
type RunDetail struct {
	Run
	TraceID  string    `json:"trace_id,omitempty" doc:"Its W3C trace: all attempts are in it. Absent for a range."`
	TraceURL string    `json:"trace_url,omitempty" doc:"Where people look at the trace, if tracing.url is set."`
	Payload  rest.JSON `json:"payload,omitempty"`
	Attempts []Attempt `json:"attempts" doc:"In order. Only the last 20 are kept."`
	Earlier  []Run     `json:"earlier,omitempty" doc:"Earlier ends, before retries or redrives, newest first."`
}

// Descriptions implements rest.Described.
func (RunDetail) Descriptions() map[string]string {
	return map[string]string{
		"payload": "What the target receives with the run, or has received. Absent: it has none.",
	}
}

// wireDetail returns a run from its entries in the ledger: the first is the newest, the others are how
// it ended before it was retried or redriven.
func wireDetail(entries []job.Entry, outputs []job.Output) RunDetail {
	d := RunDetail{Run: wireRun(entries[0]), Attempts: []Attempt{}}
	for i, e := range entries {
		if i > 0 {
			d.Earlier = append(d.Earlier, wireRun(e))
		}
		d.Attempts = append(d.Attempts, attemptsOf(e)...)
	}
	slices.SortStableFunc(d.Attempts, func(a, b Attempt) int { return int(a.Attempt) - int(b.Attempt) })
	// A run that was retried and then ended without another attempt has its last attempt in two entries.
	d.Attempts = slices.CompactFunc(d.Attempts, func(a, b Attempt) bool { return a.Attempt == b.Attempt })
	for _, o := range outputs {
		if i := slices.IndexFunc(d.Attempts, func(a Attempt) bool { return a.Attempt == o.Attempt }); i >= 0 {
			d.Attempts[i].Output = o.Text
		}
	}
	return d
}

// ArchivedRun returns a run that is only in the archive as the API would show it, from its entries, the newest first. The
// archive has neither payloads nor output.
func ArchivedRun(entries []job.Entry) RunDetail {
	d := wireDetail(entries, nil)
	if e := &entries[0]; e.DueTo.IsZero() {
		d.TraceID = trace.Of(e.Key, e.Trace).String()
	}
	return d
}

var outcomeNames = map[job.OutcomeKind]string{
	job.Succeeded: "succeeded", job.Failed: "failed", job.Accepted: "accepted", job.Lost: "lost",
	job.Cancelled: "cancelled", job.Snoozed: "snoozed",
}

// attemptsOf lists the attempts of one entry: those that ended before the last one, and the last one if
// it is not among them and has begun.
func attemptsOf(e job.Entry) (out []Attempt) {
	for _, a := range e.Attempts {
		node, worker := nodeOrWorker(a.Node, a.Worker)
		out = append(out, Attempt{
			Attempt: a.Number, State: outcomeNames[a.Outcome], StartedAt: rest.OptionalTime(a.StartedAt),
			EndedAt: rest.OptionalTime(a.EndedAt), Status: a.Code, Message: a.Message, Node: node, Worker: worker,
			Session: optionalID(a.Session),
		})
	}
	begun := e.Attempt > 0 && !e.StartedAt.IsZero()
	if !begun || len(out) > 0 && out[len(out)-1].Attempt == e.Attempt {
		return out
	}
	r := wireRun(e)
	last := Attempt{
		Attempt: e.Attempt, State: string(r.State), StartedAt: r.StartedAt, EndedAt: r.EndedAt, Status: e.Code,
		Message: e.Message, Node: r.Node, Worker: r.Worker, Session: r.Session,
	}
	switch e.Reason {
	case job.ReasonLost, job.ReasonUnknownOutcome:
		last.State = outcomeNames[job.Lost]
	}
	return append(out, last)
}
