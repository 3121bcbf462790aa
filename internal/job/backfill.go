package job

import (
	"errors"
	"time"

	"github.com/belfry-dev/belfry/internal/schedule"
)

// The bounds of a backfill.
const (
	MaxBackfill = 10_000
	// maxLookedAt bounds the occurrences that one call looks at: a job of every
	// second has 86,400 in a day.
	maxLookedAt = 100_000
)

// BackfillParams asks for runs of a job's schedule in a range that has passed.
type BackfillParams struct {
	ChangeParams
	From, To time.Time // due times from, and before
	Pace     Duration  // the distance at which they start
	Max      int       // at most so many runs, the oldest
	Again    bool      // also what has run, or is to run
	DryRun   bool      // count, and make none
}

// Backfilled is what a backfill came to.
type Backfilled struct {
	Runs  int       // made, or with DryRun to be made
	Known int       // left out because they have run, or are to run
	First time.Time // due time of the first; zero: none
	Last  time.Time // due time of the last
	GoOn  time.Time // the rest of the range begins here; zero: there is none
}

// Validate returns every problem of an order at once: see [Problems].
func (o *BackfillParams) Validate(now time.Time) error {
	var c Checker
	if !o.From.Before(o.To) {
		c.Add("to", "it is not after from", "swap or move them")
	}
	if o.To.After(now) {
		c.Add("to", "it is not past", "runs to come are made by the schedule; use a time that has passed")
	}
	between(&c, "pace", o.Pace, [2]Duration{0, MaxPace})
	between(&c, "max", int32(o.Max), [2]int32{1, MaxBackfill})
	return errors.Join(c...)
}

// Backfill decides which due times of a schedule get a run. known tells, for due
// times of a stretch, those that have run or are to run.
func Backfill(s *schedule.Schedule, o *BackfillParams, known func(from, to time.Time) (map[time.Time]bool, error)) (due []time.Time, out Backfilled, err error) {
	const stretch = 10_000
	after, last := o.From.Add(-time.Nanosecond), o.To.Add(-time.Nanosecond)
	for looked := 0; looked < maxLookedAt; looked += stretch {
		found := s.Between(after, last, stretch)
		if len(found) == 0 {
			return due, out, nil
		}
		end := found[len(found)-1].Due.UTC()
		have, err := known(found[0].Due.UTC(), end)
		if err != nil {
			return nil, out, err
		}
		for _, x := range found {
			at := x.Due.UTC()
			switch {
			case x.Skip != "":
			case have[at] && !o.Again:
				out.Known++
			case len(due) == o.Max:
				out.GoOn = at
				return due, out, nil
			default:
				due = append(due, at)
				out.Runs, out.Last = len(due), at
				out.First = due[0]
			}
		}
		if len(found) < stretch {
			return due, out, nil
		}
		after = end
	}
	out.GoOn = after.Add(time.Microsecond)
	return due, out, nil
}
