package job

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/problem"
)

// OperationKind is what an operation does.
type OperationKind string

// The kinds of operations: on dead letters, on jobs and on runs.
const (
	Redrive OperationKind = "redrive"
	Discard OperationKind = "discard"

	PauseJobs   OperationKind = "pause"
	ResumeJobs  OperationKind = "resume"
	TriggerJobs OperationKind = "trigger"
	DeleteJobs  OperationKind = "delete"
	RelabelJobs OperationKind = "relabel"
	SpreadJobs  OperationKind = "spread"
	UndoJobs    OperationKind = "undo" // of an operation that wrote versions

	CancelRuns OperationKind = "cancel"
	RetryRuns  OperationKind = "retry"
)

// OfDeadLetters reports whether the operation works on dead letters.
func (k OperationKind) OfDeadLetters() bool { return k == Redrive || k == Discard }

// OfRuns reports whether the operation works on runs.
func (k OperationKind) OfRuns() bool { return k == CancelRuns || k == RetryRuns }

// Redefines reports whether the operation gives jobs new versions, which an undo takes back.
func (k OperationKind) Redefines() bool { return k == RelabelJobs || k == SpreadJobs || k == UndoJobs }

// OperationState is the state of an operation.
type OperationState string

// The states of operations.
const (
	OperationRunning  OperationState = "running"
	OperationFinished OperationState = "finished"
	OperationAborted  OperationState = "aborted"
	OperationFailed   OperationState = "failed" // given up after repeated errors: see [AfterFailure]
)

// Operation is work on many dead letters, jobs or runs, which nodes do a few at a time.
type Operation struct {
	ID        uuid.UUID
	Kind      OperationKind
	Filter    DeadFilter      // of dead letters
	Set       OperationSet    // of jobs or runs
	Change    OperationChange // of jobs
	Rate      int             // per second
	State     OperationState
	Count     int64 // items that were selected when it began
	More      bool  // there were more than Count
	Done      int64
	Failed    int64  // items that could not be changed
	Problem   string // error of the last try to work on it; empty if it succeeded
	Actor     string
	CreatedAt time.Time
	EndedAt   time.Time // zero while it is running
}

// CheckUndo returns why the operation cannot be undone, if it cannot.
func (o *Operation) CheckUndo() error {
	switch {
	case !o.Kind.Redefines():
		return fmt.Errorf("%w: a %s cannot be undone, because it writes no versions of jobs", ErrConflict, o.Kind)
	case o.State == OperationRunning:
		return fmt.Errorf("%w: the operation is running; abort it first, or wait until it ends", ErrConflict)
	}
	return nil
}

// OperationSet says which jobs or runs an operation works on. Exactly one of Jobs, Runs, IDs and Undo
// is set.
type OperationSet struct {
	Jobs *Filter    `json:"jobs,omitempty"`
	Runs *RunFilter `json:"runs,omitempty"`
	IDs  []string   `json:"ids,omitempty"` // public ids of jobs or runs

	// Undo is the operation whose versions are taken back.
	Undo uuid.UUID `json:"undo,omitzero"`

	// Attempts are the last attempts of the runs that IDs names. A run with another one has run again, and is not
	// retried. Empty: any.
	Attempts []int16 `json:"attempts,omitempty"`
}

// Unique returns the set without ids that name the same item again.
func (s OperationSet) Unique(kind OperationKind) OperationSet {
	seen := map[string]bool{}
	out := s
	out.IDs, out.Attempts = nil, nil
	for i, name := range s.IDs {
		id := name
		if k, err := ParseRunID(id); err == nil && kind.OfRuns() {
			id = FormatRunID(k)
		} else if j, err := ParseJobID(id); err == nil {
			id = FormatJobID(j)
		}
		if seen[id] {
			continue
		}
		seen[id] = true
		out.IDs = append(out.IDs, name)
		if i < len(s.Attempts) {
			out.Attempts = append(out.Attempts, s.Attempts[i])
		}
	}
	return out
}

// RunFilter selects runs. A zero field selects all.
type RunFilter struct {
	Job         uuid.UUID   `json:"job,omitzero"`
	States      []RunStatus `json:"states,omitempty"`
	Reason      Reason      `json:"reason,omitempty"`
	Queue       string      `json:"queue,omitempty"`
	DueFrom     time.Time   `json:"due_from,omitzero"`
	DueBefore   time.Time   `json:"due_before,omitzero"`
	EndedFrom   time.Time   `json:"ended_from,omitzero"`
	EndedBefore time.Time   `json:"ended_before,omitzero"`
}

// Query returns a list of the runs that the filter selects.
func (f *RunFilter) Query(namespace uuid.UUID) RunQuery {
	return RunQuery{
		Namespace: namespace, Job: f.Job, States: f.States, Reason: f.Reason, Queue: f.Queue,
		DueFrom: f.DueFrom, DueBefore: f.DueBefore, EndedFrom: f.EndedFrom, EndedBefore: f.EndedBefore,
	}
}

// OperationChange says what an operation changes in each job.
type OperationChange struct {
	Note   string            `json:"note,omitempty"`
	Until  time.Time         `json:"until,omitzero"`   // of a pause
	Set    map[string]string `json:"set,omitempty"`    // labels
	Remove []string          `json:"remove,omitempty"` // keys of labels
	Jitter Duration          `json:"jitter,omitempty"` // of a spread; 0: H in place of minute 0
	// DueFrom and DueTo limit a spread to jobs with an occurrence from DueFrom on and before DueTo. Zero: all jobs.
	DueFrom time.Time `json:"due_from,omitzero"`
	DueTo   time.Time `json:"due_to,omitzero"`
}

// Apply returns the definition of a job as the operation, which began at an instant, changes it. It is for relabel and
// spread. changed is false if the definition stays as it is.
func (c *OperationChange) Apply(kind OperationKind, j *Job, began time.Time) (d Definition, changed bool) {
	d = j.Definition
	switch kind {
	case RelabelJobs:
		labels := maps.Clone(d.Labels)
		if labels == nil {
			labels = map[string]string{}
		}
		maps.Copy(labels, c.Set)
		for _, key := range c.Remove {
			delete(labels, key)
		}
		changed = !maps.Equal(labels, d.Labels)
		d.Labels = labels
	case SpreadJobs:
		d.Schedule, changed = c.spread(j, began)
	}
	return d, changed
}

// OperationParams is an operation to begin.
type OperationParams struct {
	Namespace  uuid.UUID
	Kind       OperationKind
	Filter     DeadFilter
	Set        OperationSet
	Change     OperationChange
	Rate       int
	Actor      string
	Idempotent *IdempotentRequest // nil: each request begins an operation
}

// The bounds of operations.
const (
	MaxOperationRate = 1000 // items per second
	MaxOperationIDs  = 500  // items that one names by their ids

	MaxRunningOperations = 20 // of a namespace
)

// Validate returns all problems at once: see [problem.All].
func (p *OperationParams) Validate() error {
	var c problem.Checker
	problem.OneOf(&c, "kind", p.Kind, Redrive, Discard, PauseJobs, ResumeJobs, TriggerJobs, DeleteJobs, RelabelJobs,
		SpreadJobs, UndoJobs, CancelRuns, RetryRuns)
	if p.Rate < 1 || p.Rate > MaxOperationRate {
		c.Add("rate", "it is not between 1 and 1000", "leave it out for 50 per second")
	}
	if len(p.Set.IDs) > MaxOperationIDs {
		c.Add("ids", "there are more than 500", "send a filter, or several requests")
	}
	if p.Kind == RelabelJobs {
		checkLabels(&c, p.Change.Set)
		if len(p.Change.Set) == 0 && len(p.Change.Remove) == 0 {
			c.Add("set", "no label is set or removed", "send set, remove, or both")
		}
	}
	if j := p.Change.Jitter; j < 0 || j > day {
		c.Add("jitter", "it is not between 0s and 24h", "use for example 5m, or leave it out for H in place of minute 0")
	}
	if p.Change.DueFrom.IsZero() != p.Change.DueTo.IsZero() {
		c.Add("due_to", "only one of due_from and due_to is set", "send both, or none")
	}
	if p.Set.Runs != nil && slices.ContainsFunc(p.Set.Runs.States, p.wrongState) {
		c.Add("filter.state", "runs in this state cannot be part of it",
			"cancel takes live runs: pending, retrying, due, running, accepted. retry takes ended ones")
	}
	return c.Err()
}

// wrongState reports whether no run in a state can be part of the operation.
func (p *OperationParams) wrongState(s RunStatus) bool { return s.Live() != (p.Kind == CancelRuns) }

// SetCount is how many items a set has.
type SetCount struct {
	Count int64
	More  bool    // there are more
	Jobs  []Job   // some of them
	Runs  []Entry // some of them
}

// OperationItem is an item that an operation could not change.
type OperationItem struct {
	Number int64
	Object string // public id of a job or a run
	Name   string // of the job
	Error  string
	At     time.Time
}

// The pause after an error doubles each time. An operation is given up after about six minutes of errors.
const (
	maxOperationFailures = 10
	firstOperationPause  = time.Second
	maxOperationPause    = time.Minute
)

// AfterFailure decides how an operation continues after a number of errors in a row: it waits, or is given up.
func AfterFailure(failures int) (wait time.Duration, giveUp bool) {
	if failures >= maxOperationFailures {
		return 0, true
	}
	return min(firstOperationPause<<max(failures-1, 0), maxOperationPause), false
}
