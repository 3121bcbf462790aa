package timeline

import (
	"cmp"
	"slices"
	"time"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/schedule"
)

// State is what happened to an occurrence: the state of its run, or one of these.
type State string

// The states of occurrences without a run. Those that were skipped have the state skipped, as runs do.
const (
	Planned   State = "planned"   // it is not due yet
	Paused    State = "paused"    // the job is paused, and its resume decides
	Due       State = "due"       // its time has come and no node has planned it yet
	Forgotten State = "forgotten" // no entry, and what its cursor skipped is no longer known
	Archived  State = "archived"  // as forgotten, and the archive has its day
	Unknown   State = "unknown"   // no entry and no reason: this must not happen
	Skipped         = State(job.StatusSkipped)
)

// Item is an occurrence, a run that a user made, or a range of skipped occurrences that cannot be listed one by one.
type Item struct {
	DueAt   time.Time
	State   State
	Reason  job.Reason
	Mark    schedule.Mark // what a clock change did to it
	Nominal string        // the local time that does not exist
	Version int32         // of its run, or the one that was in force
	Entry   *job.Entry    // nil if the ledger has no entry for it alone

	LastDueAt time.Time // of a range: its last due time
	Count     int64     // of a range; 0 if they were not counted
}

// Timeline is what a job did and will do.
type Timeline struct {
	From, To time.Time // due times that are covered: from is inclusive, to is exclusive
	Partial  bool      // less is covered than was asked for, or a range could not be counted
	Items    []Item    // by due time
}

// Build puts a timeline together.
func Build(f Facts) *Timeline {
	b := builder{Facts: f}
	list := b.cover()
	b.readEntries()
	for _, o := range list {
		b.add(o)
	}
	b.markBackfills()
	b.addRanges()
	items := slices.DeleteFunc(b.items, func(i Item) bool { return i.DueAt.Before(b.from) || !i.DueAt.Before(b.to) })
	slices.SortStableFunc(items, func(a, b Item) int {
		return cmp.Or(a.DueAt.Compare(b.DueAt), cmp.Compare(seq(a), seq(b)))
	})
	partial := b.inexact || b.from.After(f.From) || b.to.Before(f.To)
	return &Timeline{From: b.from, To: b.to, Partial: partial, Items: items}
}

func seq(i Item) int16 {
	if i.Entry == nil {
		return 0
	}
	return i.Entry.Seq
}

type builder struct {
	Facts
	from, to time.Time // what is covered
	items    []Item

	scheduled map[int64]int  // the items of runs by schedule, by their due time in microseconds
	backfills map[int64]bool // due times that a user has run since
	last      []time.Time    // of each version: the last due time with an entry by schedule
	own       ranges
	skips     []ranges // of the cursor of each version
	planned   int32
	inexact   bool // a part of a range could not be counted
}

// cover decides which part of the window is covered, and lists its occurrences.
func (b *builder) cover() []occurrence {
	b.from, b.to = latest(b.From, b.Known), b.To
	now := latest(b.from, earliest(b.Now.Add(time.Nanosecond), b.to))
	past, from := b.newest(b.from, now, MaxOccurrences)
	b.from = from
	future, reached := b.list(now, b.to, MaxOccurrences)
	if !reached.IsZero() {
		b.to = reached
	}
	return append(past, future...)
}

// readEntries adds an item for each run, with its last state, and indexes the entries.
func (b *builder) readEntries() {
	newest := make(map[job.RunKey]int, len(b.Entries))
	b.scheduled, b.backfills = make(map[int64]int, len(b.Entries)), map[int64]bool{}
	b.items, b.last = make([]Item, 0, len(b.Entries)), make([]time.Time, len(b.Versions))
	for i := range b.Entries {
		e := &b.Entries[i]
		if !e.DueTo.IsZero() {
			b.own.all = append(b.own.all, job.Skip{From: e.DueAt, To: e.DueTo, Count: e.Count, Reason: e.Reason})
			continue
		}
		item := Item{DueAt: e.DueAt, State: State(e.Status), Reason: e.Reason, Version: e.Version, Entry: e}
		at, known := newest[e.RunKey()]
		if known && !end(b.items[at].Entry).Before(end(e)) {
			continue
		}
		if known {
			b.items[at] = item
			continue
		}
		newest[e.RunKey()] = len(b.items)
		if e.Origin == job.FromBackfill {
			b.backfills[e.DueAt.UnixMicro()] = true
		}
		if e.Seq == 0 {
			b.scheduled[e.DueAt.UnixMicro()] = len(b.items)
			if v, ok := b.versionAt(e.DueAt); ok {
				b.last[v] = latest(b.last[v], e.DueAt)
			}
		}
		b.items = append(b.items, item)
	}
	b.own.sort()
	b.skips = make([]ranges, len(b.Versions))
	for i := range b.Versions {
		b.skips[i].all = slices.Clone(b.Versions[i].Skips)
		b.skips[i].sort()
	}
}

// end is when a run ended. A live run ends after all others.
func end(e *job.Entry) time.Time {
	if e.EndedAt.IsZero() {
		return time.Unix(1<<40, 0)
	}
	return e.EndedAt
}

// versionAt returns the version whose occurrences are listed at a time.
func (b *builder) versionAt(due time.Time) (int, bool) {
	for i := range b.Versions {
		if from, to := b.inForce(i); due.After(from) && !due.After(to) && b.Versions[i].Schedule != nil {
			return i, true
		}
	}
	return 0, false
}

// add adds the item of an occurrence, unless its run has one or it was not the job's.
func (b *builder) add(o occurrence) {
	due := o.Due.UTC()
	at, ran := b.scheduled[due.UnixMicro()]
	if ran && o.Skip == "" {
		b.items[at].Mark, b.items[at].Nominal = o.Mark, o.Nominal
		return
	}
	item := Item{DueAt: due, Mark: o.Mark, Nominal: o.Nominal, Version: b.Versions[o.version].Number}
	if item.State, item.Reason = b.explain(&o); item.State != "" {
		b.items = append(b.items, item)
	}
}

// beforeDelete: when exactly a job was deleted is not stored, only when the audit log was written, slightly later. What
// is due shortly before may have been taken back.
const beforeDelete = time.Minute

// explain returns what happened to an occurrence without a run. An empty state means that it was not the job's.
func (b *builder) explain(o *occurrence) (State, job.Reason) {
	due, future := o.Due, o.Due.After(b.Now)
	current := b.current(o.version)
	switch {
	case b.State == 0 && due.After(b.DeletedAt.Add(-beforeDelete)):
		return "", ""
	case future && b.State != job.Active && b.State != job.Paused, future && b.usedUp():
		return "", ""
	case o.Skip != "":
		if !future && b.exhausted(o) {
			return "", ""
		}
		return Skipped, job.Reason(o.Skip)
	case current && b.State == job.Paused && !due.Before(b.PlanFrom):
		if b.PausedUntil.IsZero() || due.Before(b.PausedUntil) {
			return Paused, ""
		}
	}
	if reason, ok := b.own.cover(due); ok {
		return Skipped, reason
	}
	if reason, ok := b.skips[o.version].cover(due); ok {
		return Skipped, reason
	}
	switch {
	case future:
		b.planned++
		return Planned, ""
	case current && b.State == job.Active && !b.NextDue.IsZero() && !due.Before(b.NextDue):
		return Due, ""
	case b.backfills[due.UnixMicro()]: // it was lost, and its backfill stands for it
		return "", ""
	case !b.exhausted(o) && due.Before(b.HistoryFrom) && b.Archived[due.UTC().Truncate(24*time.Hour)]:
		return Archived, ""
	case b.exhausted(o), due.Before(b.HistoryFrom.Add(24 * time.Hour)): // the first day of history is not complete
		return "", ""
	case b.Versions[o.version].CursorGone:
		return Forgotten, ""
	}
	return Unknown, ""
}

// usedUp reports whether all runs that the job has left are planned.
func (b *builder) usedUp() bool { return b.RunsLeft != nil && b.planned >= *b.RunsLeft }

// exhausted reports whether the job had all its runs before an occurrence.
func (b *builder) exhausted(o *occurrence) bool {
	later := b.last[o.version].After(o.Due) || o.version == len(b.Versions)-1 && b.LaterRun
	return b.limited(o.version) && !later
}

// markBackfills marks the runs of backfills as their occurrences are. Those may be older than the job.
func (b *builder) markBackfills() {
	for i := range b.items {
		item := &b.items[i]
		if item.Entry == nil || item.Entry.Origin != job.FromBackfill {
			continue
		}
		s := b.scheduleOf(item.Entry.Version)
		if s == nil {
			continue
		}
		for _, o := range s.Between(item.DueAt.Add(-time.Nanosecond), item.DueAt, 2) {
			if o.Skip == "" {
				item.Mark, item.Nominal = o.Mark, o.Nominal
			}
		}
	}
}

// scheduleOf returns the schedule of a version, or the newest one if that version was not in force in the window.
func (b *builder) scheduleOf(version int32) (s *schedule.Schedule) {
	for i := range b.Versions {
		if s = b.Versions[i].Schedule; b.Versions[i].Number == version {
			return s
		}
	}
	return s
}

// addRanges adds the ranges of the job's own history whose occurrences could not be listed.
func (b *builder) addRanges() {
	for _, s := range b.own.all {
		if _, listed := b.versionAt(s.From); listed || s.To.Before(b.from) || !s.From.Before(b.to) {
			continue
		}
		item := Item{DueAt: s.From, State: Skipped, Reason: s.Reason, LastDueAt: s.To, Count: s.Count}
		if s.From.Before(b.from) {
			item.DueAt, item.Count, b.inexact = b.from, 0, true // a part of it
		}
		b.items = append(b.items, item)
	}
}

// ranges finds the range that covers a due time. The times must be asked for in order.
type ranges struct {
	all    []job.Skip
	next   int
	active []job.Skip
}

func (r *ranges) sort() {
	slices.SortFunc(r.all, func(a, b job.Skip) int { return a.From.Compare(b.From) })
}

func (r *ranges) cover(due time.Time) (job.Reason, bool) {
	for ; r.next < len(r.all) && !r.all[r.next].From.After(due); r.next++ {
		r.active = append(r.active, r.all[r.next])
	}
	r.active = slices.DeleteFunc(r.active, func(s job.Skip) bool { return s.To.Before(due) })
	if len(r.active) == 0 {
		return "", false
	}
	return r.active[0].Reason, true
}
