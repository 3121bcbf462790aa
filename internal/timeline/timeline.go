package timeline

import (
	"cmp"
	"slices"
	"time"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/ledger"
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
	ranges    []job.Skip     // of the job's own history
	own       ledger.Ranges
	skips     []ledger.Ranges // of the cursor of each version
	inexact   bool            // a part of a range could not be counted
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
	b.scheduled, b.backfills = make(map[int64]int, len(b.Entries)), map[int64]bool{}
	b.items = make([]Item, 0, len(b.Entries))
	for i := range b.Entries {
		e := &b.Entries[i]
		if !e.DueTo.IsZero() {
			b.ranges = append(b.ranges, job.Skip{From: e.DueAt, To: e.DueTo, Count: e.Count, Reason: e.Reason})
			continue
		}
		if n := len(b.items); n > 0 && b.items[n-1].Entry.RunKey() == e.RunKey() {
			continue // an earlier end of the same run
		}
		if e.Origin == job.FromBackfill {
			b.backfills[e.DueAt.UnixMicro()] = true
		}
		if e.Seq == 0 {
			b.scheduled[e.DueAt.UnixMicro()] = len(b.items)
		}
		b.items = append(b.items, Item{DueAt: e.DueAt, State: State(e.Status), Reason: e.Reason, Version: e.Version, Entry: e})
	}
	b.own, b.skips = ledger.NewRanges(b.ranges), make([]ledger.Ranges, len(b.Versions))
	for i := range b.Versions {
		b.skips[i] = ledger.NewRanges(b.Versions[i].Skips)
	}
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

// states are the states of occurrences without a run. The others are left out: they are not the job's, or no longer known.
var states = map[ledger.Fate]State{
	ledger.Skipped: Skipped, ledger.Paused: Paused, ledger.Planned: Planned, ledger.Unplanned: Due,
	ledger.Archived: Archived, ledger.Forgotten: Forgotten, ledger.Missing: Unknown,
}

// explain returns what happened to an occurrence without a run. An empty state means that it is left out.
func (b *builder) explain(o *occurrence) (State, job.Reason) {
	fate, reason := b.Account(o.Due, o.version, ledger.Evidence{
		Removed: job.Reason(o.Skip), Own: b.own.Cover(o.Due).Reason, Cursor: b.skips[o.version].Cover(o.Due).Reason,
		Backfilled: b.backfills[o.Due.UnixMicro()], Archived: b.Archived[o.Due.UTC().Truncate(24*time.Hour)],
	})
	return states[fate], reason
}

// markBackfills marks the runs of backfills as their occurrences are. Those may be older than the job.
func (b *builder) markBackfills() {
	for i := range b.items {
		item := &b.items[i]
		if item.Entry == nil || item.Entry.Origin != job.FromBackfill {
			continue
		}
		if s := b.scheduleOf(item.Entry.Version); s != nil {
			if o, ok := s.At(item.DueAt); ok && o.Skip == "" {
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
	for _, s := range b.ranges {
		version, ok := b.At(s.From)
		if listed := ok && b.Versions[version].Schedule != nil; listed || s.To.Before(b.from) || !s.From.Before(b.to) {
			continue
		}
		item := Item{DueAt: s.From, State: Skipped, Reason: s.Reason, LastDueAt: s.To, Count: s.Count}
		if s.From.Before(b.from) {
			item.DueAt, item.Count, b.inexact = b.from, 0, true // a part of it
		}
		b.items = append(b.items, item)
	}
}
