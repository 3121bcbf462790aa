package job

import (
	"fmt"
	"time"

	"github.com/belfry-dev/belfry/internal/schedule"
)

// MissedInput is the runs of one cursor that were planned, did not start, and came due while no node served the
// partition.
type MissedInput struct {
	Schedule *schedule.Schedule // of the cursor
	Missed   Missed             // with defaults
	// No node served the partition from From until MissedGrace after Until.
	From, Until time.Time
	Now         time.Time // the database instant of the transaction
}

// CaughtUp is the decision about a missed run: it starts at RunAt, or is skipped for a reason.
type CaughtUp struct {
	RunAt  time.Time
	Reason Reason
}

// CatchUp decides about missed runs that were planned before no node served their partition, with the same choice that
// Plan makes about those that were not. The occurrences that Plan will choose count too: with once, none of the planned
// runs starts if the cursor has missed a later one.
func CatchUp(in MissedInput) (func(due []time.Time) []CaughtUp, error) {
	c, err := newCatchUp(in.Missed, in.Missed.Policy, in.Until.Add(MissedGrace))
	if err != nil {
		return nil, err
	}
	c.choose(in.Schedule, in.From, in.Until.Add(-time.Nanosecond))
	return func(due []time.Time) []CaughtUp {
		out := make([]CaughtUp, len(due))
		runAt := in.Now
		for i, d := range due {
			if !c.starts(d) {
				out[i].Reason = c.reason(d)
				continue
			}
			out[i].RunAt = runAt
			runAt = runAt.Add(c.pace)
		}
		return out
	}, nil
}

// catchUp says which missed occurrences run. All three policies are one rule: the newest max within the window run,
// where max is 0, 1 or missed.max.
type catchUp struct {
	window time.Time     // older ones do not run
	max    int           // how many may run
	pace   time.Duration // time between their starts

	to    time.Time // later ones are not missed
	first time.Time // this and the later ones run
	runs  int       // how many those are

	visited int // occurrences

	tooOld, tooMany Reason
}

// newCatchUp is the choice by a policy. The window counts back from the instant at which runs were possible again.
func newCatchUp(m Missed, policy MissedPolicy, served time.Time) (catchUp, error) {
	// Validate enforces these bounds too. The work of one call depends on them.
	window := min(m.CatchUpWindow, MaxCatchUpWindow)
	c := catchUp{window: served.Add(-time.Duration(window)), pace: time.Duration(m.Pace), tooOld: ReasonMissedWindow}
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
		c.newest(s, start, to)
		if c.runs == c.max || !start.After(oldest) {
			return
		}
	}
}

// starts returns whether a missed occurrence runs.
func (c *catchUp) starts(due time.Time) bool { return c.runs > 0 && !due.Before(c.first) }

// reason says why a missed occurrence does not run.
func (c *catchUp) reason(due time.Time) Reason {
	if due.Before(c.window) {
		return c.tooOld
	}
	return c.tooMany
}

// newest finds the max newest occurrences that fire in (from, to], or all if there are fewer.
func (c *catchUp) newest(s *schedule.Schedule, from, to time.Time) {
	n := c.max
	var fired []time.Time // the last n, and at most n more before them
	for o := range s.All(from, to) {
		c.visited++
		if o.Skip != "" {
			continue
		}
		if len(fired) == 2*n {
			fired = append(fired[:0], fired[n:]...)
		}
		fired = append(fired, o.Due)
	}
	fired = fired[max(0, len(fired)-n):]
	if c.runs = len(fired); c.runs > 0 {
		c.first = fired[0].UTC()
	}
}
