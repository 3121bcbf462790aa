package schedule

import (
	"errors"
	"time"
)

// How many of the skipped occurrences between two that fire a preview lists and counts. A calendar may exclude
// thousands.
const (
	maxListed  = 3
	maxCounted = 1000
)

// Preview is one line of a preview: an occurrence, or a number of skipped ones.
type Preview struct {
	Occurrence
	More    int  // number of skipped ones that are not listed; the line has no occurrence then
	AtLeast bool // there may be more than More
}

// Preview lists the next n occurrences that fire from an instant on, with the skipped ones before each. more is false
// if the schedule ends there.
func (s *Schedule) Preview(from time.Time, n int) (lines []Preview, more bool, err error) {
	from = from.Add(-time.Nanosecond)
	for range n {
		next, err := s.Next(from)
		if errors.Is(err, ErrNoMore) {
			return lines, false, nil
		}
		if err != nil {
			return nil, false, err
		}
		skipped := 0
		for _, o := range s.Between(from, next, maxCounted) {
			if o.Skip == "" {
				continue
			}
			if skipped++; skipped <= maxListed {
				lines = append(lines, Preview{Occurrence: o})
			}
		}
		if skipped > maxListed {
			lines = append(lines, Preview{More: skipped - maxListed, AtLeast: skipped == maxCounted})
		}
		for _, o := range s.Between(next.Add(-time.Nanosecond), next, maxCounted) {
			if o.Skip == "" {
				lines = append(lines, Preview{Occurrence: o})
			}
		}
		from = next
	}
	return lines, true, nil
}

// PreviewLine is a line of a preview as JSON.
type PreviewLine struct {
	DueAt   *time.Time `json:"due_at,omitempty" doc:"In UTC."`
	Local   string     `json:"local,omitempty" doc:"The same instant in the schedule's zone." example:"2026-03-08T03:00:00-04:00"`
	Mark    Mark       `json:"mark,omitempty" enum:"shifted,first_pass,second_pass" doc:"What a clock change did to it."`
	Skip    Reason     `json:"skip,omitempty" enum:"dst_gap,calendar" doc:"Why it does not run."`
	Nominal string     `json:"nominal,omitempty" doc:"The local time that does not exist." example:"2026-03-08T02:30:00"`
	Skipped int        `json:"more_skipped,omitempty" doc:"Number of further skipped occurrences; only this is set then."`
}

// JSON returns the line as JSON.
func (p Preview) JSON() PreviewLine {
	if p.More > 0 {
		return PreviewLine{Skipped: p.More}
	}
	utc := p.Due.UTC()
	return PreviewLine{DueAt: &utc, Local: p.Due.Format(time.RFC3339), Mark: p.Mark, Skip: p.Skip, Nominal: p.Nominal}
}
