package timeline

import (
	"time"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/schedule"
)

// The bounds of a timeline.
const (
	// MaxEntries is how many entries of the ledger are read: enough for a job of each minute in a window by default.
	MaxEntries = 21_000
	// MaxOccurrences is how many occurrences are listed, of the past and of the future each.
	MaxOccurrences = 21_000
	// MaxVersions is how many versions of the definition are read.
	MaxVersions = 20
	// MaxSkips is how many ranges of cursors are read.
	MaxSkips = 2_000
	// ReachingIn is how many entries before a time are read to find the range that reaches beyond it: between the ends
	// of a range there is no other entry by schedule.
	ReachingIn = 5
)

// The windows of timelines.
const (
	Back      = 14 * 24 * time.Hour
	Ahead     = 7 * 24 * time.Hour
	MaxWindow = 400 * 24 * time.Hour
)

// Params asks for the timeline of a job.
type Params struct {
	Namespace uuid.UUID
	Job       uuid.UUID
	From, To  time.Time     // due times: from is inclusive, to is exclusive; zero: from Back before now to Ahead
	Ahead     time.Duration // how far the window reaches beyond now, if To is zero
}

// Window returns the window that was asked for, at an instant.
func (p *Params) Window(now time.Time) (from, to time.Time) {
	from, to = p.From, p.To
	switch {
	case from.IsZero() && to.IsZero():
		return now.Add(-Back), now.Add(p.Ahead)
	case from.IsZero():
		from = to.Add(-Back - p.Ahead)
	case to.IsZero():
		to = from.Add(Back + p.Ahead)
	}
	return from, to
}

// Facts are what is known about a job. The job, its versions and its cursors are read before the entries, so that what
// the cursor had passed is in the ledger when that is read.
type Facts struct {
	Job      uuid.UUID
	From, To time.Time
	Now      time.Time // of the database, when the job was read

	State       job.State // 0: the job is deleted
	DeletedAt   time.Time // zero if it is not deleted, or not known
	PausedUntil time.Time // zero: until a user resumes it
	PlanFrom    time.Time // of a paused job: later occurrences wait for its resume
	RunsLeft    *int32    // of max_runs; nil if there is no limit
	NextDue     time.Time // of its cursor: the first occurrence that is not planned; zero if there is none
	HistoryFrom time.Time // entries that ended earlier are no longer kept
	// Archived are the days before HistoryFrom, as the times when they begin in UTC, that the archive has.
	Archived map[time.Time]bool

	Versions []Version // that were in force in the window, in order
	// Replaced: the last of them was replaced after the window.
	Replaced bool
	Entries  []job.Entry // of the window, and ranges that reach into it
	// LaterRun: there is a run by schedule after the window, of the version that was in force at its end.
	LaterRun bool
	// Known is the first due time from which on all entries, ranges and versions were read. Zero: all were.
	Known time.Time
}

// Version is a version of the definition.
type Version struct {
	Number     int32
	From       time.Time // when it took effect
	By         string
	Schedule   *schedule.Schedule // nil if this version of Belfry cannot read it
	MaxRuns    int32
	Skips      []job.Skip // ranges that its cursor skipped, without gaps and calendars
	CursorGone bool       // nothing says what its cursor skipped
}

// inForce returns the range of due times that a version decides: after from, up to and including to. A change at an
// instant takes effect after it. A one-off whose time has passed when it is saved is accounted for then.
func (f *Facts) inForce(i int) (from, to time.Time) {
	v := &f.Versions[i]
	from, to = v.From, f.To
	if v.Schedule != nil && v.Schedule.Spec().At != "" {
		from = schedule.BeforeAll
	}
	switch {
	case i+1 < len(f.Versions):
		to = f.Versions[i+1].From
	case f.State == 0 && !f.Replaced:
		to = f.DeletedAt // if it is not known, the version decides nothing
	}
	return from, to
}

// current reports whether a version is the one that is in force now.
func (f *Facts) current(i int) bool { return i == len(f.Versions)-1 && f.State != 0 && !f.Replaced }

// limited reports whether a version may have had all its runs: what follows the last of them was not the job's.
func (f *Facts) limited(i int) bool {
	if f.current(i) && f.RunsLeft != nil && *f.RunsLeft > 0 {
		return false
	}
	return f.Versions[i].MaxRuns > 0
}

// Spread returns the jitter of the occurrences of the newest version.
func (f *Facts) Spread() func(due time.Time) time.Duration {
	n := len(f.Versions)
	if n == 0 || f.Versions[n-1].Schedule == nil {
		return func(time.Time) time.Duration { return 0 }
	}
	s := f.Versions[n-1].Schedule
	return func(due time.Time) time.Duration { return s.RunAt(due, f.Job.String()).Sub(due) }
}

// Zone is the zone of the newest version.
func (f *Facts) Zone() *time.Location {
	if n := len(f.Versions); n > 0 && f.Versions[n-1].Schedule != nil {
		return f.Versions[n-1].Schedule.Zone()
	}
	return time.UTC
}
