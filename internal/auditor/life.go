package auditor

import (
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/ledger"
)

// Job is a job as the store knows it, with the versions from the one in force at the start of the window to the newest.
// Only due times up to Life.Now are judged.
type Job struct {
	ledger.Life
	Partition int16
	Namespace uuid.UUID
	Name      string
	Cursor    int64
}

// NewVersion reads the stored definition of a version.
func NewVersion(number int32, from time.Time, definition []byte) (ledger.Version, error) {
	var d struct {
		Schedule json.RawMessage `json:"schedule"`
	}
	err := json.Unmarshal(definition, &d)
	var at struct {
		At string `json:"at"`
	}
	oneOff := json.Unmarshal(d.Schedule, &at) == nil && at.At != ""
	return ledger.Version{Number: number, From: from, Spec: d.Schedule, OneOff: oneOff}, err
}

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
	if w.To.After(j.Now) {
		w.To = j.Now
	}
	if j.State == 0 && j.DeletedAt.IsZero() {
		return nil, errUnknownEnd
	}
	e := &Expected{Job: j, Window: w}
	for i := range j.Versions {
		from, to := j.InForce(i)
		if !from.Before(w.To) || !to.After(w.From) {
			continue
		}
		due, byOracle, err := t.Due(j.Versions[i].Spec, j.ID, w)
		if err != nil {
			return nil, err
		}
		for _, at := range due {
			if !at.After(from) || at.After(to) {
				continue
			}
			may := j.Leaving(at)
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
