package job

import (
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/schedule"
)

// Label is a label that listed jobs must have.
type Label struct{ Key, Value string }

// ListParams says which jobs of a namespace to list. A zero field selects all.
type ListParams struct {
	Namespace uuid.UUID
	Labels    []Label // all of them
	State     State
	Name      string // a substring, in any case
	Target    string // kind of the target
	Queue     string
	// Due, if set, lists the active jobs whose first occurrence that is not planned yet is in a range of time, by that
	// time. It goes with no other field that selects jobs. Otherwise the list has all jobs, by id, which is the order of
	// creation.
	Due   *DueRange
	After ListMark // where the previous page ended
	Limit int
}

// DueRange is the time from From and before Before. Zero means no bound.
type DueRange struct{ From, Before time.Time }

// ListMark is a position in a list.
type ListMark struct {
	ID uuid.UUID
	// Scan says that too many jobs match the substring of a name for an index search, so the list scans all jobs.
	Scan bool

	// These, and then ID, order a list by due time. Cursor is 0 for jobs that are due by their start and not by a cursor.
	Due       time.Time
	Partition int16
	Cursor    int64
}

// ErrSlowList says that a list took too long and was given up.
var ErrSlowList = errors.New("the list took too long")

// ListPage is a page of a list. It may be short or empty even if there is more, because the work for one page is
// bounded.
type ListPage struct {
	Jobs []Job
	Next *ListMark // nil after the last page
}

// NextDueInput is what is known about the next occurrence of a job.
type NextDueInput struct {
	State    State
	Pending  *time.Time // the first planned run by schedule that has not started; nil if there is none
	Later    *time.Time // the first run that was triggered for later; nil if there is none
	Cursor   *time.Time // the first occurrence that is not planned; nil if none is left
	PlanFrom time.Time  // the job has no earlier occurrences
	Schedule *schedule.Schedule
}

// NextDue is when a job is due next, zero for never. A planned run comes first. Without one it is the first occurrence
// that fires, or an earlier run that was triggered for later. It lies in the past if the job is late.
func NextDue(in NextDueInput) time.Time {
	next := in.nextOccurrence()
	if in.Later != nil && (next.IsZero() || in.Later.Before(next)) {
		return in.Later.UTC()
	}
	return next
}

func (in *NextDueInput) nextOccurrence() time.Time {
	if in.Pending != nil {
		return in.Pending.UTC()
	}
	if in.State != Active || in.Cursor == nil {
		return time.Time{}
	}
	next, err := in.Schedule.Next(later(*in.Cursor, in.PlanFrom).Add(-time.Nanosecond))
	if err != nil {
		return time.Time{} // none, or none was found
	}
	return next.UTC()
}

// The bounds of what is read about labels.
const (
	MaxLabelKeys   = 100   // keys of a namespace
	MaxKeyValues   = 20    // values that are counted for each key
	MaxLabelValues = 200   // values of one key
	MaxLabelJobs   = 1_000 // jobs that are counted for each key or value
)

// LabelKey is a key of labels.
type LabelKey struct {
	Key        string
	Values     int64 // how many different values it has
	MoreValues bool  // there are more than Values
	Jobs       int64 // how many jobs have it
	MoreJobs   bool  // there are more than Jobs
}

// LabelValue is a value of a label.
type LabelValue struct {
	Value    string
	Jobs     int64 // how many jobs have it
	MoreJobs bool  // there are more than Jobs
}
