package job

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"
)

// What users ask for, as the store and the API hand it to each other.

// The errors that callers tell apart.
var (
	// ErrNotFound says that there is no such thing, or not in this namespace.
	ErrNotFound = errors.New("not found")
	// ErrConflict says that a name is taken, or that a version is not the one named.
	ErrConflict = errors.New("conflict")
)

// CreateParams is a job to be made.
type CreateParams struct {
	Namespace  uuid.UUID
	ID         uuid.UUID // zero: a new one
	Definition Definition
	Actor      string
	Idempotent *IdempotentRequest // nil: as often as it is asked for
}

// UpdateParams is a new definition of a job.
type UpdateParams struct {
	Namespace  uuid.UUID
	ID         uuid.UUID
	IfVersion  int32  // only if this is the job's version; 0: any
	IfTag      string // only if this is the job's tag; empty: any
	Definition Definition
	Actor      string
}

// ChangeParams is what somebody asks of a job.
type ChangeParams struct {
	Namespace  uuid.UUID
	ID         uuid.UUID
	IfVersion  int32              // only if this is the job's version; 0: any
	IfTag      string             // only if this is the job's tag; empty: any
	Actor      string             // empty: Belfry itself
	Trace      string             // of a trigger: the traceparent of who asks; empty: none
	Idempotent *IdempotentRequest // of a trigger or a backfill; nil: as often as it is asked for
}

// Fits says whether the job is still the one that the order was made for.
func (o ChangeParams) Fits(j Job) bool {
	return (o.IfVersion == 0 || o.IfVersion == j.Version) && (o.IfTag == "" || o.IfTag == j.Tag())
}

// Tag names what a job is at one time: its definition and whether it is paused. A
// job that was paused and resumed has another one than before, though the same version.
func (j Job) Tag() string {
	return fmt.Sprintf("%d-%s%d", j.Version, strconv.FormatInt(j.UpdatedAt.UnixMicro(), 36), j.State)
}

// Change is what a change of a job came to.
type Change struct {
	Job     Job
	Now     time.Time // the instant that it was decided by
	Changed bool      // false: it was so already
	Missed  int64     // of a resume: occurrences of the pause, those that run now among them
}
