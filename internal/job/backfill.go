package job

import (
	"fmt"
	"time"

	"github.com/belfry-dev/belfry/internal/problem"
	"github.com/belfry-dev/belfry/internal/schedule"
)

// MaxLive bounds the runs of a job that have not ended, for those who want more of them: a trigger, a backfill or a retry.
// A job whose runs may not overlap has at most MaxLiveAlone, because a claim of one of them reads all; that is more than
// its own schedule lets wait. A backfill leaves some to others, who may want a run now. The schedule is not bound by
// any of them: no occurrence is lost.
const (
	MaxLive       = 20_000
	MaxLiveAlone  = 5_000
	LeaveToOthers = 1_000
)

// MaxNamespaceRuns bounds the runs of a namespace that have not ended, so that it does not fill the database. A namespace
// with as many gets no more: users may not add any, and its schedules are not planned.
const MaxNamespaceRuns = 5_000_000

// TooManyLiveRuns says that a namespace has MaxNamespaceRuns.
var TooManyLiveRuns = fmt.Sprintf("the namespace has about %d runs that have not ended, which is the most", MaxNamespaceRuns)

// The bounds of a backfill.
const (
	MaxBackfill = 10_000
	// maxExamined bounds the occurrences that one call examines: a job that runs each second has 86,400 per day.
	maxExamined = 100_000
)

// BackfillParams asks for runs of a job's schedule in a past range.
type BackfillParams struct {
	ChangeParams
	From, To time.Time // due times from From, before To
	Pace     Duration  // time between the starts of two runs
	Max      int       // maximum number of runs; the oldest are taken
	Again    bool      // include occurrences that already have a run
	DryRun   bool      // count runs without creating them
}

// BackfillResult is the result of a backfill.
type BackfillResult struct {
	Runs         int       // created, or with DryRun to be created
	Known        int       // left out because they already have a run
	First        time.Time // due time of the first run; zero if there is none
	Last         time.Time // due time of the last run
	ContinueFrom time.Time // where the rest of the range begins; zero if nothing is left
}

// Validate returns all problems at once: see [problem.All].
func (p *BackfillParams) Validate(now time.Time) error {
	var c problem.Checker
	if !p.From.Before(p.To) {
		c.Add("to", "it is not after from", "swap or move them")
	}
	if p.To.After(now) {
		c.Add("to", "it is not past", "runs to come are made by the schedule; use a time that has passed")
	}
	problem.Between(&c, "pace", p.Pace, [2]Duration{0, MaxPace})
	problem.Between(&c, "max", int32(p.Max), [2]int32{1, MaxBackfill})
	return c.Err()
}

// KnownRuns returns those due times in [from, to] that already have a run, live or in history.
type KnownRuns func(from, to time.Time) (map[time.Time]bool, error)

// Backfill decides which due times of a schedule get a run.
func Backfill(s *schedule.Schedule, p *BackfillParams, known KnownRuns) ([]time.Time, BackfillResult, error) {
	const step = 10_000
	var due []time.Time
	var out BackfillResult
	after, last := p.From.Add(-time.Nanosecond), p.To.Add(-time.Nanosecond)
	for examined := 0; examined < maxExamined; examined += step {
		found := s.Between(after, last, step)
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
			case have[at] && !p.Again:
				out.Known++
			case len(due) == p.Max:
				out.ContinueFrom = at
				return due, out, nil
			default:
				due = append(due, at)
				out.Runs, out.First, out.Last = len(due), due[0], at
			}
		}
		if len(found) < step {
			return due, out, nil
		}
		after = end
	}
	out.ContinueFrom = after.Add(time.Microsecond)
	return due, out, nil
}
