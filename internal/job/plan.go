package job

import (
	"errors"
	"fmt"
	"time"

	"github.com/belfry-dev/belfry/internal/schedule"
)

// MissedGrace is how late planning may be before an occurrence counts as
// missed. Within it a run is merely late: a slow transaction, a takeover after
// kill -9 (session TTL 5 s and a second) or a restart must not turn one of
// "skip" into a skip.
const MissedGrace = 10 * time.Second

// The bounds of one call of Plan.
const (
	PlanLimit   = 100_000 // occurrences looked at
	PlanResults = 10_000  // due times returned, and ranges of skips
)

// PlanInput is one cursor at one instant.
type PlanInput struct {
	Schedule *schedule.Schedule // without start_at and end_at: those belong to jobs
	Missed   Missed             // with defaults
	NextDue  time.Time          // the first occurrence that is not planned yet
	Now      time.Time          // the database's instant of the transaction
	Until    time.Time          // Now and the look-ahead

	Limit   int // 0: PlanLimit
	Results int // 0: PlanResults
}

// PlanResult is what becomes of the occurrences from the old NextDue up to,
// not including, the new one: each is one of Due or counted in one of Skips.
type PlanResult struct {
	Due     []DueTime // in order
	Skips   []Skip    // in order
	NextDue time.Time // where to go on; zero if Ended
	Ended   bool      // no occurrence is left, fired or not
	More    bool      // a bound was reached: call again from NextDue
}

// DueTime is a time at which the jobs of a schedule get a run.
type DueTime struct {
	DueAt  time.Time
	RunAt  time.Time // never before DueAt
	Origin Origin
}

// Skip is a range of occurrences that do not run, for one reason. None that
// runs, or is skipped for another reason, lies between its ends.
type Skip struct {
	From, To time.Time // due times of the first and the last
	Count    int64
	Reason   Reason
}

// Plan says what becomes of the occurrences of a schedule, from in.NextDue to
// in.Until: which run, which are skipped and why, and where the cursor goes.
//
// Occurrences later than Now - MissedGrace run at their time. Of the earlier
// ones, which nobody could plan, the missed policy picks those that run now;
// all missed ones are dealt with, also if Until lies before them.
//
// Work is bounded. After a long outage a call returns with More, and the next
// goes on at NextDue, in the same or a later transaction. The runs that catch
// up are the exception: they all come in one call, because their number and
// pace count from the first of them, which a later call could not know.
func Plan(in PlanInput) (PlanResult, error) {
	if in.NextDue.IsZero() || in.Now.IsZero() {
		return PlanResult{}, errors.New("job: plan needs the next due time and the instant")
	}
	missedTo := in.Now.Add(-MissedGrace)
	c, err := newCatchUp(in.Missed, in.Missed.Policy, in.Now)
	if err != nil {
		return PlanResult{}, err
	}
	c.choose(in.Schedule, in.NextDue, missedTo)
	p := planner{
		schedule: in.Schedule, now: in.Now, catchUp: c,
		limit: orElse(in.Limit, PlanLimit), results: orElse(in.Results, PlanResults),
	}
	return p.plan(in.NextDue, later(in.Until, missedTo))
}

// planner walks occurrences and builds a PlanResult.
type planner struct {
	schedule *schedule.Schedule
	now      time.Time
	catchUp  catchUp

	limit, results int

	taken  int // occurrences
	caught int // of them, missed ones that run
	result PlanResult
}

// plan takes the occurrences in [from, to].
func (p *planner) plan(from, to time.Time) (PlanResult, error) {
	if from.After(to) {
		p.result.NextDue = from.UTC()
		return p.result, nil
	}
	var last time.Time
	for o := range occurrences(p.schedule, from.Add(-time.Nanosecond), to) {
		// Two may have one due time: that which a gap took away is due when the
		// gap ends, and there another may fire. NextDue cannot point between.
		if p.full() && !o.Due.Equal(last) {
			p.result.NextDue, p.result.More = o.Due.UTC(), true
			return p.result, nil
		}
		p.take(o)
		last = o.Due
	}
	next, err := FirstDue(p.schedule, to)
	switch {
	case errors.Is(err, schedule.ErrNoMore):
		p.result.Ended = true
	case err != nil:
		return PlanResult{}, err
	}
	p.result.NextDue = next
	return p.result, nil
}

// full says that a bound is reached, and that this is not amidst the runs that
// catch up.
func (p *planner) full() bool {
	if p.caught > 0 && p.caught < p.catchUp.runs {
		return false
	}
	return p.taken >= p.limit || len(p.result.Due) >= p.results || len(p.result.Skips) >= p.results
}

// take decides one occurrence.
func (p *planner) take(o schedule.Occurrence) {
	p.taken++
	due, c := o.Due.UTC(), &p.catchUp
	switch {
	case o.Skip != "":
		p.skip(due, Reason(o.Skip))
	case due.After(c.to):
		p.run(DueTime{DueAt: due, RunAt: due, Origin: FromSchedule})
	case c.runs > 0 && !due.Before(c.first):
		p.run(DueTime{DueAt: due, RunAt: p.now.Add(time.Duration(p.caught) * c.pace), Origin: FromMissed})
		p.caught++
	case due.Before(c.window):
		p.skip(due, c.tooOld)
	default:
		p.skip(due, c.tooMany)
	}
}

func (p *planner) run(d DueTime) { p.result.Due = append(p.result.Due, d) }

// skip counts a due time in the range before it, if nothing lies between.
func (p *planner) skip(due time.Time, why Reason) {
	if n := len(p.result.Skips); n > 0 {
		s := &p.result.Skips[n-1]
		d := p.result.Due
		if s.Reason == why && (len(d) == 0 || d[len(d)-1].DueAt.Before(s.From)) {
			s.To = due
			s.Count++
			return
		}
	}
	p.result.Skips = append(p.result.Skips, Skip{From: due, To: due, Count: 1, Reason: why})
}

// FirstDue is the first occurrence after an instant, also one that a gap or a
// calendar takes away, which has to be accounted for as well. It is where a new
// cursor starts: at the first occurrence after the job's creation. A job that
// joins a cursor which is ahead takes what the cursor has planned already from
// Plan: NextDue is FirstDue of now, and Until just before the cursor's.
//
// It returns schedule.ErrNoMore if there is none. A search that was given up
// (schedule.ErrTooFar) is not the end: what it gave up on are occurrences too.
func FirstDue(s *schedule.Schedule, after time.Time) (time.Time, error) {
	far, err := s.Next(after)
	if err != nil {
		if s.Spec().At != "" {
			return time.Time{}, err // its one occurrence fires; a search for skipped ones would be long
		}
		far = after.Add(schedule.Horizon)
	}
	for _, o := range s.Between(after, far, 1) {
		return o.Due.UTC(), nil
	}
	if err == nil {
		err = fmt.Errorf("job: %s: next is %s, but nothing lies between %s and that", s, far, after)
	}
	return time.Time{}, err
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
