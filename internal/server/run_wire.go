package server

import (
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/server/rest"
)

// Run is an entry of the ledger: a live run, a run that ended, or a range of occurrences that did not
// run.
type Run struct {
	ID        string     `json:"id" doc:"Its id, which is also the idempotency key that its target gets, unless the job says otherwise: the same for all attempts, retries and redrives."`
	Job       string     `json:"job" doc:"The id of its job."`
	JobName   string     `json:"job_name,omitempty" doc:"Empty: the job is deleted."`
	Queue     string     `json:"queue"`
	State     string     `json:"state" enum:"pending,due,running,waiting,succeeded,failed,cancelled,skipped" doc:"pending: its time has not come. due: it has, and it has not started. waiting: its target accepted it and will report."`
	Origin    string     `json:"origin" enum:"schedule,trigger,backfill,missed,redrive" doc:"How it came to be. missed: by schedule, but caught up late."`
	DueAt     time.Time  `json:"due_at" doc:"Its nominal time, which never changes."`
	RunAt     time.Time  `json:"run_at" doc:"When it may start: jitter and the delay of a retry move it."`
	StartedAt *time.Time `json:"started_at,omitempty" doc:"Of the last attempt."`
	EndedAt   *time.Time `json:"ended_at,omitempty"`
	Attempt   int16      `json:"attempt" doc:"The number of the last attempt; 0: there was none."`
	Version   int32      `json:"version" doc:"Of the job's definition, when the run was made."`
	Reason    string     `json:"reason,omitempty" doc:"Why it was skipped or ended otherwise than by success: a code that never changes." example:"overlap"`
	Status    int        `json:"status,omitempty" doc:"Of the target's protocol." example:"503"`
	Message   string     `json:"message,omitempty" doc:"What the last attempt came to; of a run that was deferred, why: its target had no room for it. For people."`
	Dead      bool       `json:"dead_letter" doc:"It failed and waits for redrive or discard."`
	OwnKey    string     `json:"idempotency_key,omitempty" doc:"What the job's idempotency_key gave for it, once that is known. Left out: the key is the id."`
	Handler   string     `json:"handler,omitempty" doc:"Of a live run that workers pull: what they know it by."`
	Percent   *int16     `json:"percent,omitempty" doc:"How far the worker says that it has come."`
	Progress  string     `json:"progress,omitempty" doc:"The same in words."`
	Result    rest.JSON  `json:"result,omitempty" doc:"What its worker reported with success."`
	Node      string     `json:"node,omitempty" doc:"The name of the node or worker that made the last attempt, if its session is still known."`
	Session   string     `json:"session,omitempty" doc:"The session of the node that made the last attempt."`
	DueTo     *time.Time `json:"due_to,omitempty" doc:"Of a range of skipped occurrences: the last. due_at is the first."`
	Count     int64      `json:"count,omitempty" doc:"Of a range: how many. Left out where they were too many to count."`
}

var originNames = map[job.Origin]string{
	job.FromSchedule: "schedule", job.FromTrigger: "trigger", job.FromBackfill: "backfill", job.FromMissed: "missed",
	job.FromRedrive: "redrive",
}

func wireRun(e job.Entry) Run {
	r := Run{
		ID: job.FormatRunID(e.Key), Job: job.FormatJobID(e.Job), JobName: e.JobName, Queue: e.Queue,
		State: string(e.Status), Origin: originNames[e.Origin], DueAt: e.DueAt, RunAt: e.RunAt,
		StartedAt: rest.OptionalTime(e.BeganAt()), EndedAt: rest.OptionalTime(e.EndedAt),
		Attempt: e.Attempt, Version: e.Version, Reason: string(e.Reason), Status: e.Code, Message: e.Message,
		Dead: e.DeadLetter, OwnKey: e.OwnKey, Node: e.Node, DueTo: rest.OptionalTime(e.DueTo), Count: e.Count,
		Handler: e.Handler, Percent: e.Percent, Progress: e.Progress, Result: rest.JSON(e.Result),
	}
	if e.Session != uuid.Nil {
		r.Session = e.Session.String()
	}
	return r
}

// Attempt is one attempt of a run.
type Attempt struct {
	Attempt   int16      `json:"attempt" doc:"Its number."`
	State     string     `json:"state" enum:"running,waiting,succeeded,failed,lost,cancelled,snoozed" doc:"lost: its node or worker died, or its outcome was not reported in time. snoozed: its worker put it off."`
	StartedAt *time.Time `json:"started_at,omitempty" doc:"Known of the last one of each life."`
	EndedAt   *time.Time `json:"ended_at,omitempty"`
	Status    int        `json:"status,omitempty"`
	Message   string     `json:"message,omitempty"`
	Node      string     `json:"node,omitempty"`
	Session   string     `json:"session,omitempty"`
	Output    string     `json:"output,omitempty" doc:"The end of what its command wrote to stdout and stderr, with secrets blotted out."`
}

// RunDetail is a run with all its attempts.
type RunDetail struct {
	Run
	Attempts []Attempt `json:"attempts" doc:"In order. Of a run with many retries the last 20 are kept."`
	Earlier  []Run     `json:"earlier,omitempty" doc:"How it had ended before it was retried or redriven, the newest first."`
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

var outcomeNames = map[job.OutcomeKind]string{
	job.Succeeded: "succeeded", job.Failed: "failed", job.Accepted: "waiting", job.Lost: "lost",
	job.Cancelled: "cancelled", job.Snoozed: "snoozed",
}

// attemptsOf lists the attempts of one entry: those that ended before the last one, and the last one if
// it is not among them and has begun.
func attemptsOf(e job.Entry) (out []Attempt) {
	for _, a := range e.Attempts {
		out = append(out, Attempt{
			Attempt: a.Number, State: outcomeNames[a.Outcome], EndedAt: rest.OptionalTime(a.EndedAt), Status: a.Code,
			Message: a.Message,
		})
	}
	begun := e.Attempt > 0 && !e.StartedAt.IsZero()
	if !begun || len(out) > 0 && out[len(out)-1].Attempt == e.Attempt {
		return out
	}
	r := wireRun(e)
	last := Attempt{
		Attempt: e.Attempt, State: r.State, StartedAt: r.StartedAt, EndedAt: r.EndedAt, Status: e.Code,
		Message: e.Message, Node: r.Node, Session: r.Session,
	}
	switch e.Reason {
	case job.ReasonLost, job.ReasonUnknownOutcome:
		last.State = outcomeNames[job.Lost]
	}
	return append(out, last)
}
