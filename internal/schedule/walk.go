package schedule

import (
	"iter"
	"time"
)

// page is how many occurrences All computes at once.
const page = 512

// All iterates over the occurrences in (from, to] in order, including those that do not fire.
func (s *Schedule) All(from, to time.Time) iter.Seq[Occurrence] {
	return func(yield func(Occurrence) bool) {
		for {
			list := s.Between(from, to, page)
			full := len(list) == page
			if full {
				// The next page may begin with another occurrence of the same due time, so it repeats the last one.
				last := list[page-1].Due
				for list[len(list)-1].Due.Equal(last) {
					list = list[:len(list)-1]
				}
				from = last.Add(-time.Nanosecond)
			}
			for _, o := range list {
				if !yield(o) {
					return
				}
			}
			if !full {
				return
			}
		}
	}
}

// BeforeAll is before every time that a schedule can name.
var BeforeAll = epoch.Add(-48 * time.Hour)

// Around returns the occurrences that fire next to an instant: the last one before it and the first one after it. A
// zero time means that there is none.
func (s *Schedule) Around(at time.Time) (before, after time.Time) {
	if next, err := s.Next(at); err == nil {
		after = next.UTC()
	}
	// Search backwards in growing steps: most schedules fire within the first one.
	for back := time.Minute; ; back *= 4 {
		from := at.Add(-back)
		if from.Before(BeforeAll) {
			from = BeforeAll
		}
		for o := range s.All(from, at.Add(-time.Nanosecond)) {
			if o.Skip == "" {
				before = o.Due.UTC()
			}
		}
		if !before.IsZero() || !from.After(BeforeAll) || back > Horizon {
			return before, after
		}
	}
}
