package timeline

import (
	"slices"
	"time"

	"github.com/belfry-dev/belfry/internal/job"
)

// Stats are numbers about what a job did.
type Stats struct {
	Bucket                    // of the whole time that is covered
	Durations []time.Duration // of runs that succeeded or failed: their last attempt; sorted
	Lateness  []time.Duration // of runs that began by themselves; sorted

	StreakState State // of the newest runs that succeeded or failed; empty if there is none
	Streak      int64 // how many of the newest ended like that in a row

	LastSuccess, LastFailure time.Time // when they ended; zero if there is none
}

// Stats counts the items. spread is the jitter of an occurrence.
func (t *Timeline) Stats(spread func(due time.Time) time.Duration) Stats {
	s := Stats{Bucket: Bucket{From: t.From, To: t.To}}
	for i := range t.Items {
		item := &t.Items[i]
		s.count(item)
		if item.Entry != nil {
			s.add(item, spread(item.DueAt))
		}
	}
	slices.Sort(s.Durations)
	slices.Sort(s.Lateness)
	return s
}

// add adds a run. Runs come in the order of their due times.
func (s *Stats) add(i *Item, spread time.Duration) {
	e := i.Entry
	if late, ok := e.Lateness(spread); ok {
		s.Lateness = append(s.Lateness, late)
	}
	switch e.Status {
	case job.StatusSucceeded:
		s.LastSuccess = latest(s.LastSuccess, e.EndedAt)
	case job.StatusFailed:
		s.LastFailure = latest(s.LastFailure, e.EndedAt)
	default:
		return
	}
	if began := e.BeganAt(); !began.IsZero() {
		s.Durations = append(s.Durations, max(e.EndedAt.Sub(began), 0))
	}
	if s.StreakState != i.State {
		s.StreakState, s.Streak = i.State, 0
	}
	s.Streak++
}

// Runs is how many runs have ended by themselves or were cancelled.
func (s *Stats) Runs() int64 { return s.Succeeded + s.Failed + s.Cancelled }

// SuccessRate is the share of runs that succeeded among those that succeeded or failed. ok is false if there are none.
func (s *Stats) SuccessRate() (rate float64, ok bool) {
	n := s.Succeeded + s.Failed
	if n == 0 {
		return 0, false
	}
	return float64(s.Succeeded) / float64(n), true
}

// Percentile is the smallest of sorted values that p of 100 do not exceed.
func Percentile(sorted []time.Duration, p int) (time.Duration, bool) {
	if len(sorted) == 0 {
		return 0, false
	}
	return sorted[max((len(sorted)*p+99)/100, 1)-1], true
}
