package job

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/schedule"
)

// Label is one that a list asks for.
type Label struct{ Key, Value string }

// ListParams says which jobs of a namespace to list. What is zero does not matter.
type ListParams struct {
	Namespace uuid.UUID
	Labels    []Label // all of them
	State     State
	Name      string // a part of it, in any case
	Target    string // its kind
	Queue     string
	// Due, if set, lists the jobs that are due in a stretch of time, in that
	// order; otherwise all, in the order of their ids, which is that of creation.
	Due   *DueRange
	After ListMark // where the page before ended
	Limit int
}

// DueRange is a stretch of time: from, and before. Zero: no bound.
type DueRange struct{ From, Before time.Time }

// Has says whether a time lies in it.
func (r DueRange) Has(t time.Time) bool {
	return (r.From.IsZero() || !t.Before(r.From)) && (r.Before.IsZero() || t.Before(r.Before))
}

// ListMark is a place in a list.
type ListMark struct {
	ID uuid.UUID
	// Scan, in a list with a part of a name: too many jobs have it for a search, so
	// it goes on through all jobs.
	Scan bool

	// Of a list by due time, whose order is due time, partition, cursor, id. The
	// cursor is that of jobs found by it, and 0 for those found by a planned run or
	// their start.
	Due       time.Time
	Partition int16
	Cursor    int64
}

// Compare tells the order of two places in a list by due time.
func (m ListMark) Compare(other ListMark) int {
	return cmp.Or(m.Due.Compare(other.Due), cmp.Compare(m.Partition, other.Partition), cmp.Compare(m.Cursor, other.Cursor), slices.Compare(m.ID[:], other.ID[:]))
}

// ErrSlowList says that a list was given up.
var ErrSlowList = errors.New("the list took too long")

// ListPage is a part of a list. It may be short, or empty, and not be the last:
// the work for a page is bounded.
type ListPage struct {
	Jobs []Job
	Next *ListMark // nil: it was the last
	// Partial: so many runs are planned just now that jobs due within the
	// look-ahead may be missing.
	Partial bool
}

// NextDueInput is what is known about the next occurrence of a job.
type NextDueInput struct {
	State    State
	Pending  *time.Time // the first run by schedule that is planned and not started; nil: none
	Cursor   *time.Time // the first occurrence that is not planned; nil: none is left
	PlanFrom time.Time  // earlier ones are none of the job's
	Schedule *schedule.Schedule
}

// NextDue is when a job is due next; zero: never. What is planned comes before
// what is not; of the latter it is the first that no calendar and no change of the
// clock takes away. It lies in the past if the job is late.
func NextDue(in NextDueInput) time.Time {
	if in.Pending != nil {
		return in.Pending.UTC()
	}
	if in.State != Active || in.Cursor == nil {
		return time.Time{}
	}
	next, err := in.Schedule.Next(later(*in.Cursor, in.PlanFrom).Add(-time.Nanosecond))
	if err != nil {
		return time.Time{} // none, or none that could be found
	}
	return next.UTC()
}
