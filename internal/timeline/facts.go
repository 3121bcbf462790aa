package timeline

import (
	"time"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/ledger"
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

// Facts are what is known about a job: its life, as far as it matters in the window, and the entries of the ledger.
type Facts struct {
	ledger.Life
	From, To time.Time
	// Archived are the days before HistoryFrom, as the times when they begin in UTC, that the archive has.
	Archived map[time.Time]bool
	Entries  []job.Entry // of the window, and ranges that reach into it; the ends of one run follow each other, newest first
	// Known is the first due time from which on all entries, ranges and versions were read. Zero: all were.
	Known time.Time
}

// Spread returns the jitter of the occurrences of the newest version.
func (f *Facts) Spread() func(due time.Time) time.Duration {
	n := len(f.Versions)
	if n == 0 || f.Versions[n-1].Schedule == nil {
		return func(time.Time) time.Duration { return 0 }
	}
	s := f.Versions[n-1].Schedule
	return func(due time.Time) time.Duration { return s.RunAt(due, f.ID.String()).Sub(due) }
}

// Zone is the zone of the newest version.
func (f *Facts) Zone() *time.Location {
	if n := len(f.Versions); n > 0 && f.Versions[n-1].Schedule != nil {
		return f.Versions[n-1].Schedule.Zone()
	}
	return time.UTC
}
