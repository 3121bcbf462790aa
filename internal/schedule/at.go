package schedule

import "time"

// instant is an "at" with an offset: one point in time, whatever the zone.
type instant struct{ t time.Time }

func (i instant) next(after, limit time.Time) (time.Time, bool) {
	return i.t, i.t.After(after) && !i.t.After(limit)
}

// reading is an "at" without an offset: which instant it is depends on the zone's rules.
type reading wall

func (r reading) from(w, limit wall) (wall, bool) {
	return wall(r), wall(r) >= w && wall(r) <= limit
}

// localTime is a date and time without an offset, as a wall clock shows it.
const localTime = "2006-01-02T15:04:05"

func compileAt(spec *Spec, loc *time.Location) (rule, error) {
	if t, err := time.Parse(time.RFC3339, spec.At); err == nil {
		// PostgreSQL stores microseconds.
		t = t.UTC().Truncate(time.Microsecond)
		if err := checkYear("at", t); err != nil {
			return nil, err
		}
		spec.At = t.Format(time.RFC3339Nano)
		return instant{t}, nil
	}
	for _, layout := range []string{
		localTime, "2006-01-02T15:04", "2006-01-02 15:04:05", "2006-01-02 15:04", time.DateOnly,
	} {
		t, err := time.Parse(layout, spec.At)
		if err != nil || t.Nanosecond() != 0 {
			continue
		}
		if spec.Timezone == "" {
			return nil, &Error{
				Field: "at", Problem: quote(spec.At) + " has no offset and there is no timezone",
				Fix: "add Z or an offset such as +02:00, or set timezone",
			}
		}
		if err := checkYear("at", t); err != nil {
			return nil, err
		}
		spec.At = t.Format(localTime)
		return newZoned(reading(t.Unix()), loc, spec.DST), nil
	}
	return nil, &Error{
		Field: "at", Problem: quote(spec.At) + " is not an ISO-8601 time",
		Fix: "write for example 2027-01-31T09:00:00Z, or 2027-01-31T09:00:00 with a timezone",
	}
}

// checkYear keeps times in the range that every part of the system can represent, and within Horizon of the first
// search.
func checkYear(field string, t time.Time) error {
	if y := t.Year(); y < 1970 || y > lastYear {
		return &Error{Field: field, Problem: "the year is out of range", Fix: "use 1970 to 2199"}
	}
	return nil
}
