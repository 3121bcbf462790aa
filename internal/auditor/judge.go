package auditor

import (
	"slices"
	"time"

	"github.com/belfry-dev/belfry/internal/job"
)

// Entry is an entry of the ledger: a run by schedule or a backfill.
type Entry struct {
	DueAt   time.Time
	DueTo   time.Time // of a range of skipped occurrences; zero otherwise
	Seq     int16
	Version int32
	Origin  job.Origin
	Ended   job.Ended // 0: it is live
	Reason  job.Reason
	Early   bool // it ended before its due time, or started long before it
}

// Skip is a range that a cursor skipped for all its jobs.
type Skip struct {
	From, To time.Time
	Count    int64
	Reason   job.Reason
}

func (s *Skip) covers(at time.Time) bool { return !at.Before(s.From) && !at.After(s.To) }

// Judge compares the entries of jobs with what their schedules demand. For each job call Begin, Entry for each of its
// entries in the order of due time and sequence number, and End. Missing occurrences are only suspects then: the store
// reads what else could explain them and calls Confirm.
type Judge struct {
	Report
	Suspects []Suspect

	job      *Job
	skips    []Skip // of the job's cursor
	expected []occurrence
	i        int    // the first of expected that is not decided
	at       match  // what was found for expected[i]
	ranges   []Skip // of the job's own history that may cover what follows
}

// Suspect is an occurrence without an entry.
type Suspect struct {
	Job   *Job
	DueAt time.Time
	// Until is set if the job may have had all its runs by then: the occurrence is missing only if the ledger has a
	// later one up to Until.
	Until   time.Time
	version int
}

// match is what the ledger has for one due time.
type match struct {
	entries    int // by schedule, redriven ones not counted again
	any        bool
	backfilled bool
	last       Entry
}

// Begin starts a job. The skips are those of its cursor that concern the window.
func (g *Judge) Begin(e *Expected, skips []Skip) {
	g.job, g.expected, g.i, g.skips = e.Job, e.all, 0, skips
	g.at, g.ranges = match{}, g.ranges[:0]
	g.WithoutOracle += e.withoutOracle
}

// Entry takes the next entry of the job.
func (g *Judge) Entry(e Entry) {
	for g.i < len(g.expected) && g.expected[g.i].due.Before(e.DueAt) {
		g.decide()
	}
	demanded := g.i < len(g.expected) && g.expected[g.i].due.Equal(e.DueAt)
	switch {
	case !e.DueTo.IsZero():
		g.ranges = slices.DeleteFunc(g.ranges, func(s Skip) bool { return s.To.Before(e.DueAt) })
		g.ranges = append(g.ranges, Skip{From: e.DueAt, To: e.DueTo, Reason: e.Reason})
		return
	case e.Seq > 0:
		g.at.backfilled = g.at.backfilled || demanded
	case demanded:
		g.match(e)
	case e.Version <= g.job.Versions[len(g.job.Versions)-1].Number: // it is not of an edit that came after the read
		g.find(finding(Phantom, g.job, e.DueAt))
	}
	if e.Early {
		g.find(finding(Early, g.job, e.DueAt))
	}
}

func (g *Judge) match(e Entry) {
	if e.Origin != job.FromRedrive {
		g.at.entries++
	}
	if g.at.entries > 1 {
		g.at.entries = 1
		g.find(finding(Duplicate, g.job, e.DueAt))
	}
	if !g.at.any || e.Ended == 0 || g.at.last.Ended == job.EndedSkipped { // the final outcome
		g.at.last = e
	}
	g.at.any = true
}

// decide judges expected[i], after all its entries.
func (g *Judge) decide() {
	o, m := g.expected[g.i], g.at
	g.i, g.at = g.i+1, match{}
	if o.may {
		return
	}
	g.Expected++
	j := g.job
	switch {
	case m.any && m.last.Ended == 0:
		g.Live++
	case m.any && m.last.Ended == job.EndedSkipped:
		g.skip(m.last.Reason, 1)
	case m.any:
		g.Run++
	case m.backfilled:
		g.Backfilled++
	case g.skipped(o.due):
	case j.State == job.Active && !j.NextDue.IsZero() && !o.due.Before(j.NextDue):
		g.NotPlanned++
	case j.State == job.Paused && !o.due.Before(j.PlanFrom):
		g.Paused++
	default:
		s := Suspect{Job: j, DueAt: o.due, version: o.version}
		if j.limited(o.version) {
			_, s.Until = j.inForce(o.version)
		}
		g.Suspects = append(g.Suspects, s)
	}
}

// skipped looks for a range that covers a due time: first the job's own, then those of its cursor.
func (g *Judge) skipped(due time.Time) bool {
	for _, ranges := range [][]Skip{g.ranges, g.skips} {
		for i := range ranges {
			if ranges[i].covers(due) {
				g.skip(ranges[i].Reason, 1)
				return true
			}
		}
	}
	return false
}

// End ends a job.
func (g *Judge) End() {
	for g.i < len(g.expected) {
		g.decide()
	}
}

// Confirm decides a suspect. The ranges are those of all cursors of the job's partition that cover it, also of cursors
// that no job has any more: the job may have had another cursor then. later says that the ledger has a later run of the
// version, up to Until.
func (g *Judge) Confirm(t *Times, s Suspect, ranges []Skip, later bool) {
	for i := range ranges {
		if ranges[i].covers(s.DueAt) && s.fits(t, &ranges[i]) {
			g.skip(ranges[i].Reason, 1)
			return
		}
	}
	if !s.Until.IsZero() && !later {
		g.Expected-- // its job had no runs left
		return
	}
	g.find(finding(Missing, s.Job, s.DueAt))
}

// maxCounted bounds the ranges whose due times are counted.
const maxCounted = 100_000

// fits reports whether a range is one of the schedule that the job had: it begins and ends with due times of it, and
// holds as many.
func (s *Suspect) fits(t *Times, r *Skip) bool {
	v := s.Job.Versions[s.version]
	v.Schedule = unbounded(v.Schedule) // a cursor knows neither start_at nor end_at
	isDue := func(at time.Time) bool {
		due, _, err := t.Due(&v, s.Job.ID, Window{at.Add(-time.Microsecond), at})
		return err == nil && len(due) == 1
	}
	if !isDue(r.From) || !isDue(r.To) {
		return false
	}
	if r.Count > maxCounted {
		return true
	}
	due, _, err := t.Due(&v, s.Job.ID, Window{r.From.Add(-time.Microsecond), r.To})
	return err == nil && int64(len(due)) == r.Count
}

func finding(k Kind, j *Job, due time.Time) Finding {
	return Finding{Kind: k, Namespace: j.Namespace, Job: j.ID, Name: j.Name, DueAt: due.UTC()}
}
