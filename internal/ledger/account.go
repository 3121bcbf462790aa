package ledger

import (
	"time"

	"github.com/belfry-dev/belfry/internal/job"
)

// Fate is what happened to an occurrence.
type Fate int

// The fates.
const (
	Ran        Fate = iota // it has an entry of its own, which says the rest
	Gone                   // it is not the job's: the job was deleted, or has ended
	Skipped                // for the reason that Account returns
	Paused                 // it waits until the job is resumed
	Planned                // it is not due yet
	Unplanned              // it is due, and no node has planned it yet
	Backfilled             // it was lost, and a user has run it since
	Archived               // its entry is no longer kept, and the archive has its day
	Old                    // history is not kept that long
	Forgotten              // its cursor is gone, and nothing says what it skipped
	Missing                // nothing explains it: this must not happen
)

// Evidence is what the ledger has about an occurrence.
type Evidence struct {
	Ran        bool       // an entry of its own
	Removed    job.Reason // a gap or a calendar that removes it
	Own        job.Reason // of the range in the job's history that covers it
	Cursor     job.Reason // of the range that covers it of the cursor that the job had then
	Backfilled bool       // a run that a user made of it later
	Archived   bool       // the archive has its day
}

// Account says what happened to an occurrence of a version. It is the rule of decision 10, and the only place that has it.
func (l *Life) Account(due time.Time, version int, e Evidence) (Fate, job.Reason) {
	future, current := due.After(l.Now), l.Current(version)
	switch {
	case e.Ran:
		return Ran, ""
	case e.Own != "" && e.Removed == "":
		return Skipped, e.Own
	case l.Leaving(due), future && l.State != job.Active && l.State != job.Paused:
		return Gone, ""
	case e.Removed != "":
		return Skipped, e.Removed
	case current && l.State == job.Paused && !due.Before(l.PlanFrom) && (!future || !l.resumes(due)):
		return Paused, ""
	case e.Cursor != "":
		return Skipped, e.Cursor
	case future:
		return Planned, ""
	case current && l.State == job.Active && !l.NextDue.IsZero() && !due.Before(l.NextDue):
		return Unplanned, ""
	case e.Backfilled:
		return Backfilled, ""
	case due.Before(l.HistoryFrom) && e.Archived:
		return Archived, ""
	case !l.HistoryFrom.IsZero() && due.Before(l.Complete()):
		return Old, ""
	case l.Versions[version].CursorGone:
		return Forgotten, ""
	}
	return Missing, ""
}

// resumes reports whether the pause has ended by then.
func (l *Life) resumes(due time.Time) bool {
	return !l.PausedUntil.IsZero() && !due.Before(l.PausedUntil)
}

// Complete returns from when on history is complete: ranges are dropped as soon as they are older than the retention, and
// days when their end is.
func (l *Life) Complete() time.Time { return l.HistoryFrom.Add(24 * time.Hour) }
