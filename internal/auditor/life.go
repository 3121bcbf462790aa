package auditor

import (
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/job"
)

// Job is a job as the store knows it, read before its entries.
type Job struct {
	Partition int16
	ID        uuid.UUID
	Namespace uuid.UUID
	Name      string
	ReadAt    time.Time // the database's clock; only due times up to then are judged

	State     job.State // 0: the job is deleted
	DeletedAt time.Time // zero if it is not deleted, or not known
	PlanFrom  time.Time // of a paused job: later due times wait for its resume
	RunsLeft  *int32    // of max_runs; nil if there is no limit
	Cursor    int64
	NextDue   time.Time // of its cursor; zero if that has ended

	Versions []Version // from the one in force at the start of the window to the newest
}

// Version is what a version of a definition says about due times.
type Version struct {
	Number   int32
	From     time.Time // when it took effect
	Schedule json.RawMessage
	MaxRuns  int32

	oneOff bool
}

// NewVersion reads the stored definition of a version.
func NewVersion(number int32, from time.Time, definition []byte) (Version, error) {
	var d struct {
		Schedule json.RawMessage `json:"schedule"`
		MaxRuns  int32           `json:"max_runs"`
	}
	err := json.Unmarshal(definition, &d)
	var at struct {
		At string `json:"at"`
	}
	oneOff := json.Unmarshal(d.Schedule, &at) == nil && at.At != ""
	return Version{Number: number, From: from, Schedule: d.Schedule, MaxRuns: d.MaxRuns, oneOff: oneOff}, err
}

// When exactly a job was deleted is not stored, only when the entry of the audit log was written, slightly later. What
// is due around then may be in the ledger or not.
const (
	beforeDelete = time.Minute
	afterDelete  = 10 * time.Second
)

// occurrence is a due time that a job must account for.
type occurrence struct {
	due     time.Time
	version int  // index in Job.Versions
	may     bool // it may be absent
}

// Expected is what a job must account for in a window.
type Expected struct {
	Job    *Job
	Window Window

	all           []occurrence
	withoutOracle int64
}

// Len is the number of due times.
func (e *Expected) Len() int { return len(e.all) }

// Part returns a random part of the window with at most n due times, so that one job does not use up a sample.
func (e *Expected) Part(n int, random func(n int) int) *Expected {
	if len(e.all) <= n {
		return e
	}
	first := random(len(e.all) - n)
	part := *e
	part.all = e.all[first : first+n]
	part.Window = Window{part.all[0].due.Add(-time.Microsecond), part.all[n-1].due}
	part.withoutOracle = min(part.withoutOracle, int64(n))
	return &part
}

// errUnknownEnd says that a job is deleted and the audit log does not say when.
var errUnknownEnd = errors.New("auditor: it is not known when the job was deleted")

// Expect lists the due times of a job in a window. Versions that do not change the schedule need no special case: each
// lists its own part of the same times.
func (j *Job) Expect(t *Times, w Window) (*Expected, error) {
	if w.To.After(j.ReadAt) {
		w.To = j.ReadAt
	}
	if j.State == 0 && j.DeletedAt.IsZero() {
		return nil, errUnknownEnd
	}
	e := &Expected{Job: j, Window: w}
	for i := range j.Versions {
		from, to := j.inForce(i)
		if !from.Before(w.To) || !to.After(w.From) {
			continue
		}
		due, byOracle, err := t.Due(&j.Versions[i], j.ID, w)
		if err != nil {
			return nil, err
		}
		for _, at := range due {
			if !at.After(from) || at.After(to) {
				continue
			}
			may := j.State == 0 && at.After(j.DeletedAt.Add(-beforeDelete))
			e.all = append(e.all, occurrence{at, i, may})
			if t.oracle && !byOracle && !may {
				e.withoutOracle++
			}
		}
	}
	slices.SortStableFunc(e.all, func(a, b occurrence) int { return a.due.Compare(b.due) })
	e.all = slices.CompactFunc(e.all, func(a, b occurrence) bool { return a.due.Equal(b.due) })
	return e, nil
}

// inForce returns the range of due times that a version decides: after from, up to and including to. A change at an
// instant takes effect after it. A one-off whose time has passed when it is saved is accounted for then.
func (j *Job) inForce(i int) (from, to time.Time) {
	from, to = j.Versions[i].From, j.ReadAt
	if j.Versions[i].oneOff {
		from = time.Time{}
	}
	if i+1 < len(j.Versions) {
		to = j.Versions[i+1].From
	} else if j.State == 0 {
		to = j.DeletedAt.Add(afterDelete)
	}
	return from, to
}

// limited reports whether a version may have had all its runs (max_runs): what follows the last of them was not the
// job's. Only for the version in force is it known how many are left.
func (j *Job) limited(i int) bool {
	if i == len(j.Versions)-1 && j.State != 0 && j.RunsLeft != nil && *j.RunsLeft > 0 {
		return false
	}
	return j.Versions[i].MaxRuns > 0
}

// unbounded returns a schedule without start_at and end_at.
func unbounded(spec json.RawMessage) json.RawMessage {
	var fields map[string]json.RawMessage
	if json.Unmarshal(spec, &fields) != nil {
		return spec // the one-string form
	}
	delete(fields, "start_at")
	delete(fields, "end_at")
	out, err := json.Marshal(fields)
	if err != nil {
		return spec
	}
	return out
}
