package ledger_test

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/belfry-dev/belfry/internal/auditor"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/ledger"
	"github.com/belfry-dev/belfry/internal/schedule"
	"github.com/belfry-dev/belfry/internal/timeline"
	"github.com/belfry-dev/belfry/internal/why"
)

// TestEverybodyTellsTheSame: why, the timeline and the audit come to the same verdict about each instant of random
// histories, also of histories that must not happen. Each gets the facts as its store reads them.
func TestEverybodyTellsTheSame(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		h := newHistory(t)
		window := auditor.Window{From: h.Now.Add(-50 * time.Hour), To: h.Now.Add(6 * time.Hour)}
		if rapid.Bool().Draw(t, "part") {
			window.From = h.minutesAgo(t, "from", 60, 50*60)
			window.To = window.From.Add(time.Duration(rapid.IntRange(60, 50*60).Draw(t, "length")) * time.Minute)
		}
		line := timeline.Build(h.timelineFacts(window))
		var judged auditor.Report
		for _, due := range h.probes {
			if due.Before(window.From) || !due.Before(window.To) {
				continue
			}
			told := tellTimeline(line, due)
			if got := h.tellWhy(due); !h.agrees(told, got, due) {
				t.Fatalf("%s: %s in the timeline, %s by why", due, told, got)
			}
			at := auditor.Window{From: due.Add(-time.Microsecond), To: due}
			if !due.After(h.Complete()) || due.After(h.Now) {
				continue
			}
			r, ok := h.audit(t, at)
			switch got := tellAudit(&r); {
			case ok && h.Leaving(due) && r.Expected > 0:
				t.Fatalf("%s: the job may have been deleted, and the audit judged it", due)
			case ok && !h.Leaving(due) && !h.auditAgrees(told, got, due):
				t.Fatalf("%s: %s in the timeline, %s by the audit", due, told, got)
			}
			judged.Add(r)
		}
		window.From = slices.MaxFunc([]time.Time{window.From.Add(-time.Microsecond), h.Complete()}, time.Time.Compare)
		window.To = slices.MinFunc([]time.Time{window.To.Add(-time.Microsecond), h.Now}, time.Time.Compare)
		if !window.From.Before(window.To) {
			return
		}
		if all, _ := h.audit(t, window); all.String() != judged.String() {
			t.Fatalf("%s\nby the audit, of each instant\n%s", &all, &judged)
		}
	})
}

// verdict is what a reader says about an instant: of the occurrence, and of the run that a user made for it.
type verdict struct{ fate, user string }

// agrees compares why with the timeline. A run by a user is the story if the occurrence has no run. The timeline leaves
// out what is not the job's, and what is no longer known.
func (h *history) agrees(line, story verdict, due time.Time) bool {
	left := due.Before(h.Complete()) || h.State == 0 && h.DeletedAt.IsZero()
	return line == story || story.user != "" && line.user == story.user ||
		line.fate == "none" && story.fate == "unknown" && left
}

// auditAgrees compares the audit with the timeline. The audit does not judge how a run ended, and what the schedule
// leaves out is no occurrence for it. It sees the ranges of cursors that are gone.
func (h *history) auditAgrees(line, audit verdict, due time.Time) bool {
	want := line.fate
	switch want {
	case "succeeded", "failed":
		want = "ran"
	case "skipped: dst_gap", "skipped: calendar":
		want = "none"
	case "none":
		if line.user == "backfilled" {
			want = "backfilled"
		}
	}
	gone := want == "unknown" || want == "backfilled"
	return want == audit.fate || want == "unknown" && audit.fate == "missing" || gone && audit.fate == h.gone(due)
}

// gone is what the audit says about an occurrence that a cursor has skipped that is gone.
func (h *history) gone(due time.Time) string {
	version, _ := h.At(due)
	if h.alive[h.keys[version]] == h.cursors[version] {
		return "?"
	}
	for _, s := range h.skips[h.cursors[version]] {
		if !due.Before(s.From) && !due.After(s.To) {
			return "skipped: " + string(s.Reason)
		}
	}
	return "?"
}

// history is a random life of a job and what the ledger has of it.
type history struct {
	ledger.Life
	specs    []schedule.Spec // of the versions
	keys     []string        // of their schedules, as cursors have them
	cursors  []int           // of the versions; a cursor may be gone, and another one with its key be there
	alive    map[string]int
	skips    map[int][]job.Skip // of the cursors
	entries  []job.Entry
	archived map[time.Time]bool
	probes   []time.Time
}

var id = uuid.MustParse("01990000-0000-7000-8000-000000000001")

func (h *history) minutesAgo(t *rapid.T, what string, least, most int) time.Time {
	return between(t, what, h.Now.Add(-time.Duration(most)*time.Minute), h.Now.Add(-time.Duration(least)*time.Minute))
}

// between draws an instant of any part of a range, which may be one that is due. (rapid prefers small numbers.)
func between(t *rapid.T, what string, from, to time.Time) time.Time {
	part := rapid.SampledFrom([]int64{50, 30, 70, 10, 90, 0, 100}).Draw(t, what)
	at := from.Add(time.Duration(max(to.Sub(from).Microseconds(), 0) / 100 * part * 1000))
	at = at.Add(time.Duration(rapid.IntRange(-600, 600).Draw(t, "seconds")) * time.Second)
	if full := at.Truncate(20 * time.Minute); rapid.IntRange(0, 2).Draw(t, "full") == 0 {
		at = full
	}
	return slices.MaxFunc([]time.Time{from, slices.MinFunc([]time.Time{at, to}, time.Time.Compare)}, time.Time.Compare)
}

// newHistory draws a life of up to two days before Now and some hours after.
func newHistory(t *rapid.T) *history {
	now, err := time.Parse(time.RFC3339, rapid.SampledFrom([]string{
		"2026-03-29T10:34:56Z", "2026-10-25T10:20:00Z", "2026-06-10T09:00:00Z",
	}).Draw(t, "now"))
	if err != nil {
		t.Fatal(err)
	}
	h := &history{
		Life:  ledger.Life{ID: id, Now: now, HistoryFrom: now.Add(-30 * 24 * time.Hour)},
		alive: map[string]int{}, skips: map[int][]job.Skip{}, archived: map[time.Time]bool{},
	}
	at := between(t, "created", now.Add(-48*time.Hour), now)
	for range rapid.IntRange(1, 4).Draw(t, "versions") {
		h.addVersion(t, at)
		at = between(t, "edited", at, now)
	}
	h.end(t)
	if rapid.IntRange(0, 2).Draw(t, "old") == 0 {
		h.HistoryFrom = h.minutesAgo(t, "history", 60, 72*60)
		h.archived[now.Add(-24*time.Hour).Truncate(24*time.Hour)] = true
	}
	for i := range h.Versions {
		h.live(t, i)
		h.skipOthers(t, i)
	}
	h.addProbes(t)
	return h
}

// end draws the state of the job.
func (h *history) end(t *rapid.T) {
	last := len(h.Versions) - 1
	states := []job.State{job.Active, job.Active, job.Paused, 0}
	if _, err := h.Versions[last].Schedule.Next(h.Now); err != nil {
		states = append(states, job.Finished, job.Finished)
	}
	switch h.State = rapid.SampledFrom(states).Draw(t, "state"); h.State {
	case job.Paused:
		h.PlanFrom = between(t, "paused", h.Versions[last].From, h.Now)
		if rapid.Bool().Draw(t, "ends") {
			h.PausedUntil = h.minutesAgo(t, "until", -180, 60)
		}
	case 0:
		if rapid.IntRange(0, 4).Draw(t, "known") > 0 {
			h.DeletedAt = between(t, "deleted", h.Versions[last].From, h.Now)
		}
		h.leave(t, last)
	case job.Active:
		if rapid.IntRange(0, 4).Draw(t, "planned") > 0 {
			h.NextDue = h.minutesAgo(t, "cursor", -60, 300)
		}
	default:
	}
}

func (h *history) addVersion(t *rapid.T, from time.Time) {
	n := len(h.Versions)
	spec := schedule.Spec{
		Cron:     rapid.SampledFrom([]string{"30 * * * *", "*/20 * * * *", "15 1,2,3 * * *", ""}).Draw(t, "cron"),
		Timezone: rapid.SampledFrom([]string{"Europe/Berlin", ""}).Draw(t, "zone"),
		DST: schedule.DST{
			Gap:  rapid.SampledFrom([]schedule.Gap{"skip", "shift"}).Draw(t, "gap"),
			Fold: rapid.SampledFrom([]schedule.Fold{"first", "both"}).Draw(t, "fold"),
		},
	}
	if rapid.IntRange(0, 3).Draw(t, "calendar") == 0 {
		spec.Calendars = []schedule.Calendar{{Windows: []string{"04:00-06:00"}}}
	}
	if spec.Cron == "" { // of an edit, only one to come: why does not read later versions
		earliest := from.Add(time.Second)
		if n == 0 {
			earliest = from.Add(-10 * time.Hour)
		}
		at := between(t, "at", earliest, h.Now.Add(time.Hour))
		spec = schedule.Spec{At: at.Format(time.RFC3339Nano), Timezone: spec.Timezone}
	}
	key := h.compile(t, spec).Key()
	if rapid.IntRange(0, 3).Draw(t, "bounds") == 0 && spec.At == "" {
		spec.StartAt = between(t, "start", from.Add(-time.Hour), h.Now)
		spec.EndAt = between(t, "end", spec.StartAt.Add(time.Hour), h.Now.Add(2*time.Hour))
		if _, err := schedule.New(spec, id.String()); err != nil { // nothing is due in between
			spec.EndAt = time.Time{}
		}
	}
	if n > 0 && rapid.IntRange(0, 3).Draw(t, "same") == 0 {
		first := rapid.IntRange(0, n-1).Draw(t, "schedule of")
		if h.specs[first].At == "" {
			spec, key = h.specs[first], h.keys[first]
		}
	}
	text, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	if n > 0 && h.keys[n-1] != key {
		h.leave(t, n-1)
	}
	if _, ok := h.alive[key]; !ok {
		h.alive[key] = n + 1
	}
	h.specs, h.keys, h.cursors = append(h.specs, spec), append(h.keys, key), append(h.cursors, h.alive[key])
	h.Versions = append(h.Versions, ledger.Version{
		Number: int32(n + 1), From: from, Spec: text, Schedule: h.compile(t, spec), OneOff: spec.At != "",
	})
}

func (h *history) compile(t *rapid.T, spec schedule.Spec) *schedule.Schedule {
	s, err := schedule.New(spec, id.String())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// leave takes the job from the cursor of a version. The cursor is gone unless another job has it. A later job with the
// same schedule creates another one.
func (h *history) leave(t *rapid.T, version int) {
	switch rapid.SampledFrom([]string{"stays", "gone", "created again"}).Draw(t, "cursor") {
	case "gone":
		delete(h.alive, h.keys[version])
	case "created again":
		h.alive[h.keys[version]] = -version - 1
	}
}

// live decides what the ledger has about the occurrences of a version.
func (h *history) live(t *rapid.T, version int) {
	from, to := h.InForce(version)
	to = slices.MinFunc([]time.Time{to, h.Now.Add(6 * time.Hour)}, time.Time.Compare)
	var due []time.Time
	for o := range h.Versions[version].Schedule.All(from, to) {
		h.probes = append(h.probes, o.Due.UTC())
		if o.Skip == "" {
			due = append(due, o.Due.UTC())
		}
	}
	for len(due) > 0 {
		n := min(rapid.IntRange(1, 6).Draw(t, "some"), len(due))
		fate := "lost"
		switch {
		case !due[n-1].After(h.Now):
			fate = rapid.SampledFrom([]string{
				"ran", "ran", "failed", "live", "redriven", "redriven and skipped", "twice", "skipped", "own", "cursor",
				"restored", "lost", "backfilled", "cursor, backfilled", "triggered", "own, triggered", "cursor, triggered",
			}).Draw(t, "fate")
		case rapid.Bool().Draw(t, "planned"):
			fate = "live"
		}
		h.happen(t, fate, version, due[:n])
		due = due[n:]
	}
}

// skipOthers adds a range that the cursor of a version skipped when the job had another version: it is not the job's.
func (h *history) skipOthers(t *rapid.T, version int) {
	other := rapid.IntRange(0, len(h.Versions)-1).Draw(t, "other")
	if h.specs[version].At != "" || h.specs[version].Cron == h.specs[other].Cron {
		return // the audit would take the range of a namesake
	}
	from, to := h.InForce(other)
	list := h.unbounded(t, version).Between(from, slices.MinFunc([]time.Time{to, h.Now}, time.Time.Compare), 20)
	list = slices.DeleteFunc(list, func(o schedule.Occurrence) bool { return o.Skip != "" })
	if len(list) < 2 {
		return
	}
	c := h.cursors[version]
	h.skips[c] = append(h.skips[c], job.Skip{
		From: list[0].Due.UTC(), To: list[len(list)-1].Due.UTC(), Count: int64(len(list)), Reason: job.ReasonMissedMax,
	})
}

// unbounded returns the schedule of a version as its cursor has it.
func (h *history) unbounded(t *rapid.T, version int) *schedule.Schedule {
	spec := h.specs[version]
	spec.StartAt, spec.EndAt = time.Time{}, time.Time{}
	return h.compile(t, spec)
}

// happen adds to the ledger what the name of a fate says.
func (h *history) happen(t *rapid.T, fate string, version int, due []time.Time) {
	skip := job.Skip{From: due[0], To: due[len(due)-1], Count: int64(len(due)), Reason: job.ReasonMissed}
	before, _ := h.unbounded(t, version).Around(due[0])
	if before.Before(h.specs[version].StartAt) && before.After(h.Versions[version].From) { // its cursor has no start_at
		skip.From, skip.Count = before, skip.Count+1
	}
	skipped := job.Entry{Status: job.StatusSkipped, Reason: job.ReasonOverlap}
	own := job.Entry{Status: job.StatusSkipped, Reason: job.ReasonPaused, DueTo: skip.To, Count: int64(len(due))}
	failed, trigger := job.Entry{Status: job.StatusFailed}, job.Entry{Status: job.StatusSucceeded, Origin: job.FromTrigger}
	trigger.Seq = 3
	switch fate {
	case "ran", "failed", "live", "redriven", "redriven and skipped", "twice":
		for _, at := range due {
			switch fate {
			case "ran":
				h.run(at, 1, job.Entry{Status: job.StatusSucceeded})
			case "failed":
				h.run(at, 1, failed)
			case "live":
				h.run(at, 0, job.Entry{Status: job.LiveStatus(job.Pending, 0, at, h.Now, false)})
			case "redriven":
				h.run(at, 2, job.Entry{Status: job.StatusSucceeded, Origin: job.FromRedrive})
				h.run(at, 1, failed)
			case "redriven and skipped":
				h.run(at, 2, job.Entry{Status: job.StatusSkipped, Reason: job.ReasonRestored, Origin: job.FromRedrive})
				h.run(at, 1, failed)
			case "twice":
				h.run(at, 1, job.Entry{Status: job.StatusSucceeded})
				h.run(at, 2, job.Entry{Status: job.StatusSucceeded})
			}
		}
	case "skipped":
		h.run(due[0], 1, skipped)
	case "own", "own, triggered":
		h.run(due[0], 1, own)
	case "restored":
		skip.Reason = job.ReasonRestored
		h.skips[h.cursors[version]] = append(h.skips[h.cursors[version]], skip)
	case "cursor", "cursor, backfilled", "cursor, triggered":
		h.skips[h.cursors[version]] = append(h.skips[h.cursors[version]], skip)
	}
	switch fate {
	case "backfilled", "cursor, backfilled":
		h.run(due[0], 1, job.Entry{Key: job.Key{Seq: 7}, Status: job.StatusSucceeded, Origin: job.FromBackfill})
	case "triggered":
		h.run(due[0], 1, trigger)
	case "own, triggered", "cursor, triggered": // within the second
		h.run(due[0].Add(300*time.Millisecond), 1, trigger)
	}
}

// run adds an entry of a run. It ended after some seconds; 0: it is live.
func (h *history) run(due time.Time, ended int, e job.Entry) {
	e.Job, e.DueAt, e.RunAt, e.Version, e.Attempt = id, due, due, 1, 1
	if ended > 0 {
		e.EndedAt = due.Add(time.Duration(ended) * time.Second)
	}
	h.entries = append(h.entries, e)
}

// addProbes adds instants that are no occurrences, some of them with an entry that must not be there.
func (h *history) addProbes(t *rapid.T) {
	for i := range h.Versions {
		from := h.Versions[i].From
		h.probes = append(h.probes, from.Add(-time.Microsecond), from, from.Add(time.Microsecond))
	}
	for range 5 {
		h.probes = append(h.probes, h.minutesAgo(t, "probe", -300, 49*60).Truncate(time.Minute).Add(7*time.Second))
	}
	if at := h.probes[len(h.probes)-1]; rapid.Bool().Draw(t, "phantom") && at.Before(h.Now) {
		h.run(at, 1, job.Entry{Status: job.StatusSucceeded})
	}
	if h.State == 0 && !h.DeletedAt.IsZero() {
		h.probes = append(h.probes, h.DeletedAt, h.DeletedAt.Add(time.Hour))
	}
	slices.SortFunc(h.probes, time.Time.Compare)
	h.probes = slices.CompactFunc(h.probes, time.Time.Equal)
}

// read returns the life as the store reads it for a window.
func (h *history) read(w auditor.Window) ledger.Life {
	l, first := h.Life, 0
	l.Versions = nil
	for i, v := range h.Versions {
		if v.From.Before(w.From) {
			first = i
		}
	}
	for i, v := range h.Versions[first:] {
		if i += first; !v.From.Before(w.To) && i > 0 {
			l.Replaced = true
			break
		}
		cursor, ok := h.alive[h.keys[i]]
		if v.CursorGone = !ok || cursor != h.cursors[i]; ok {
			v.Skips = h.skips[cursor]
		}
		l.Versions = append(l.Versions, v)
	}
	return l
}

// newestFirst orders entries: live ones end after all others.
func newestFirst(a, b job.Entry) int {
	if a.EndedAt.IsZero() != b.EndedAt.IsZero() {
		return cmp.Compare(b2i(b.EndedAt.IsZero()), b2i(a.EndedAt.IsZero()))
	}
	return b.EndedAt.Compare(a.EndedAt)
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// entriesIn returns entries of [from, to), and ranges that reach into it.
func (h *history) entriesIn(w auditor.Window, order func(a, b job.Entry) int) (out []job.Entry) {
	for _, e := range h.entries {
		if e.DueAt.Before(w.To) && (!e.DueAt.Before(w.From) || !e.DueTo.Before(w.From)) {
			out = append(out, e)
		}
	}
	slices.SortFunc(out, order)
	return out
}

func (h *history) timelineFacts(w auditor.Window) timeline.Facts {
	return timeline.Facts{
		Life: h.read(w), From: w.From, To: w.To, Archived: h.archived,
		Entries: h.entriesIn(w, func(a, b job.Entry) int {
			return cmp.Or(b.DueAt.Compare(a.DueAt), cmp.Compare(b.Seq, a.Seq), newestFirst(a, b))
		}),
	}
}

func tellTimeline(line *timeline.Timeline, due time.Time) (v verdict) {
	for _, i := range line.Items {
		switch {
		case !i.DueAt.Equal(due):
		case i.Entry != nil && i.Entry.Seq > 0:
			v.user = tellEntry(i.Entry)
		case i.Entry == nil && i.Reason == job.ReasonGap && v.fate != "": // another occurrence is due at the end of the gap
		default:
			v.fate = cmp.Or(map[timeline.State]string{
				timeline.Skipped: "skipped: " + string(i.Reason), timeline.Unknown: "missing",
				timeline.Forgotten: "unknown", timeline.Due: "unplanned",
			}[i.State], string(i.State))
			if i.Entry != nil {
				v.fate = tellEntry(i.Entry)
			}
		}
	}
	v.fate = cmp.Or(v.fate, "none")
	return v
}

func tellEntry(e *job.Entry) string {
	switch {
	case e.Origin == job.FromBackfill:
		return "backfilled"
	case e.Status == job.StatusSkipped:
		return "skipped: " + string(e.Reason)
	case e.Status.Live():
		return "live"
	}
	return string(e.Status)
}

func (h *history) tellWhy(due time.Time) verdict {
	w := auditor.Window{From: due, To: due.Add(time.Microsecond)}
	f := why.Facts{
		At: due, Life: h.read(w), Created: h.Versions[0].From, Archived: h.archived[due.Truncate(24*time.Hour)],
		Entries: h.entriesIn(auditor.Window{From: due, To: due.Add(time.Second)}, func(a, b job.Entry) int {
			return cmp.Or(newestFirst(a, b), a.DueAt.Compare(b.DueAt), cmp.Compare(a.Seq, b.Seq))
		}),
	}
	f.In, _ = f.Life.At(due)
	f.Definition = job.Definition{Name: "a", Schedule: h.specs[f.Versions[f.In].Number-1]}.WithDefaults()
	if f.State != 0 {
		f.Job = &job.Job{State: f.State, PausedUntil: f.PausedUntil, Definition: f.Definition}
	}
	story := why.Explain(f)
	switch {
	case !story.At.Equal(due): // the story of an occurrence or a run nearby
		return verdict{fate: "none"}
	case story.Entry != nil && story.Entry.Seq > 0:
		return verdict{user: tellEntry(story.Entry)}
	case story.Entry != nil:
		return verdict{fate: tellEntry(story.Entry)}
	case story.Code == why.Skipped:
		return verdict{fate: "skipped: " + string(story.Reason)}
	}
	return verdict{fate: cmp.Or(map[why.Code]string{
		why.NotDue: "planned", why.Forgotten: "unknown", why.Unknown: "missing", why.Deleted: "none",
		why.CreatedLater: "none", why.BeforeStart: "none", why.AfterEnd: "none", why.None: "none",
	}[story.Code], string(story.Code))}
}

// audit judges a window. It judges nothing if it is not known when the job was deleted.
func (h *history) audit(t *rapid.T, w auditor.Window) (out auditor.Report, ok bool) {
	j := &auditor.Job{Life: h.Life}
	j.HistoryFrom, j.PausedUntil, j.Versions = time.Time{}, time.Time{}, slices.Clone(h.Versions)
	for i := range j.Versions {
		j.Versions[i].Schedule = nil
	}
	times := auditor.NewTimes(false)
	expected, err := j.Expect(times, w)
	if err != nil {
		if h.State != 0 || !h.DeletedAt.IsZero() {
			t.Fatal(err)
		}
		return out, false
	}
	var skips []job.Skip
	if h.State != 0 {
		skips = h.skips[h.cursors[len(h.cursors)-1]]
	}
	var g auditor.Judge
	g.Begin(expected, skips)
	after := auditor.Window{From: w.From.Add(time.Microsecond), To: w.To.Add(time.Microsecond)}
	for _, e := range h.entriesIn(after, func(a, b job.Entry) int {
		return cmp.Or(a.DueAt.Compare(b.DueAt), cmp.Compare(a.Seq, b.Seq), newestFirst(b, a))
	}) {
		if e.Seq > 0 && e.Origin != job.FromBackfill {
			continue
		}
		ended := map[job.RunStatus]job.Ended{
			job.StatusSucceeded: job.EndedSucceeded, job.StatusFailed: job.EndedFailed, job.StatusSkipped: job.EndedSkipped,
		}[e.Status]
		g.Entry(auditor.Entry{
			DueAt: e.DueAt, DueTo: e.DueTo, Seq: e.Seq, Version: 1, Origin: e.Origin, Ended: ended, Reason: e.Reason,
		})
	}
	g.End()
	ranges := slices.Concat(slices.Collect(maps.Values(h.skips))...)
	for _, s := range g.Suspects {
		g.Confirm(times, s, ranges)
	}
	return g.Report, true
}

// tellAudit returns what the audit counted for one instant.
func tellAudit(r *auditor.Report) verdict {
	for reason := range r.Skipped {
		return verdict{fate: "skipped: " + string(reason)}
	}
	for fate, n := range map[string]int64{
		"ran": r.Run + r.Phantom, "live": r.Live, "paused": r.Paused, "unplanned": r.NotPlanned, "backfilled": r.Backfilled,
		"missing": r.Missing,
	} {
		if n > 0 {
			return verdict{fate: fate}
		}
	}
	return verdict{fate: "none"}
}
