package why

import (
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/schedule"
)

// Code says in one word what became of an occurrence. Users switch on it, so
// it never changes.
type Code string

// The codes. The first eight are what the ledger says, the others why it says
// nothing.
const (
	Succeeded Code = "succeeded"
	Failed    Code = "failed"
	Cancelled Code = "cancelled"
	Skipped   Code = "skipped" // Reason says why
	Running   Code = "running"
	Waiting   Code = "waiting"  // for its target's report
	Retrying  Code = "retrying" // an attempt failed, the next one is to come
	Planned   Code = "planned"  // its time has not come

	Held         Code = "held"          // its target had no room for it
	QueuePaused  Code = "queue_paused"  // it is due, and its queue starts nothing
	QueueFull    Code = "queue_full"    // it is due, and waits for a place in its queue
	QueueRate    Code = "queue_rate"    // it is due, and its queue has started as many as its rate allows
	KeyFull      Code = "key_full"      // it is due, and waits for a run with its concurrency key to end
	Behind       Code = "behind"        // it is due, and waits for another run of its job
	Due          Code = "due"           // it is due, and waits for a free slot
	NotDue       Code = "not_due"       // to be planned when its time comes near
	Paused       Code = "paused"        // kept back until the job is resumed
	CreatedLater Code = "created_later" // there was no such job then
	Deleted      Code = "deleted"       // there was no such job any more
	Finished     Code = "finished"      // max_runs had been reached
	BeforeStart  Code = "before_start"
	AfterEnd     Code = "after_end"
	None         Code = "no_occurrence"
	Unplanned    Code = "unplanned" // its time has passed, and no node has planned it yet
	Forgotten    Code = "forgotten" // older than what history keeps
	Unknown      Code = "unknown"   // there should be an entry
)

// Facts is what the store knows around one time of a job.
type Facts struct {
	At  time.Time
	Now time.Time // the database's

	ID         uuid.UUID
	Created    time.Time // of the job
	Version    int32     // that was in force at At
	Definition job.Definition
	Job        *job.Job  // as it is now; nil: deleted
	DeletedAt  time.Time // zero: it is not, or nobody knows
	DeletedBy  string
	PausedAt   time.Time
	PausedBy   string
	PlanFrom   time.Time // of a paused job: what was due from then on is kept back
	RunsLeft   *int32    // of max_runs; nil: no limit

	// Entries of the ledger at At or within the second after it, and a range that
	// covers At. The newest first.
	Entries []job.Entry
	Others  int       // attempts of other runs of the job that are under way
	Skip    *job.Skip // of the whole schedule, that covers At

	NextDue     time.Time // the first occurrence that is not planned; zero: the schedule has ended
	Owned       bool      // a live node owns the job's partition
	HistoryFrom time.Time // what ended before is no longer kept
	QueuePaused time.Time // since when; zero: it is not
	QueueNote   string
	Queue       job.Queue // of the run: its limits, and what runs and waits
	KeyRunning  int       // live runs with the concurrency key of the job
	QueueBy     string    // who paused it; empty: nobody knows
	CancelledBy string    // who cancelled the run; empty: nobody did, or nobody knows
}

// Story is what happened to one occurrence, and why.
type Story struct {
	At      time.Time
	Code    Code
	Reason  job.Reason // of a skip, a failure or a cancellation
	Text    string     // what happened and why, for people
	Next    string     // what comes, or what to do; empty: nothing
	Zone    *time.Location
	Version int32       // of the definition that was in force; 0: none was
	Nearest []time.Time // of what is no occurrence: the one before and the one after
	Entry   *job.Entry  // what the ledger says; nil: nothing
}

// Explain tells the story of an occurrence: first what the ledger says; if that
// is nothing, why it says nothing.
func Explain(f Facts) Story {
	w, t := explain(f)
	w.Next = t.next(w)
	return w
}

func explain(f Facts) (Story, *teller) {
	t := &teller{Facts: f, zone: time.UTC}
	w := Story{At: f.At.UTC(), Version: f.Version, Zone: time.UTC}
	if s, err := schedule.New(f.Definition.Schedule, f.ID.String()); err == nil {
		t.schedule, t.zone, w.Zone = s, s.Zone(), s.Zone()
	}
	if e := t.entry(); e != nil {
		w.At, w.Entry, w.Reason, w.Version = e.DueAt, e, e.Reason, e.Version
		if !e.DueTo.IsZero() { // it is one of a range
			w.At = f.At.UTC()
		}
		w.Code, w.Text = t.told(*e)
		w.Text += t.shifted(w.At) + t.deletedSince()
		return w, t
	}
	return t.untold(w), t
}

// teller finds the words.
type teller struct {
	Facts
	schedule *schedule.Schedule // nil: this version cannot read it
	zone     *time.Location
}

// entry is what the ledger says about At: the occurrence itself, or else the run
// that somebody made within that second, or else a range.
func (t *teller) entry() *job.Entry {
	var found *job.Entry
	rank := func(e *job.Entry) int {
		switch {
		case e == nil:
			return 0
		case !e.DueTo.IsZero():
			return 1
		case !e.DueAt.Equal(t.At):
			return 2
		case e.Seq > 0:
			return 3
		default:
			return 4
		}
	}
	for i := range t.Entries {
		if e := &t.Entries[i]; rank(e) > rank(found) {
			found = e
		}
	}
	// A range says what became of occurrences, and nothing of what lies between.
	if found != nil && !found.DueTo.IsZero() && t.schedule != nil {
		if o, ok := occurrenceAt(t.schedule, t.At); !ok || o.Skip != "" {
			return nil
		}
	}
	return found
}

// untold tells why there is no entry.
func (t *teller) untold(w Story) Story {
	say := func(code Code, text string) Story {
		w.Code, w.Text = code, text
		return w
	}
	if t.Version == 0 || t.At.Before(t.Created) {
		w.Version = 0
		return say(CreatedLater, t.sprintf("The job did not exist then: it was created at %s.", t.Created))
	}
	if !t.DeletedAt.IsZero() && t.At.After(t.DeletedAt) {
		return say(Deleted, t.sprintf("The job did not exist any more: it was deleted at %s%s. Its history remains.", t.DeletedAt, by(t.DeletedBy)))
	}
	if t.schedule == nil {
		return say(Unknown, "This version of Belfry cannot read the schedule that the job had then.")
	}
	o, ok := occurrenceAt(t.schedule, t.At)
	if !ok {
		return t.none(w)
	}
	w.At = o.Due.UTC()
	switch {
	case o.Skip == schedule.ReasonGap:
		w.Reason = job.ReasonGap
		return say(Skipped, t.didNot("the clock in "+t.zone.String()+" is put forward past "+strings.Replace(o.Nominal, "T", " ", 1)+" that day, and dst.gap is skip"))
	case o.Skip == schedule.ReasonCalendar:
		w.Reason = job.ReasonCalendar
		return say(Skipped, t.didNot("a calendar of the job excludes this time"))
	case t.Skip != nil:
		w.Reason = t.Skip.Reason
		return say(Skipped, t.skipped(t.Skip.Reason)+t.among(t.Skip.Count, t.Skip.From, t.Skip.To))
	}
	w.Code, w.Text = t.unplanned()
	w.Text += t.shifted(w.At)
	return w
}

// unplanned tells why an occurrence that the schedule has was not planned.
func (t *teller) unplanned() (Code, string) {
	future := t.At.After(t.Now)
	switch {
	case t.Job == nil:
		return t.lostTrack()
	case t.Job.State == job.Paused && !t.At.Before(t.PlanFrom):
		return Paused, t.paused(future)
	case t.RunsLeft != nil && *t.RunsLeft <= 0:
		return Finished, t.sprintf("It does not run: the job has had all its runs by schedule (max_runs: %d).", t.Job.MaxRuns)
	case future:
		return NotDue, t.sprintf("It is not due yet: it is due in %s.", t.At.Sub(t.Now))
	case !t.NextDue.IsZero() && !t.At.Before(t.NextDue):
		if t.Owned {
			return Unplanned, t.sprintf("It is late by %s: no node has planned it yet. A node owns the job's partition and will come to it; %s.", t.Now.Sub(t.At), t.willMiss())
		}
		return Unplanned, t.sprintf("It is late by %s: no live node owns the job's partition. When one does, %s.", t.Now.Sub(t.At), t.willMiss())
	}
	return t.lostTrack()
}

func (t *teller) lostTrack() (Code, string) {
	if t.At.Before(t.HistoryFrom) {
		return Forgotten, t.sprintf("Nobody knows any more: history is kept from %s on.", t.HistoryFrom)
	}
	return Unknown, "The schedule has this occurrence and the ledger has no entry for it, which should not happen. Please report it with the job's id and this time."
}

// none tells of a time that the schedule does not have.
func (t *teller) none(w Story) Story {
	spec := t.schedule.Spec()
	free := spec
	free.StartAt, free.EndAt = time.Time{}, time.Time{}
	if s, err := schedule.New(free, t.ID.String()); err == nil {
		if _, ok := occurrenceAt(s, t.At); ok {
			w.Code, w.Text = BeforeStart, t.didNot("the job starts at "+t.when(spec.StartAt)+" (start_at)")
			if !spec.EndAt.IsZero() && !t.At.Before(spec.EndAt) {
				w.Code, w.Text = AfterEnd, t.didNot("the job ends at "+t.when(spec.EndAt)+" (end_at)")
			}
			return w
		}
	}
	before, after := t.schedule.Around(t.At)
	w.Code = None
	w.Text = t.sprintf("The schedule (%s) has no occurrence at %s.", t.schedule, t.At)
	if !before.IsZero() {
		w.Nearest = append(w.Nearest, before)
		w.Text += t.sprintf(" The one before is %s.", before)
	}
	if !after.IsZero() {
		w.Nearest = append(w.Nearest, after)
		w.Text += t.sprintf(" The one after is %s.", after)
	}
	return w
}

// occurrenceAt is that of a schedule at an instant: the one due then, or the one
// whose reading a change of the clock took away there.
func occurrenceAt(s *schedule.Schedule, at time.Time) (found schedule.Occurrence, ok bool) {
	for _, o := range s.Between(at.Add(-time.Nanosecond), at, 2) {
		if !ok || o.Skip == "" { // two may be due then; what fires counts
			found, ok = o, true
		}
	}
	if ok {
		return found, true
	}
	const gap = 3 * time.Hour // longer than any, but for the days that were left out at the date line
	for _, o := range s.Between(at.Add(-gap), at.Add(gap), 2*int(gap/time.Second)) {
		if o.Nominal != "" && reads(o, at) {
			return o, true
		}
	}
	return found, false
}

// reads says that an instant is what the reading that a gap removed would have
// been by the clock before the gap.
func reads(o schedule.Occurrence, at time.Time) bool {
	_, offset := o.Due.Add(-time.Second).Zone()
	n, err := time.Parse("2006-01-02T15:04:05", o.Nominal)
	return err == nil && n.Add(-time.Duration(offset)*time.Second).Equal(at)
}

// ParseWhen reads the time of an occurrence: with an offset, or as a reading of
// the clock in a zone.
func ParseWhen(text string, zone *time.Location) (time.Time, error) {
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t.UTC(), nil
	}
	for _, layout := range []string{"2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02 15:04:05", "2006-01-02 15:04"} {
		wall, err := time.Parse(layout, text)
		if err != nil {
			continue
		}
		t := time.Date(wall.Year(), wall.Month(), wall.Day(), wall.Hour(), wall.Minute(), wall.Second(), 0, zone)
		if t.Format(layout) != text { // in a gap: by the clock before it
			_, offset := t.Add(-24 * time.Hour).Zone()
			t = wall.Add(-time.Duration(offset) * time.Second)
		}
		return t.UTC(), nil
	}
	return time.Time{}, &job.Problem{Field: "at", Problem: "it is not a time", Fix: "write for example 2027-01-31T09:00:00Z, or 2027-01-31T09:00 in the job's zone"}
}

// Params asks for the stories of a job.
type Params struct {
	Namespace uuid.UUID
	Job       uuid.UUID
	At        string // as ParseWhen reads it, in the zone of the job; empty: the last and the next occurrence
}
