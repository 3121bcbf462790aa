package job

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/problem"
)

// This file has the requests of users as the API passes them to the store.

// The errors that callers distinguish.
var (
	// ErrNotFound says that the object does not exist, or not in this namespace.
	ErrNotFound = errors.New("not found")
	// ErrConflict says that a name is taken, or that the object's version is not the expected one.
	ErrConflict = errors.New("conflict")
	// ErrInUse says that other transactions use what was to be removed. Retry later.
	ErrInUse = errors.New("in use")
)

// CreateParams is a job to create.
type CreateParams struct {
	Namespace  uuid.UUID
	ID         uuid.UUID // zero means a new one
	Definition Definition
	Actor      string
	Idempotent *IdempotentRequest // nil: each request creates a job
}

// MaxBulk is how many jobs one transaction creates.
const MaxBulk = 1000

// BulkParams are jobs to save together, at most MaxBulk.
type BulkParams struct {
	Namespace  uuid.UUID
	Jobs       []NewJob
	Replace    bool // jobs whose name is in use, instead of refusing them
	Actor      string
	Idempotent *IdempotentRequest
}

// NewJob is one job of a BulkParams.
type NewJob struct {
	ID         uuid.UUID // zero means a new one
	IfVersion  int32     // replace only this version of the job that exists; 0 means any
	Definition Definition
}

// BulkResult is the result for one of many jobs: the job, or why it was not saved.
type BulkResult struct {
	Job    Job
	Err    error
	Exists uuid.UUID // the job that has its name; nil: none
	Same   bool      // it was like this before
}

// UpdateParams is a new definition of a job.
type UpdateParams struct {
	Namespace  uuid.UUID
	ID         uuid.UUID
	IfVersion  int32     // the expected version; 0 means any
	Repeats    bool      // IfVersion does not matter if the job has the definition already: a reply may have been lost
	IfTag      string    // the expected tag; empty means any
	IfSince    time.Time // refuse if the job was changed later; zero means that does not matter
	Definition Definition
	Rollback   int32 // the version that has this definition; 0 means none
	Actor      string
}

// ChangeParams asks for a change of a job other than its definition: pause, resume, trigger, backfill, delete.
type ChangeParams struct {
	Namespace  uuid.UUID
	ID         uuid.UUID
	IfVersion  int32              // the expected version; 0 means any
	IfTag      string             // the expected tag; empty means any
	Actor      string             // empty means Belfry itself
	Until      time.Time          // for a pause, when Belfry ends it; zero means never
	At         time.Time          // for a trigger, when the run is due; zero means now
	IfIdle     bool               // for a trigger: only if no run of the job is due or in progress
	Trace      string             // for a trigger, the traceparent of the request; empty if there is none
	Idempotent *IdempotentRequest // for a trigger or a backfill; nil: each request takes effect
}

// Fits reports whether the job has the version and the tag that the request expects.
func (p ChangeParams) Fits(j Job) bool {
	return (p.IfVersion == 0 || p.IfVersion == j.Version) && (p.IfTag == "" || p.IfTag == j.Tag())
}

// MaxPause is how long a pause with an end may last.
const MaxPause = 10 * 366 * day

// CheckUntil checks the end of a pause. Zero means that it has none.
func CheckUntil(until, now time.Time) error {
	switch {
	case until.IsZero():
		return nil
	case !until.After(now):
		return problem.New("until", "it has passed", "use a later time, or leave it out to pause until a resume")
	case until.After(now.Add(time.Duration(MaxPause))):
		return problem.New("until", "it is more than 10 years from now", "leave it out to pause until a resume")
	}
	return nil
}

// MaxTriggerAhead is how far in the future a triggered run may be due.
const MaxTriggerAhead = 366 * day

// CheckTrigger checks when a triggered run is due.
func (p *ChangeParams) CheckTrigger(now time.Time) error {
	switch {
	case p.At.IsZero():
	case p.IfIdle:
		return problem.New("if_idle", "it is about now, and the run is due later", "leave out if_idle or at")
	case p.At.Before(now):
		return problem.New("at", "it has passed", "use a later time, or leave it out to run the job now")
	case p.At.After(now.Add(time.Duration(MaxTriggerAhead))):
		return problem.New("at", "it is more than 366 days from now", "use an earlier time, or a job with schedule.at")
	}
	return nil
}

// Tag identifies the current content of a job: its definition and its state. Pausing and resuming a job changes the
// tag but not the version.
func (j Job) Tag() string {
	return fmt.Sprintf("%d-%s%d", j.Version, strconv.FormatInt(j.UpdatedAt.UnixMicro(), 36), j.State)
}

// Change is the result of a ChangeParams.
type Change struct {
	Job     Job
	Now     time.Time // the database instant of the change
	Changed bool      // false if the job already was in the requested state
	Missed  int64     // for a resume, the occurrences during the pause, including those that run now
}
