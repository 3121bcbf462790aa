package job

import (
	"errors"
	"fmt"
	"time"

	"github.com/belfry-dev/belfry/internal/schedule"
)

// MissedGrace is how long no node may serve a partition before what came due meanwhile counts as missed. Within it a run
// is merely late: with policy skip, a restart or a takeover (session TTL 5 s plus a second) must not cause a skip.
const MissedGrace = 10 * time.Second

// The bounds of one call of Plan.
const (
	PlanLimit   = 100_000 // occurrences visited
	PlanResults = 10_000  // due times returned, and ranges of skips
)

// PlanRuns is how many runs one transaction writes. A due time may have more: see PlanInput.Begun.
const PlanRuns = 10_000

// PlanInput is one cursor at one instant.
type PlanInput struct {
	Schedule *schedule.Schedule // without start_at and end_at: those belong to jobs
	Missed   Missed             // with defaults
	NextDue  time.Time          // the first occurrence that is not planned yet
	Now      time.Time          // the database instant of the transaction
	Until    time.Time          // Now plus the look-ahead
	// MissedUntil: occurrences before it were missed. It is MissedGrace before the instant at which a node began to
	// serve the partition again. Zero: none was missed.
	MissedUntil time.Time
	// RestoredUntil: the database was restored and has forgotten what happened before. Occurrences before it may have
	// been delivered, so they are skipped until an operator accepts the restore. Zero: it was not restored.
	RestoredUntil time.Time
	// PacedTo is when the next caught-up run may start, because others start before it. Zero: there are none.
	PacedTo time.Time
	// Begun is the origin of the runs of NextDue that some jobs have already, because all of them were too many for one
	// transaction. The other jobs get the same, whatever happened since. Nil: no job has one.
	Begun *Origin

	Limit   int // occurrences visited; 0 means PlanLimit
	Results int // due times returned; 0 means PlanResults
}

// PlanResult accounts for every occurrence from the old NextDue up to the new one: each is in Due or counted in Skips.
type PlanResult struct {
	Due     []DueTime // in order
	Skips   []Skip    // in order
	NextDue time.Time // where to continue; zero if Ended
	PacedTo time.Time // when the next caught-up run may start; zero if none is left
	Ended   bool      // no occurrence is left
	More    bool      // a bound was reached: call again from NextDue
	Visited int       // occurrences, including those visited to choose the ones that run
}

// DueTime is a time at which the jobs of a schedule get a run.
type DueTime struct {
	DueAt  time.Time
	RunAt  time.Time // never before DueAt
	Origin Origin
}

// Skip is a range of occurrences that do not run, all for one reason. No other occurrence lies between its ends.
type Skip struct {
	From, To time.Time // due times of the first and the last
	Count    int64
	Reason   Reason
	Problem  string // of a range that is read: why the schedule could not be planned; empty: it could
}

// Plan decides what happens to the occurrences of a schedule from in.NextDue to in.Until: which run, which are skipped
// and why, and where the cursor goes.
//
// Occurrences from MissedUntil on run at their time, however late they are planned. Earlier ones were missed, and the
// missed policy picks those that run now. Plan handles all missed ones, even if they lie after Until. None before
// RestoredUntil runs.
//
// Work is bounded. After a long outage a call returns with More, and the next call continues at NextDue and PacedTo, in
// the same or a later transaction.
func Plan(in PlanInput) (PlanResult, error) {
	if in.NextDue.IsZero() || in.Now.IsZero() {
		return PlanResult{}, errors.New("job: plan needs the next due time and the instant")
	}
	c, err := newCatchUp(in.Missed, in.Missed.Policy, in.MissedUntil.Add(MissedGrace))
	if err != nil {
		return PlanResult{}, err
	}
	missedTo := in.MissedUntil.Add(-time.Nanosecond)
	p := planner{
		schedule: in.Schedule, pacedTo: later(in.Now, in.PacedTo), restored: in.RestoredUntil,
		limit: orElse(in.Limit, PlanLimit), results: orElse(in.Results, PlanResults),
	}
	c.choose(in.Schedule, in.NextDue, missedTo)
	p.catchUp = c
	to := later(in.Until, missedTo)
	if in.Begun != nil {
		p.begun, p.origin = in.NextDue, *in.Begun
		to = later(to, in.NextDue)
	}
	return p.plan(in.NextDue, to)
}

// planner walks occurrences and builds a PlanResult.
type planner struct {
	schedule *schedule.Schedule
	catchUp  catchUp
	pacedTo  time.Time // when the next caught-up run may start
	restored time.Time // earlier ones do not run

	begun  time.Time // the due time that some jobs have a run of already; zero: none
	origin Origin    // of those runs

	limit, results int
	result         PlanResult
}

// plan visits the occurrences in [from, to].
func (p *planner) plan(from, to time.Time) (PlanResult, error) {
	p.result.Visited = p.catchUp.visited
	p.limit += p.catchUp.visited // each call gets further
	if from.After(to) {
		p.result.NextDue = from.UTC()
		return p.result, nil
	}
	var last time.Time
	for o := range p.schedule.All(from.Add(-time.Nanosecond), to) {
		// Two occurrences may share a due time: one that a DST gap removed is due at the end of the gap, where another
		// may fire. NextDue cannot point between them.
		if p.bounded() && !o.Due.Equal(last) {
			p.result.NextDue, p.result.More = o.Due.UTC(), true
			if !o.Due.After(p.catchUp.to) {
				p.result.PacedTo = p.pacedTo
			}
			return p.result, nil
		}
		p.visit(o)
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

// bounded reports whether a bound is reached.
func (p *planner) bounded() bool {
	return p.result.Visited >= p.limit || len(p.result.Due) >= p.results || len(p.result.Skips) >= PlanResults
}

// visit decides one occurrence.
func (p *planner) visit(o schedule.Occurrence) {
	p.result.Visited++
	due, c := o.Due.UTC(), &p.catchUp
	begun := due.Equal(p.begun)
	switch {
	case begun && o.Skip != "": // recorded when the due time was begun
	case o.Skip != "":
		p.skip(due, Reason(o.Skip))
	case due.Before(p.restored):
		p.skip(due, ReasonRestored)
	case begun && p.origin == FromSchedule, !begun && due.After(c.to):
		p.run(DueTime{DueAt: due, RunAt: due, Origin: FromSchedule})
	case begun, c.starts(due):
		p.run(DueTime{DueAt: due, RunAt: p.pacedTo, Origin: FromMissed})
		p.pacedTo = p.pacedTo.Add(c.pace)
	default:
		p.skip(due, c.reason(due))
	}
}

func (p *planner) run(d DueTime) { p.result.Due = append(p.result.Due, d) }

// skip adds a due time to the last range if that has the same reason and no run lies between.
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

// FirstDue is the first occurrence after an instant, including one that a gap or a calendar removes: the ledger must
// account for those too. A new cursor starts there, with the job's creation as the instant. A job that joins a cursor
// that is already ahead calls Plan for the stretch that the cursor has planned: from FirstDue of now to just before the
// cursor's NextDue.
//
// It returns schedule.ErrNoMore if there is none. schedule.ErrTooFar is not the end: the search gave up on
// occurrences, which must be accounted for too.
func FirstDue(s *schedule.Schedule, after time.Time) (time.Time, error) {
	far, err := s.Next(after)
	if err != nil {
		if s.Spec().At != "" {
			return time.Time{}, err // its only occurrence has fired; a search for skipped ones would take long
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

// maxRuleChange is by how much a change of time zone rules moves an occurrence.
const maxRuleChange = 3 * time.Hour

// FollowZones returns the next due time of a cursor by the time zone rules of this process, after next was computed by
// older ones. Everything up to planned has been planned.
//
// An occurrence whose time has passed by the new rules keeps its old one: better late than never.
func FollowZones(s *schedule.Schedule, next, planned time.Time) (time.Time, error) {
	if !next.After(planned) {
		return next, nil
	}
	now, err := FirstDue(s, planned)
	if err != nil || now.Sub(next) > maxRuleChange {
		return next, err
	}
	return now, nil
}

// The pause before planning is retried for a cursor that failed.
const (
	brokenPauseMin = time.Minute
	brokenPauseMax = time.Hour
)

// RetryBroken returns when to retry a cursor that cannot be planned. The pause is short at first, because during an
// upgrade a node may meet schedules that only newer nodes can read, and doubles while the failure lasts. since is when
// the failure began, nil for now. The planner looks ahead to until, so the pause starts there.
func RetryBroken(since *time.Time, now, until time.Time) time.Time {
	pause := brokenPauseMin
	if since != nil {
		pause = min(max(now.Sub(*since), brokenPauseMin), brokenPauseMax)
	}
	return until.Add(pause)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
