package ledger

import (
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/schedule"
)

// Life is what is known about a job over time. It is read before the entries of the ledger, so that what the cursor had
// passed is in the ledger when that is read.
type Life struct {
	ID  uuid.UUID
	Now time.Time // of the database, when the job was read

	State       job.State // 0: the job is deleted
	DeletedAt   time.Time // zero if it is not deleted, or not known
	PausedUntil time.Time // zero: until a user resumes it
	PlanFrom    time.Time // of a paused job: later occurrences wait for its resume
	NextDue     time.Time // of its cursor: the first occurrence that is not planned; zero if there is none
	HistoryFrom time.Time // entries that ended earlier are no longer kept; zero: it does not matter

	Versions []Version // that matter, in order
	// Replaced: the last of them was replaced by one that does not matter.
	Replaced bool
}

// Version is a version of the definition.
type Version struct {
	Number     int32
	From       time.Time // when it took effect
	By         string
	Spec       json.RawMessage    // the schedule as it is stored, for readers that compute due times by it
	Schedule   *schedule.Schedule // nil if this version of Belfry cannot read it, or if Spec is there instead
	OneOff     bool
	Skips      []job.Skip // ranges that its cursor skipped, without gaps and calendars
	CursorGone bool       // nothing says what its cursor skipped; a later one may have its schedule
}

// When exactly a job was deleted is not stored, only when the entry of the audit log was written, slightly later. What
// is due around then may be in the ledger or not.
const (
	beforeDelete = time.Minute
	afterDelete  = 10 * time.Second
)

var (
	longAgo = time.Time{}
	far     = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)
)

// InForce returns the range of due times that a version decides: after from, up to and including to. A change at an
// instant takes effect after it. A one-off whose time has passed when it is saved is accounted for then.
func (l *Life) InForce(i int) (from, to time.Time) {
	from, to = l.Versions[i].From, far
	if l.Versions[i].OneOff {
		from = longAgo
	}
	switch {
	case i+1 < len(l.Versions):
		to = l.Versions[i+1].From
	case l.State == 0 && !l.Replaced && l.DeletedAt.IsZero():
		to = longAgo // it is not known, so the version decides nothing
	case l.State == 0 && !l.Replaced:
		to = l.DeletedAt.Add(afterDelete)
	}
	return from, to
}

// At returns the version that decides a due time.
func (l *Life) At(due time.Time) (version int, ok bool) {
	for i := range l.Versions {
		if from, to := l.InForce(i); due.After(from) && !due.After(to) {
			return i, true
		}
	}
	return 0, false
}

// Current reports whether a version is the one that is in force now.
func (l *Life) Current(i int) bool { return i == len(l.Versions)-1 && l.State != 0 && !l.Replaced }

// Leaving reports whether the job may have been deleted when an occurrence was due.
func (l *Life) Leaving(due time.Time) bool {
	return l.State == 0 && due.After(l.DeletedAt.Add(-beforeDelete))
}
