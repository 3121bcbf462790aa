package job

import (
	"fmt"
	"iter"
	"time"

	"github.com/belfry-dev/belfry/internal/schedule"
)

// catchUp is which of the missed occurrences run. All three policies are one
// rule: the newest n within the window run; n is 0, 1 or max.
type catchUp struct {
	window time.Time     // older ones do not run
	max    int           // how many may run
	pace   time.Duration // between them

	to    time.Time // later ones are not missed
	first time.Time // this and the later ones run
	runs  int       // how many those are

	tooOld, tooMany Reason
}

func newCatchUp(m Missed, policy MissedPolicy, now time.Time) (catchUp, error) {
	// Validate keeps both within these; the work of a call depends on it.
	window := min(m.CatchUpWindow, MaxCatchUpWindow)
	c := catchUp{window: now.Add(-time.Duration(window)), pace: time.Duration(m.Pace), tooOld: ReasonMissedWindow}
	switch policy {
	case MissedSkip:
		c.tooOld, c.tooMany = ReasonMissed, ReasonMissed
	case MissedOnce:
		c.max, c.tooMany = 1, ReasonMissed
	case MissedAll:
		c.max, c.tooMany = int(min(m.Max, MaxMissed)), ReasonMissedMax
	default:
		// A newer node may have written it: leave the cursor to that one.
		return c, fmt.Errorf("job: unknown missed policy %q", policy)
	}
	return c, nil
}

// choose finds the missed occurrences in [from, to] that run.
//
// It searches backwards in growing steps: after a year of outage the newest
// hundred are found without a look at the other millions. That also makes the
// choice the same in whichever chunk of a long walk it is made.
func (c *catchUp) choose(s *schedule.Schedule, from, to time.Time) {
	c.to = to
	oldest := later(from, c.window).Add(-time.Nanosecond)
	if c.max <= 0 || !oldest.Before(to) {
		return
	}
	// Occurrences are at least a second apart.
	for back := time.Duration(c.max) * time.Second; ; back *= 4 {
		start := later(oldest, to.Add(-back))
		c.first, c.runs = newest(s, start, to, c.max)
		if c.runs == c.max || !start.After(oldest) {
			return
		}
	}
}

// newest returns the n-th newest occurrence that fires in (from, to], or the
// oldest if there are fewer, and how many there are from it on.
func newest(s *schedule.Schedule, from, to time.Time, n int) (time.Time, int) {
	var fired []time.Time // the last n, and at most n more before them
	for o := range occurrences(s, from, to) {
		if o.Skip != "" {
			continue
		}
		if len(fired) == 2*n {
			fired = append(fired[:0], fired[n:]...)
		}
		fired = append(fired, o.Due)
	}
	fired = fired[max(0, len(fired)-n):]
	if len(fired) == 0 {
		return time.Time{}, 0
	}
	return fired[0].UTC(), len(fired)
}

// page is how many occurrences are asked for at once.
const page = 512

// occurrences walks those in (from, to], page by page.
func occurrences(s *schedule.Schedule, from, to time.Time) iter.Seq[schedule.Occurrence] {
	return func(yield func(schedule.Occurrence) bool) {
		for {
			list := s.Between(from, to, page)
			full := len(list) == page
			if full {
				// Another may have the last one's due time: leave that to the next page.
				last := list[page-1].Due
				for list[len(list)-1].Due.Equal(last) {
					list = list[:len(list)-1]
				}
				from = last.Add(-time.Nanosecond)
			}
			for _, o := range list {
				if !yield(o) {
					return
				}
			}
			if !full {
				return
			}
		}
	}
}

// Around returns the occurrences that fire next to an instant: the last one
// before it and the first one after. Zero: there is none.
func Around(s *schedule.Schedule, at time.Time) (before, after time.Time) {
	if next, err := s.Next(at); err == nil {
		after = next.UTC()
	}
	for back := time.Minute; ; back *= 4 {
		from := later(at.Add(-back), beforeAll)
		if t, n := newest(s, from, at.Add(-time.Nanosecond), 1); n == 1 {
			return t, after
		}
		if !from.After(beforeAll) || back > schedule.Horizon {
			return time.Time{}, after
		}
	}
}
