package timeline_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/belfry-dev/belfry/internal/auditor"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/ledger"
	"github.com/belfry-dev/belfry/internal/schedule"
	"github.com/belfry-dev/belfry/internal/timeline"
)

var id = uuid.MustParse("01990000-0000-7000-8000-000000000001")

func at(text string) time.Time {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{} // its test fails then
	}
	return t
}

// compile returns nil for a schedule that is not valid.
func compile(spec schedule.Spec) *schedule.Schedule {
	s, err := schedule.New(spec, id.String())
	if err != nil {
		return nil
	}
	return s
}

// show is the items as strings.
func show(t *timeline.Timeline) (out []string) {
	for _, i := range t.Items {
		text := i.DueAt.Format("02 15:04") + " " + string(i.State)
		if i.Reason != "" {
			text += " " + string(i.Reason)
		}
		if i.Mark != "" {
			text += " " + string(i.Mark)
		}
		if i.Entry != nil && i.Entry.Seq > 0 {
			text += fmt.Sprintf(" #%d", i.Entry.Seq)
		}
		if i.Count > 0 {
			text += fmt.Sprintf(" x%d", i.Count)
		}
		out = append(out, text)
	}
	return out
}

// base is an hourly job that was created at 00:30 on the first, at 06:30, planned until 07:00.
func base() timeline.Facts {
	return timeline.Facts{
		From: at("2026-03-01T00:00:00Z"), To: at("2026-03-01T09:00:00Z"),
		Life: ledger.Life{
			ID: id, Now: at("2026-03-01T06:30:00Z"), State: job.Active, NextDue: at("2026-03-01T08:00:00Z"),
			HistoryFrom: at("2026-02-01T00:00:00Z"),
			Versions: []ledger.Version{{
				Number: 1, From: at("2026-03-01T00:30:00Z"), Schedule: compile(schedule.Spec{Cron: "0 * * * *"}),
			}},
		},
	}
}

func ran(hour int, status job.RunStatus) job.Entry {
	due := at("2026-03-01T00:00:00Z").Add(time.Duration(hour) * time.Hour)
	e := job.Entry{Key: job.Key{Job: id, DueAt: due}, Status: status, Version: 1, RunAt: due, StartedAt: due, Attempt: 1}
	if !status.Live() {
		e.EndedAt = due.Add(time.Second)
	}
	return e
}

func TestBuild(t *testing.T) {
	t.Parallel()
	hour := func(h int) time.Time { return at("2026-03-01T00:00:00Z").Add(time.Duration(h) * time.Hour) }
	for about, c := range map[string]struct {
		change func(*timeline.Facts)
		want   []string
	}{
		"each kind": {func(f *timeline.Facts) {
			redriven := ran(2, job.StatusFailed)
			redriven.EndedAt = redriven.EndedAt.Add(-time.Millisecond)
			trigger := ran(2, job.StatusSucceeded)
			trigger.Seq, trigger.Origin = 1, job.FromTrigger
			pause := ran(3, job.StatusSkipped)
			pause.DueTo, pause.Count, pause.Reason = hour(4), 2, job.ReasonPaused
			f.Entries = []job.Entry{
				ran(1, job.StatusSucceeded), ran(2, job.StatusSucceeded), redriven, trigger, pause,
				ran(6, job.StatusRunning), ran(7, job.StatusPending),
			}
			f.Versions[0].Skips = []job.Skip{{From: hour(-4), To: hour(5), Count: 9, Reason: job.ReasonMissed}}
		}, []string{
			"01 01:00 succeeded", "01 02:00 succeeded", "01 02:00 succeeded #1", "01 03:00 skipped paused",
			"01 04:00 skipped paused", "01 05:00 skipped missed", "01 06:00 running", "01 07:00 pending",
			"01 08:00 planned",
		}},
		"paused now": {func(f *timeline.Facts) {
			f.State, f.PlanFrom, f.PausedUntil = job.Paused, hour(4), hour(8)
			f.Entries = []job.Entry{ran(1, job.StatusSucceeded), ran(2, job.StatusSucceeded), ran(3, job.StatusFailed)}
			f.Versions[0].Skips = []job.Skip{{From: hour(5), To: hour(5), Count: 1, Reason: job.ReasonMissed}}
		}, []string{
			"01 01:00 succeeded", "01 02:00 succeeded", "01 03:00 failed", "01 04:00 paused", "01 05:00 paused",
			"01 06:00 paused", "01 07:00 paused", "01 08:00 planned",
		}},
		"behind": {func(f *timeline.Facts) {
			f.Entries, f.NextDue = []job.Entry{ran(1, job.StatusSucceeded)}, hour(4)
		}, []string{
			"01 01:00 succeeded", "01 02:00 unknown", "01 03:00 unknown", "01 04:00 due", "01 05:00 due", "01 06:00 due",
			"01 07:00 planned", "01 08:00 planned",
		}},
		"edited, and its first cursor is gone": {func(f *timeline.Facts) {
			f.Versions[0].CursorGone = true
			f.Versions = append(f.Versions, ledger.Version{
				Number: 2, From: hour(4), Schedule: compile(schedule.Spec{Cron: "30 */2 * * *"}),
			})
			f.Entries, f.NextDue = []job.Entry{ran(1, job.StatusSucceeded), ran(4, job.StatusSucceeded)}, hour(6)
		}, []string{
			"01 01:00 succeeded", "01 02:00 forgotten", "01 03:00 forgotten", "01 04:00 succeeded", "01 04:30 unknown",
			"01 06:30 due", "01 08:30 planned",
		}},
		"deleted": {func(f *timeline.Facts) {
			f.State, f.DeletedAt, f.NextDue = 0, hour(3).Add(30*time.Minute), time.Time{}
			f.Entries = []job.Entry{ran(1, job.StatusSucceeded), ran(2, job.StatusSucceeded), ran(3, job.StatusSucceeded)}
		}, []string{"01 01:00 succeeded", "01 02:00 succeeded", "01 03:00 succeeded"}},
		"deleted, it is not known when": {func(f *timeline.Facts) {
			pause := ran(2, job.StatusSkipped)
			pause.DueTo, pause.Count, pause.Reason = hour(4), 3, job.ReasonPaused
			f.State, f.Entries = 0, []job.Entry{ran(1, job.StatusSucceeded), pause}
		}, []string{"01 01:00 succeeded", "01 02:00 skipped paused x3"}},
		"unreadable": {func(f *timeline.Facts) {
			pause := ran(2, job.StatusSkipped)
			pause.DueTo, pause.Count, pause.Reason = hour(4), 3, job.ReasonPaused
			f.Versions[0].Schedule, f.Entries = nil, []job.Entry{ran(1, job.StatusSucceeded), pause}
		}, []string{"01 01:00 succeeded", "01 02:00 skipped paused x3"}},
		"before history": {func(f *timeline.Facts) {
			f.HistoryFrom, f.NextDue = hour(3).Add(-24*time.Hour), hour(7)
			f.Entries = []job.Entry{ran(5, job.StatusSucceeded)}
		}, []string{
			"01 03:00 unknown", "01 04:00 unknown", "01 05:00 succeeded", "01 06:00 unknown", "01 07:00 planned",
			"01 08:00 planned",
		}},
		"before history, archived": {func(f *timeline.Facts) {
			f.HistoryFrom, f.NextDue = hour(3), hour(7)
			f.Archived = map[time.Time]bool{hour(3).Truncate(24 * time.Hour): true}
			f.Entries = []job.Entry{ran(2, job.StatusSucceeded), ran(5, job.StatusSucceeded)}
		}, []string{
			"01 01:00 archived", "01 02:00 succeeded", "01 05:00 succeeded", "01 07:00 planned", "01 08:00 planned",
		}},
		"a window of the past": {func(f *timeline.Facts) {
			f.To, f.Replaced, f.State, f.PlanFrom = hour(4), true, job.Paused, hour(1)
			f.Entries = []job.Entry{ran(1, job.StatusSucceeded), ran(2, job.StatusSucceeded), ran(3, job.StatusFailed)}
		}, []string{"01 01:00 succeeded", "01 02:00 succeeded", "01 03:00 failed"}},
	} {
		f := base()
		c.change(&f)
		got := timeline.Build(f)
		require.Equal(t, c.want, show(got), about)
		require.False(t, got.Partial, about)
	}
}

func TestClockChangesAndCalendars(t *testing.T) {
	t.Parallel()
	f := base()
	f.From, f.To, f.Now = at("2026-03-28T00:00:00Z"), at("2026-04-01T00:00:00Z"), at("2026-03-27T00:00:00Z")
	f.NextDue = f.Now
	f.Versions[0].Schedule = compile(schedule.Spec{
		Cron: "30 2 * * *", Timezone: "Europe/Berlin",
		Calendars: []schedule.Calendar{{Dates: []string{"2026-03-30"}}},
	})
	require.Equal(t, []string{
		"28 01:30 planned", "29 01:00 planned shifted", "30 00:30 skipped calendar", "31 00:30 planned",
	}, show(timeline.Build(f)))
	f.Versions[0].Schedule = compile(schedule.Spec{
		Cron: "30 2 * * *", Timezone: "Europe/Berlin", DST: schedule.DST{Gap: "skip", Fold: "both"},
	})
	require.Equal(t, []string{
		"28 01:30 planned", "29 01:00 skipped dst_gap", "30 00:30 planned", "31 00:30 planned",
	}, show(timeline.Build(f)))
}

// TestBounds: a timeline with too much in it covers the newest of the past and the next of the future, and is exact
// there.
func TestBounds(t *testing.T) {
	t.Parallel()
	f := base()
	f.Versions[0].Schedule = compile(schedule.Spec{Every: "1s"})
	f.Versions[0].From = at("2020-01-01T00:00:00Z")
	f.From, f.To, f.NextDue = f.Now.AddDate(0, 0, -14), f.Now.AddDate(0, 0, 7), f.Now
	got := timeline.Build(f)
	require.True(t, got.Partial)
	require.Less(t, f.Now.Sub(got.From), timeline.MaxOccurrences*time.Second+time.Minute)
	require.Greater(t, f.Now.Sub(got.From), timeline.MaxOccurrences/2*time.Second)
	require.WithinDuration(t, f.Now.Add(timeline.MaxOccurrences*time.Second), got.To, 2*time.Second)
	require.Len(t, got.Items, int(got.To.Sub(got.From)/time.Second))
	var sum int64
	buckets := got.Buckets(f.From, f.To, time.UTC)
	require.Equal(t, got.From, buckets[0].From)
	require.Equal(t, got.To, buckets[len(buckets)-1].To)
	for i, b := range buckets {
		require.EqualValues(t, b.To.Sub(b.From)/time.Second, total(b), "%+v", b)
		sum += total(b)
		if i > 0 {
			require.Equal(t, buckets[i-1].To, b.From)
		}
	}
	require.EqualValues(t, len(got.Items), sum)

	f = base()
	f.Known = at("2026-03-01T03:00:00Z")
	got = timeline.Build(f)
	require.True(t, got.Partial)
	require.Equal(t, f.Known, got.From)
}

// TestEachOccurrenceOnce compares timelines of random histories with what the auditor expects, by the oracle: each
// expected occurrence is one item, each run is one item, and there is nothing else.
func TestEachOccurrenceOnce(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		h := newHistory(t)
		got := timeline.Build(h.facts)
		if got.Partial {
			t.Fatal("partial")
		}
		items := map[job.RunKey]int{}
		for _, i := range got.Items {
			if i.Reason == job.ReasonGap { // not a due time
				continue
			}
			key := job.RunKey{DueAt: i.DueAt.UnixMicro()}
			if i.Entry != nil {
				key.Seq = i.Entry.Seq
			}
			items[key]++
			if i.State == timeline.Unknown {
				t.Fatalf("%s is not explained", i.DueAt)
			}
		}
		keys := h.users
		for _, due := range h.expected(t) {
			keys = append(keys, job.Key{DueAt: due})
		}
		for _, k := range keys {
			key := job.RunKey{DueAt: k.DueAt.UnixMicro(), Seq: k.Seq}
			if items[key] != 1 {
				t.Fatalf("%s #%d is there %d times\n%v", k.DueAt, k.Seq, items[key], show(got))
			}
			delete(items, key)
		}
		if len(items) > 0 {
			t.Fatalf("not expected: %v\n%v", items, show(got))
		}
		var sum int64
		for _, b := range got.Buckets(h.facts.From, h.facts.To, h.facts.Zone()) {
			sum += total(b)
		}
		if sum != int64(len(got.Items)) {
			t.Fatalf("the buckets have %d, the items are %d", sum, len(got.Items))
		}
	})
}

// history is a random life of a job: versions, and what happened to each occurrence.
type history struct {
	facts timeline.Facts
	specs []schedule.Spec
	users []job.Key
}

// newHistory draws a life of two days before Now and a day after.
func newHistory(t *rapid.T) *history {
	now := at(rapid.SampledFrom([]string{
		"2026-03-30T12:34:56Z", "2026-10-26T00:15:00Z", "2026-06-10T09:00:00Z",
	}).Draw(t, "now"))
	h := &history{facts: timeline.Facts{
		From: now.Add(-48 * time.Hour), To: now.Add(24 * time.Hour),
		Life: ledger.Life{ID: id, Now: now, State: job.Active, HistoryFrom: now.AddDate(0, 0, -30)},
	}}
	f := &h.facts
	from := now.Add(-time.Duration(rapid.IntRange(1, 72*60).Draw(t, "age")) * time.Minute)
	for n := range rapid.IntRange(1, 3).Draw(t, "versions") {
		spec := schedule.Spec{
			Cron:     rapid.SampledFrom([]string{"*/20 * * * *", "30 * * * *", "15 2,3 * * *", "0 0-6 * * *"}).Draw(t, "cron"),
			Timezone: rapid.SampledFrom([]string{"", "Europe/Berlin"}).Draw(t, "zone"),
			DST:      schedule.DST{Gap: rapid.SampledFrom([]schedule.Gap{"shift", "skip"}).Draw(t, "gap")},
		}
		h.specs = append(h.specs, spec)
		f.Versions = append(f.Versions, ledger.Version{Number: int32(n + 1), From: from, Schedule: compile(spec)})
		from = from.Add(time.Duration(rapid.Int64Range(0, int64(now.Sub(from))).Draw(t, "in force")))
	}
	for i := range f.Versions {
		to := now
		if i+1 < len(f.Versions) {
			to = f.Versions[i+1].From
		}
		h.live(t, i, to)
	}
	last := &f.Versions[len(f.Versions)-1]
	next, err := last.Schedule.Next(now)
	if err == nil {
		f.NextDue = next.UTC()
	}
	if rapid.Bool().Draw(t, "planned ahead") && err == nil {
		f.Entries = append(f.Entries, job.Entry{
			Key: job.Key{Job: id, DueAt: next.UTC()}, Status: job.StatusPending, RunAt: next.UTC(),
		})
		if next, err = last.Schedule.Next(next); err == nil {
			f.NextDue = next.UTC()
		}
	}
	return h
}

// live decides what happened to the occurrences of a version: runs, ranges of its own and of its cursor, user's runs.
func (h *history) live(t *rapid.T, version int, to time.Time) {
	f := &h.facts
	v := &f.Versions[version]
	var due []time.Time
	for o := range v.Schedule.All(v.From, to) {
		if o.Skip == "" {
			due = append(due, o.Due.UTC())
		}
	}
	for len(due) > 0 {
		n := min(rapid.IntRange(1, 6).Draw(t, "some"), len(due))
		some := due[:n]
		due = due[n:]
		switch rapid.SampledFrom([]string{"ran", "redriven", "own", "cursor", "both", "user"}).Draw(t, "fate") {
		case "own":
			h.skip(some, job.ReasonPaused)
		case "cursor":
			v.Skips = append(v.Skips, job.Skip{From: some[0], To: some[n-1], Count: int64(n), Reason: job.ReasonMissed})
		case "both": // the range of the cursor also has occurrences that the job has accounted for
			v.Skips = append(v.Skips, job.Skip{From: some[0], To: some[n-1], Count: int64(n), Reason: job.ReasonMissed})
			h.run(some[0], job.StatusSucceeded, 0)
		case "redriven":
			for _, at := range some {
				h.run(at, job.StatusFailed, 0)
				h.run(at, rapid.SampledFrom([]job.RunStatus{job.StatusSucceeded, job.StatusRunning}).Draw(t, "again"), 0)
			}
		case "user":
			h.users = append(h.users, h.run(some[0], job.StatusSucceeded, 7))
			fallthrough
		default:
			for _, at := range some {
				h.run(at, job.StatusSucceeded, 0)
			}
		}
	}
	f.Entries = slices.DeleteFunc(f.Entries, func(e job.Entry) bool { // as the store reads them
		return e.DueAt.Before(f.From) && e.DueTo.Before(f.From)
	})
	h.users = slices.DeleteFunc(h.users, func(k job.Key) bool { return k.DueAt.Before(f.From) })
}

func (h *history) run(due time.Time, status job.RunStatus, seq int16) job.Key {
	e := job.Entry{Key: job.Key{Job: id, DueAt: due, Seq: seq}, Status: status, RunAt: due, StartedAt: due, Attempt: 1}
	if !status.Live() {
		e.EndedAt = due.Add(time.Duration(len(h.facts.Entries)+1) * time.Millisecond)
	}
	h.facts.Entries = append(h.facts.Entries, e)
	return e.Key
}

func (h *history) skip(due []time.Time, reason job.Reason) {
	h.facts.Entries = append(h.facts.Entries, job.Entry{
		Key: job.Key{Job: id, DueAt: due[0]}, Status: job.StatusSkipped, Reason: reason,
		DueTo: due[len(due)-1], Count: int64(len(due)), EndedAt: due[len(due)-1],
	})
}

// expected lists the due times by the auditor, which asks the oracle.
func (h *history) expected(t *rapid.T) (out []time.Time) {
	f := &h.facts
	times := auditor.NewTimes(true)
	for i, v := range f.Versions {
		to := f.To.Add(-time.Microsecond)
		if i+1 < len(f.Versions) {
			to = f.Versions[i+1].From
		}
		spec, err := json.Marshal(h.specs[i])
		if err != nil {
			t.Fatal(err)
		}
		from := f.From.Add(-time.Microsecond)
		if v.From.After(from) {
			from = v.From
		}
		if !from.Before(to) {
			continue
		}
		due, byOracle, err := times.Due(spec, id, auditor.Window{From: from, To: to})
		if err != nil || !byOracle {
			t.Fatal(byOracle, err)
		}
		out = append(out, due...)
	}
	return out
}

// A backfill may reach back before the job was created. Its runs have the marks of the clock change all the same.
func TestBackfillsHaveMarks(t *testing.T) {
	t.Parallel()
	backfill := func(due string) job.Entry {
		return job.Entry{
			Key: job.Key{Job: id, DueAt: at(due), Seq: 1}, Origin: job.FromBackfill, Status: job.StatusSucceeded, Version: 1,
			EndedAt: at("2026-11-16T10:00:00Z"),
		}
	}
	line := timeline.Build(timeline.Facts{
		From: at("2026-03-28T00:00:00Z"), To: at("2026-10-27T00:00:00Z"),
		Life: ledger.Life{
			ID: id, Now: at("2026-11-16T10:00:00Z"), State: job.Active,
			Versions: []ledger.Version{{
				Number: 1, From: at("2026-11-16T09:00:00Z"),
				Schedule: compile(schedule.Spec{Cron: "30 2 * * *", Timezone: "Europe/Berlin"}),
			}},
		},
		Entries: []job.Entry{
			backfill("2026-03-29T01:00:00Z"), backfill("2026-10-24T00:30:00Z"), backfill("2026-10-25T00:30:00Z"),
			backfill("2026-10-26T01:30:00Z"),
		},
	})
	require.Equal(t, []string{
		"29 01:00 succeeded shifted #1", "24 00:30 succeeded #1", "25 00:30 succeeded first_pass #1", "26 01:30 succeeded #1",
	}, show(line))
}

// total is the number of all occurrences of a bucket.
func total(b timeline.Bucket) int64 {
	return b.Succeeded + b.Failed + b.Cancelled + b.Skipped + b.Missed + b.Live + b.Planned + b.Paused +
		b.Archived + b.Unknown
}
