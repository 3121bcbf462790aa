package schedule

import "time"

// ClockChange is a change of a zone's offset, by DST or by law.
type ClockChange struct {
	At            time.Time // the first instant with the new offset, in the zone
	Before, After time.Duration
}

// maxStretches bounds the search for clock changes. A stretch may end without a change, see stretchAt.
const maxStretches = 100

// ClockChanges lists the next n clock changes of the schedule's zone after an instant, as far as its rules are known.
func (s *Schedule) ClockChanges(after time.Time, n int) (out []ClockChange) {
	at := after.Unix()
	for range maxStretches {
		now := stretchAt(s.loc, at)
		if now.end == noBound || len(out) >= n {
			return out
		}
		if next := offsetAt(s.loc, now.end); next != now.off {
			out = append(out, ClockChange{
				At:     time.Unix(now.end, 0).In(s.loc),
				Before: time.Duration(now.off) * time.Second, After: time.Duration(next) * time.Second,
			})
		}
		at = now.end
	}
	return out
}

// ClockChangeLine is a clock change as JSON.
type ClockChangeLine struct {
	At     time.Time `json:"at" doc:"In UTC."`
	Local  string    `json:"local" doc:"The same instant, as clocks show it from then on." example:"2026-03-29T03:00:00+02:00"`
	Before string    `json:"offset_before" doc:"The offset from UTC before." example:"+01:00"`
	After  string    `json:"offset_after" doc:"The offset from UTC from then on." example:"+02:00"`
}

// JSON returns the clock change as JSON.
func (c ClockChange) JSON() ClockChangeLine {
	return ClockChangeLine{
		At: c.At.UTC(), Local: c.At.Format(time.RFC3339), After: c.At.Format("-07:00"),
		Before: c.At.Add(-time.Nanosecond).Format("-07:00"),
	}
}
