package postgres_test

import (
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/job"
)

// The oracle of the race computes what the ledger of a job must contain, from the acknowledged operations and their
// instants. It shares no code with the product: it counts seconds.

// deed is an acknowledged operation on a job.
type deed struct {
	kind string // create, edit, pause, resume, delete
	at   time.Time
	step int64 // of a create or an edit: due at each multiple of this many seconds
}

func (d deed) String() string {
	return fmt.Sprintf("%s %s %d", d.at.Format("15:04:05.000000"), d.kind, d.step)
}

// biography is everything that was done to a job.
type biography struct {
	id       uuid.UUID
	deeds    []deed
	triggers map[time.Time]int // by due time
}

// verdict counts what the comparison of a ledger with a biography found.
type verdict struct {
	occurrences, missing, extra, wrong int
	first                              []string // of what is not as it must be
}

func (v *verdict) add(o verdict) {
	v.occurrences += o.occurrences
	v.missing += o.missing
	v.extra += o.extra
	v.wrong += o.wrong
	v.first = append(v.first, o.first...)
}

func (v *verdict) note(n *int, format string, args ...any) {
	*n++
	if len(v.first) < 3 {
		v.first = append(v.first, fmt.Sprintf(format, args...))
	}
}

// order sorts the deeds. It drops edits that changed nothing: for them the time of the job's last change was recorded,
// maybe before that change.
func (b *biography) order() {
	slices.SortStableFunc(b.deeds, func(x, y deed) int { return x.at.Compare(y.at) })
	var kept []deed
	step := int64(0)
	for i, d := range b.deeds {
		twice := i > 0 && b.deeds[i-1].at.Equal(d.at) || i+1 < len(b.deeds) && b.deeds[i+1].at.Equal(d.at)
		if d.kind == "edit" && d.step == step && twice {
			continue
		}
		if d.step != 0 {
			step = d.step
		}
		kept = append(kept, d)
	}
	b.deeds = kept
}

// expected lists the seconds at which the job was due, up to and including the end, and since when its last schedule
// applies. Pauses do not matter: what is due in a pause is in the ledger too.
func (b *biography) expected(end time.Time) (due map[int64]bool, last time.Time) {
	b.order()
	due = map[int64]bool{}
	step := int64(0)
	for i, d := range b.deeds {
		if d.step != 0 {
			step = d.step
		}
		last = d.at
		if d.kind == "delete" {
			break
		}
		to := end
		if i+1 < len(b.deeds) {
			to = b.deeds[i+1].at
		}
		for s := d.at.Unix() + 1; s <= to.Unix(); s++ {
			if s%step == 0 {
				due[s] = true
			}
		}
	}
	return due, last
}

func (b *biography) has(kind string) bool {
	return slices.ContainsFunc(b.deeds, func(d deed) bool { return d.kind == kind })
}

// judge compares the ledger with the biography.
func (b *biography) judge(ledger []entry, end time.Time) (v verdict) {
	due, last := b.expected(end)
	v.occurrences = len(due)
	found := map[int64]int{}
	triggered := map[time.Time]int{}
	for _, e := range ledger {
		if e.Seq > 0 {
			triggered[e.Due]++
			continue
		}
		v.kind(b, e, last)
		n := int64(0)
		to := e.Due
		if !e.To.IsZero() {
			to = e.To
		}
		for s := e.Due.Unix(); s <= to.Unix(); s++ {
			if !e.To.IsZero() && !due[s] {
				continue // between two of a range
			}
			n++
			found[s]++
		}
		if n != e.Count || e.Due.Nanosecond() != 0 {
			v.note(&v.wrong, "the range %+v has %d occurrences", e, n)
		}
	}
	for s := range due {
		if found[s] == 0 {
			v.note(&v.missing, "missing: %s", time.Unix(s, 0).UTC())
		}
	}
	for s, n := range found {
		if !due[s] {
			v.note(&v.extra, "not due: %s", time.Unix(s, 0).UTC())
		} else if n > 1 {
			v.note(&v.extra, "%d times: %s", n, time.Unix(s, 0).UTC())
		}
	}
	v.compareTriggers(b.triggers, triggered)
	if v.first != nil {
		v.first = append([]string{fmt.Sprint(b.id, b.deeds)}, v.first...)
	}
	return v
}

func (v *verdict) compareTriggers(want, got map[time.Time]int) {
	for at, n := range want {
		v.occurrences += n
		if got[at] < n {
			v.note(&v.missing, "missing: the trigger of %s", at)
		}
	}
	for at, n := range got {
		if n > want[at] {
			v.note(&v.extra, "a trigger of %s that nobody asked for", at)
		}
	}
}

// kind checks how an occurrence ended, where that is certain.
func (v *verdict) kind(b *biography, e entry, last time.Time) {
	switch {
	case e.Ended == 0 && e.State == job.Pending && !b.has("delete"):
	case e.Ended == job.EndedSkipped && e.Reason == job.ReasonPaused && b.has("pause") && !e.Due.After(last):
	case e.Ended == job.EndedSkipped && e.Reason == job.ReasonDeleted && b.has("delete"):
	default:
		v.note(&v.wrong, "this cannot be: %+v", e)
	}
}
