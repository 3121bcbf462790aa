package auditor

import (
	"bytes"
	"time"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/ledger"
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

// Judge compares the entries of jobs with what their schedules demand. For each job call Begin, Entry for each of its
// entries in the order of due time, sequence number and end (a live one is the last), and End. Missing occurrences are
// only suspects then: the store reads what else could explain them and calls Confirm.
type Judge struct {
	Report
	Suspects []Suspect

	job      *Job
	skips    ledger.Ranges // of the job's cursor
	expected []occurrence
	i        int           // the first of expected that is not decided
	at       match         // what was found for expected[i]
	own      ledger.Ranges // of the job's history
}

// Suspect is an occurrence without an entry.
type Suspect struct {
	Job     *Job
	DueAt   time.Time
	version int
	found   ledger.Evidence
}

// match is what the ledger has for one due time.
type match struct {
	entries    int // by schedule, redriven ones not counted again
	any        bool
	backfilled bool
	last       Entry
}

// Begin starts a job. The skips are those of its cursor that concern the window.
func (g *Judge) Begin(e *Expected, skips []job.Skip) {
	g.job, g.expected, g.i, g.skips = e.Job, e.all, 0, ledger.NewRanges(skips)
	g.at, g.own = match{}, ledger.Ranges{}
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
		g.own.Add(job.Skip{From: e.DueAt, To: e.DueTo, Reason: e.Reason})
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
	g.at.any, g.at.last = true, e
}

// decide judges expected[i], after all its entries.
func (g *Judge) decide() {
	o, m := g.expected[g.i], g.at
	g.i, g.at = g.i+1, match{}
	if o.may {
		return
	}
	g.Expected++
	s := Suspect{Job: g.job, DueAt: o.due, version: o.version, found: ledger.Evidence{
		Ran: m.any, Own: g.own.Cover(o.due).Reason, Cursor: g.cursorSkip(o), Backfilled: m.backfilled,
	}}
	fate, reason := s.Job.Account(s.DueAt, s.version, s.found)
	switch fate {
	case ledger.Ran:
		g.countRun(m.last)
	case ledger.Skipped:
		g.skip(reason, 1)
	case ledger.Paused:
		g.Paused++
	case ledger.Unplanned:
		g.NotPlanned++
	default:
		g.Suspects = append(g.Suspects, s)
	}
}

func (g *Judge) countRun(e Entry) {
	switch e.Ended {
	case 0:
		g.Live++
	case job.EndedSkipped:
		g.skip(e.Reason, 1)
	default:
		g.Run++
	}
}

// cursorSkip returns why the cursor of the job skipped an occurrence. The cursor is that of the newest version: a version
// with another schedule had another one, and Confirm looks for its ranges.
func (g *Judge) cursorSkip(o occurrence) job.Reason {
	reason := g.skips.Cover(o.due).Reason
	if v := g.job.Versions; !bytes.Equal(v[o.version].Spec, v[len(v)-1].Spec) {
		return ""
	}
	return reason
}

// End ends a job.
func (g *Judge) End() {
	for g.i < len(g.expected) {
		g.decide()
	}
}

// Confirm decides a suspect. The ranges are those of all cursors of the job's partition that cover it, also of cursors
// that no job has any more: the job may have had another cursor then.
func (g *Judge) Confirm(t *Times, s Suspect, ranges []job.Skip) {
	for i := range ranges {
		if r := &ranges[i]; !s.DueAt.Before(r.From) && !s.DueAt.After(r.To) && s.fits(t, r) {
			s.found.Cursor = r.Reason
			break
		}
	}
	switch fate, reason := s.Job.Account(s.DueAt, s.version, s.found); fate {
	case ledger.Skipped:
		g.skip(reason, 1)
	case ledger.Backfilled:
		g.Backfilled++
	default:
		g.find(finding(Missing, s.Job, s.DueAt))
	}
}

// maxCounted bounds the ranges whose due times are counted.
const maxCounted = 100_000

// fits reports whether a range is one of the schedule that the job had: it begins and ends with due times of it, and
// holds as many.
func (s *Suspect) fits(t *Times, r *job.Skip) bool {
	spec := unbounded(s.Job.Versions[s.version].Spec) // a cursor knows neither start_at nor end_at
	isDue := func(at time.Time) bool {
		due, _, err := t.Due(spec, s.Job.ID, Window{at.Add(-time.Microsecond), at})
		return err == nil && len(due) == 1
	}
	if !isDue(r.From) || !isDue(r.To) {
		return false
	}
	if r.Count > maxCounted {
		return true
	}
	due, _, err := t.Due(spec, s.Job.ID, Window{r.From.Add(-time.Microsecond), r.To})
	return err == nil && int64(len(due)) == r.Count
}

func finding(k Kind, j *Job, due time.Time) Finding {
	return Finding{Kind: k, Namespace: j.Namespace, Job: j.ID, Name: j.Name, DueAt: due.UTC()}
}
