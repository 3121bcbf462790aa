package why

import (
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/auditor"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/ledger"
	"github.com/belfry-dev/belfry/internal/problem"
	"github.com/belfry-dev/belfry/internal/schedule"
)

// Code says in one word what happened to an occurrence. Users switch on it, so it never changes.
type Code string

// The codes. The first group is for occurrences whose ledger entry says it all. The second group says what a due run
// waits for, or why there is no entry.
const (
	Succeeded Code = "succeeded"
	Failed    Code = "failed"
	Cancelled Code = "cancelled"
	Skipped   Code = "skipped" // Reason says why
	Running   Code = "running"
	Accepted  Code = "accepted" // by its target, which will report
	Retrying  Code = "retrying" // an attempt failed, and the next one will start
	Planned   Code = "planned"  // its run time has not come

	Deferred     Code = "deferred"      // deferred, because its target was busy
	QueuePaused  Code = "queue_paused"  // it is due, and its queue is paused
	QueueFull    Code = "queue_full"    // it is due, and waits for a permit of its queue
	QueueRate    Code = "queue_rate"    // it is due, and the rate of its queue is reached
	RunQuota     Code = "run_quota"     // it is due, and its namespace has started as many as its quota allows
	KeyFull      Code = "key_full"      // it is due, and waits for a run with its concurrency key to end
	Behind       Code = "behind"        // it is due, and waits for another run of its job
	Due          Code = "due"           // it is due, and waits for a slot or a node
	NotDue       Code = "not_due"       // it will be planned shortly before its time
	Paused       Code = "paused"        // not planned until the job is resumed
	CreatedLater Code = "created_later" // the job did not exist yet
	Deleted      Code = "deleted"       // the job no longer existed
	BeforeStart  Code = "before_start"
	AfterEnd     Code = "after_end"
	None         Code = "no_occurrence"
	Unplanned    Code = "unplanned" // its time has passed, and no node has planned it yet
	Forgotten    Code = "forgotten" // what the ledger had of it is no longer kept
	Archived     Code = "archived"  // as forgotten, and the archive has its day
	Unknown      Code = "unknown"   // there should be an entry, and there is none
)

// Facts is what the store knows about one time of a job.
type Facts struct {
	At time.Time
	ledger.Life
	In         int            // of Life.Versions: the one that decides At
	Definition job.Definition // of that version

	Created   time.Time // of the job
	Job       *job.Job  // as it is now, and in Life; nil if it is deleted
	DeletedBy string

	// Entries of the ledger at At or within the second after it, and a range that covers At, newest first.
	Entries []job.Entry
	Others  int // other runs of the job that are running or waiting
	Ahead   int // older runs of the job that are due and have not started

	Found   auditor.Kind // what the audit found wrong with it; empty if nothing
	FoundAt time.Time

	Owned       bool      // a live node owns the job's partition
	Problem     string    // why nodes cannot plan the schedule; empty if they can
	HeldUntil   time.Time // runs that are due before it are held, because the database was restored; zero: none
	Archived    bool      // the archive has the day of At
	QueuePaused time.Time // since when; zero if it is not paused
	QueueNote   string
	Queue       job.Queue // of the run: its limits, and how many runs are running and waiting
	RunQuota    int32     // how many runs the namespace may start per minute; 0: any number
	QuotaUsed   bool      // and has started as many
	KeyRunning  int       // live runs with the concurrency key of the job
	Workers     bool      // a worker asks for runs of the queue
	QueueBy     string    // who paused the queue; empty if not known
	CancelledBy string    // who cancelled the run; empty if no user did, or not known
}

// Story is what happened to one occurrence, and why.
type Story struct {
	At     time.Time
	Code   Code
	Reason job.Reason // of a skip, a failure or a cancellation
	Text   string     // what happened and why, for people
	Next   string     // what happens next, or what to do; empty if nothing
	// Commands are those of the CLI that a reader may want to run next, without the program. Each of them works for this
	// occurrence, and does what Next says.
	Commands [][]string
	Zone     *time.Location
	Version  int32       // of the definition that was in force; 0 if none was
	Nearest  []time.Time // if At is not an occurrence: the ones before and after it
	Entry    *job.Entry  // of the ledger; nil if there is none
}

// Explain explains an occurrence: what the ledger says or, if the ledger has no entry, why it has none.
func Explain(f Facts) Story {
	x := &explainer{Facts: f, zone: time.UTC}
	if s, err := schedule.New(f.Definition.Schedule, f.ID.String()); err == nil {
		x.schedule, x.zone = s, s.Zone()
	}
	story := x.explain()
	story.Next = strings.TrimSpace(x.nextStep(story))
	story.Commands = x.commands
	return story
}

// explainer turns facts into text.
type explainer struct {
	Facts
	schedule *schedule.Schedule // nil if this version cannot read it
	zone     *time.Location
	commands [][]string
	skipFor  string // why the schedule could not be planned when At was due; empty: it could
}

func (x *explainer) explain() Story {
	story := Story{At: x.At.UTC(), Version: x.Versions[x.In].Number, Zone: x.zone}
	e := x.findEntry()
	if e == nil {
		return x.describeMissing(story)
	}
	story.Entry, story.Reason, story.Version = e, e.Reason, e.Version
	if e.DueTo.IsZero() { // not a range
		story.At = e.DueAt
	}
	story.Code, story.Text = x.describe(*e)
	story.Text += x.shifted(story.At) + x.deletedSince() + x.found()
	return story
}

// findEntry returns the entry for At: that of the occurrence itself or of a run that a user made, or a range of
// occurrences. If At is no occurrence, it may be a run that a user made within that second.
func (x *explainer) findEntry() *job.Entry {
	fires := true
	if x.schedule != nil {
		o, ok := occurrenceAt(x.schedule, x.At)
		fires = ok && o.Skip == ""
	}
	rank := func(e *job.Entry) int {
		run, exact := e.DueTo.IsZero(), e.DueAt.Equal(x.At)
		switch {
		case run && exact && e.Seq == 0:
			return 4
		case run && exact:
			return 3
		case !run && fires:
			return 2
		case run && (!fires || x.schedule == nil):
			return 1
		default:
			return 0
		}
	}
	var found *job.Entry
	best := 0
	for i := range x.Entries {
		if r := rank(&x.Entries[i]); r > best {
			found, best = &x.Entries[i], r
		}
	}
	return found
}

// describeMissing explains why there is no entry.
func (x *explainer) describeMissing(story Story) Story {
	say := func(code Code, text string) Story {
		story.Code, story.Text = code, text
		return story
	}
	var o schedule.Occurrence
	var ok bool
	if x.schedule != nil {
		o, ok = occurrenceAt(x.schedule, x.At)
	}
	switch {
	case !x.At.After(x.Created) && (!ok || !x.Versions[x.In].OneOff):
		story.Version = 0
		return say(CreatedLater, x.sprintf("The job did not exist then: it was created at %s.", x.Created))
	case !x.DeletedAt.IsZero() && x.At.After(x.DeletedAt):
		return say(x.gone())
	case x.schedule == nil:
		return say(Unknown, "This version of Belfry cannot read the schedule that the job had then.")
	case !ok:
		return x.noOccurrence(story)
	}
	story.At = o.Due.UTC()
	skips := ledger.NewRanges(x.Versions[x.In].Skips)
	skip := skips.Cover(story.At)
	fate, reason := x.Account(story.At, x.In, ledger.Evidence{
		Removed: job.Reason(o.Skip), Cursor: skip.Reason, Archived: x.Archived,
	})
	story.Reason = reason
	switch {
	case o.Skip == schedule.ReasonGap && fate == ledger.Skipped:
		nominal := strings.Replace(o.Nominal, "T", " ", 1)
		return say(Skipped, x.doesNotRun(fmt.Sprintf(
			"the clock in %s is put forward past %s that day, and dst.gap is skip", x.zone, nominal)))
	case o.Skip == schedule.ReasonCalendar && fate == ledger.Skipped:
		return say(Skipped, x.doesNotRun("a calendar of the job excludes this time"))
	case fate == ledger.Skipped:
		x.skipFor = skip.Problem
		return say(Skipped, x.skipped(reason)+x.inRange(skip.Count, skip.From, skip.To))
	}
	story.Code, story.Text = x.withoutEntry(fate)
	story.Text += x.shifted(story.At)
	return story
}

// gone is for an occurrence of a job that was deleted.
func (x *explainer) gone() (Code, string) {
	if x.DeletedAt.IsZero() {
		return Forgotten, "It is no longer known: the job is deleted, and the audit log does not say when."
	}
	return Deleted, x.doesNotRun(x.sprintf("the job was deleted at %s%s", x.DeletedAt, by(x.DeletedBy))) +
		" Its history remains."
}

// withoutEntry explains an occurrence that has no entry and was not skipped.
func (x *explainer) withoutEntry(fate ledger.Fate) (Code, string) {
	future := x.At.After(x.Now)
	switch {
	case fate == ledger.Gone:
		return x.gone()
	case fate == ledger.Paused:
		return Paused, x.paused(future)
	case fate == ledger.Planned && x.State == job.Paused && !x.PausedUntil.IsZero():
		return NotDue, x.sprintf("It is not due yet: it is due in %s. The job is paused until %s. Belfry resumes it then.",
			x.At.Sub(x.Now), x.PausedUntil)
	case fate == ledger.Planned:
		return NotDue, x.sprintf("It is not due yet: it is due in %s.", x.At.Sub(x.Now))
	case fate == ledger.Unplanned:
		return Unplanned, x.unplanned()
	case fate == ledger.Archived:
		return Archived, x.sprintf("Its history is archived: the database keeps it from %s on.", x.HistoryFrom)
	case fate == ledger.Old:
		from := x.HistoryFrom
		if !x.At.Before(from) {
			from = x.Complete()
		}
		return Forgotten, x.sprintf("It is no longer known: history is kept from %s on.", from)
	case fate == ledger.Forgotten && x.Found != auditor.Missing:
		return Forgotten, "It has no entry of its own, and no job has the schedule of that time any longer, " +
			"so it is not known whether it was skipped with others in an outage. " + askOperator
	}
	text := "It is missing: the schedule has this occurrence and the ledger has no entry for it, which must not happen."
	if x.Found == auditor.Missing {
		text += x.sprintf(" The audit found it at %s.", x.FoundAt)
	}
	return Unknown, text
}

// unplanned says why no node has planned an occurrence that is due.
func (x *explainer) unplanned() string {
	late := x.Now.Sub(x.At)
	switch {
	case x.Problem != "":
		return x.sprintf("It is late by %s: nodes cannot plan its schedule: %s. When they can, %s.",
			late, x.Problem, x.whatMissedPolicyDoes())
	case x.Owned:
		return x.sprintf("It is late by %s: no node has planned it yet. "+
			"A node owns the job's partition and will plan it. If no node served the partition when it was due, %s.",
			late, x.whatMissedPolicyDoes())
	}
	return x.sprintf("It is late by %s: no live node owns the job's partition. When one does, %s.",
		late, x.whatMissedPolicyDoes())
}

// noOccurrence explains a time that is not an occurrence of the schedule.
func (x *explainer) noOccurrence(story Story) Story {
	spec := x.schedule.Spec()
	free := spec
	free.StartAt, free.EndAt = time.Time{}, time.Time{}
	if s, err := schedule.New(free, x.ID.String()); err == nil {
		if _, ok := occurrenceAt(s, x.At); ok {
			story.Code, story.Text = BeforeStart, x.doesNotRun("the job starts at "+x.when(spec.StartAt)+" (start_at)")
			if !spec.EndAt.IsZero() && !x.At.Before(spec.EndAt) {
				story.Code, story.Text = AfterEnd, x.doesNotRun("the job ends at "+x.when(spec.EndAt)+" (end_at)")
			}
			return story
		}
	}
	before, after := x.schedule.Around(x.At)
	story.Code = None
	story.Text = x.sprintf("The schedule (%s) has no occurrence at %s.", x.schedule, x.At)
	if !before.IsZero() {
		story.Nearest = append(story.Nearest, before)
		story.Text += x.sprintf(" The one before is %s.", before)
	}
	if !after.IsZero() {
		story.Nearest = append(story.Nearest, after)
		story.Text += x.sprintf(" The one after is %s.", after)
	}
	return story
}

// occurrenceAt returns the occurrence that is due at an instant, or the one whose local time a change of the clock
// removed there.
func occurrenceAt(s *schedule.Schedule, at time.Time) (found schedule.Occurrence, ok bool) {
	if found, ok = s.At(at); ok {
		return found, true
	}
	const gap = 3 * time.Hour // longer than any gap, except days skipped at the date line
	for _, o := range s.Between(at.Add(-gap), at.Add(gap), 2*int(gap/time.Second)) {
		if o.Nominal != "" && matchesReading(o, at) {
			return o, true
		}
	}
	return found, false
}

// matchesReading reports whether an instant is the local time that a gap removed, by the offset before the gap.
func matchesReading(o schedule.Occurrence, at time.Time) bool {
	_, offset := o.Due.Add(-time.Second).Zone()
	n, err := time.Parse("2006-01-02T15:04:05", o.Nominal)
	return err == nil && n.Add(-time.Duration(offset)*time.Second).Equal(at)
}

// ParseWhen reads the time of an occurrence: with an offset, or as local time in a zone.
func ParseWhen(text string, zone *time.Location) (time.Time, error) {
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t.UTC(), nil
	}
	for _, layout := range []string{
		"2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02 15:04:05", "2006-01-02 15:04",
	} {
		wall, err := time.Parse(layout, text)
		if err != nil {
			continue
		}
		t := time.Date(wall.Year(), wall.Month(), wall.Day(), wall.Hour(), wall.Minute(), wall.Second(), 0, zone)
		if t.Format(layout) != text { // in a gap: use the offset before it
			_, offset := t.Add(-24 * time.Hour).Zone()
			t = wall.Add(-time.Duration(offset) * time.Second)
		}
		return t.UTC(), nil
	}
	return time.Time{}, &problem.Problem{
		Field: "at", Problem: "it is not a time",
		Fix: "write for example 2027-01-31T09:00:00Z, or 2027-01-31T09:00 in the job's zone",
	}
}

// Params says which occurrences of a job to explain.
type Params struct {
	Namespace uuid.UUID
	Job       uuid.UUID
	At        string // for ParseWhen, in the job's zone
	Run       *job.Key

	// Without At and Run, the newest run of any origin, the last and the next occurrence, and the newest dead letters
	// are explained.
}
