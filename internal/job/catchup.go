package job

import (
	"fmt"
	"time"

	"github.com/belfry-dev/belfry/internal/schedule"
)

// catchUp says which missed occurrences run. All three policies are one rule: the newest max within the window run,
// where max is 0, 1 or missed.max.
type catchUp struct {
	window time.Time     // older ones do not run
	max    int           // how many may run
	pace   time.Duration // time between their starts

	to    time.Time // later ones are not missed
	first time.Time // this and the later ones run
	runs  int       // how many those are

	tooOld, tooMany Reason
}

func newCatchUp(m Missed, policy MissedPolicy, now time.Time) (catchUp, error) {
	// Validate enforces these bounds too. The work of one call depends on them.
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
		// A newer version may have written it: leave the cursor to a node of that version.
		return c, fmt.Errorf("job: unknown missed policy %q", policy)
	}
	return c, nil
}

// choose finds the missed occurrences in [from, to] that run.
//
// It searches backwards in growing steps, so that after a year of outage it finds the newest hundred without visiting
// the millions before them. The choice is also the same in every part of a long walk.
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

// newest returns the n-th newest occurrence that fires in (from, to], or the oldest if there are fewer, and how many
// there are from it on.
func newest(s *schedule.Schedule, from, to time.Time, n int) (time.Time, int) {
	var fired []time.Time // the last n, and at most n more before them
	for o := range s.All(from, to) {
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
