package ledger

import (
	"slices"
	"time"

	"github.com/belfry-dev/belfry/internal/job"
)

// Ranges finds the range of skipped occurrences that covers a due time. The times must be asked for in order.
type Ranges struct {
	all    []job.Skip // by their beginning
	next   int
	active []job.Skip
}

// NewRanges returns the ranges for another walk over due times.
func NewRanges(all []job.Skip) Ranges {
	byFrom := func(a, b job.Skip) int { return a.From.Compare(b.From) }
	if !slices.IsSortedFunc(all, byFrom) {
		all = slices.Clone(all)
		slices.SortStableFunc(all, byFrom)
	}
	return Ranges{all: all}
}

// Add adds a range that begins no earlier than those before.
func (r *Ranges) Add(s job.Skip) { r.all = append(r.all, s) }

// Cover returns the first range that covers a due time; zero: none does.
func (r *Ranges) Cover(due time.Time) job.Skip {
	for ; r.next < len(r.all) && !r.all[r.next].From.After(due); r.next++ {
		r.active = append(r.active, r.all[r.next])
	}
	r.active = slices.DeleteFunc(r.active, func(s job.Skip) bool { return s.To.Before(due) })
	if len(r.active) == 0 {
		return job.Skip{}
	}
	return r.active[0]
}
