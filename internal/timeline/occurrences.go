package timeline

import (
	"slices"
	"time"

	"github.com/belfry-dev/belfry/internal/schedule"
)

// occurrence is one time of the schedule that was in force then.
type occurrence struct {
	schedule.Occurrence
	version int // index in Facts.Versions
}

// list returns the occurrences that are due in [from, to), in order. If there are more than limit, reached is the due
// time of the first that is left out, and otherwise it is zero.
func (f *Facts) list(from, to time.Time, limit int) (out []occurrence, reached time.Time) {
	for i := range f.Versions {
		s := f.Versions[i].Schedule
		if s == nil {
			continue
		}
		after, until := f.InForce(i)
		after, until = latest(after, from.Add(-time.Nanosecond)), earliest(until, to.Add(-time.Nanosecond))
		if !after.Before(until) {
			continue
		}
		n := 0
		for o := range s.All(after, until) {
			if n++; n > limit {
				reached = sooner(reached, o.Due)
				break
			}
			out = append(out, occurrence{o, i})
		}
	}
	slices.SortStableFunc(out, func(a, b occurrence) int { return a.Due.Compare(b.Due) })
	// A one-off may have been saved several times with the same time: it is the occurrence of the newest version.
	out = slices.CompactFunc(out, func(a, b occurrence) bool {
		return a.Due.Equal(b.Due) && a.Skip == b.Skip && a.Nominal == b.Nominal
	})
	if len(out) > limit {
		reached = sooner(reached, out[limit].Due)
	}
	if !reached.IsZero() {
		out = slices.DeleteFunc(out, func(o occurrence) bool { return !o.Due.Before(reached) })
	}
	return out, reached
}

// maxTries bounds the search for a part of the past that has few enough occurrences.
const maxTries = 30

// newest returns the occurrences of the newest part of [from, to) that has at most limit of them, and where it begins.
func (f *Facts) newest(from, to time.Time, limit int) ([]occurrence, time.Time) {
	for range maxTries {
		out, reached := f.list(from, to, limit)
		if reached.IsZero() {
			return out, from
		}
		// If they are evenly spread, the newest part of this length has as many.
		from = to.Add(-reached.Sub(from) / 10 * 9)
	}
	return nil, to
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earliest(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// sooner is the earlier of two times, of which the first may be zero.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() {
		return b
	}
	return earliest(a, b)
}
