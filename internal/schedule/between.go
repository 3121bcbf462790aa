package schedule

import "time"

// Reason is why an occurrence does not fire.
type Reason string

// The reasons that lie in the schedule itself.
const (
	ReasonGap      Reason = "dst_gap"
	ReasonCalendar Reason = "calendar"
)

// Mark says what a change of the clock did to an occurrence that fires.
type Mark string

// The marks. A reading that happens twice has a first and a second pass.
const (
	MarkShifted    Mark = "shifted"
	MarkFirstPass  Mark = "first_pass"
	MarkSecondPass Mark = "second_pass"
)

// Occurrence is one time of a schedule, fired or not.
type Occurrence struct {
	Due  time.Time
	Skip Reason // empty if it fires
	Mark Mark   // empty on an ordinary day
	// Nominal is the reading that a gap removed ("2026-03-08T02:30:00"), if Mark is shifted or Skip is dst_gap. Due is
	// then the end of the gap. A gap that removes several readings is one occurrence, with the first of them.
	Nominal string
}

// Between lists at most limit occurrences in (from, to] in order. It includes those that a gap or a calendar removes,
// with the reason.
func (s *Schedule) Between(from, to time.Time, limit int) []Occurrence {
	if from.Before(s.start) {
		from = s.start.Add(-time.Nanosecond)
	}
	if !s.end.IsZero() && !to.Before(s.end) {
		to = s.end.Add(-time.Nanosecond)
	}
	if far := s.horizon(from); far.Before(to) {
		to = far
	}
	var out []Occurrence
	gap, gapOK := s.nextSkippedGap(from, to)
	for len(out) < limit {
		t, ok := s.rule.next(from, to)
		if gapOK && (!ok || !t.Before(gap.Due)) {
			out = append(out, gap)
			gap, gapOK = s.nextSkippedGap(gap.Due, to)
			continue
		}
		if !ok {
			break
		}
		out = append(out, s.describe(t))
		from = t
	}
	return out
}

// At returns the occurrence that is due at an instant, whether it fires or not. Of two, it is the one that fires.
func (s *Schedule) At(t time.Time) (found Occurrence, ok bool) {
	for _, o := range s.Between(t.Add(-time.Nanosecond), t, 2) {
		if !ok || o.Skip == "" {
			found, ok = o, true
		}
	}
	return found, ok
}

// describe returns the occurrence at t.
func (s *Schedule) describe(t time.Time) Occurrence {
	o := Occurrence{Due: t.In(s.loc)}
	if _, out := s.excludedUntil(t); out {
		o.Skip = ReasonCalendar
	}
	z, ok := s.rule.(*zoned)
	if !ok {
		return o
	}
	sec := t.Unix()
	st := stretchAt(z.loc, sec)
	if z.firesAtGapEnd(st, sec) {
		w, _ := z.inGap(st)
		o.Mark, o.Nominal = MarkShifted, w.String()
		return o
	}
	w := sec + st.off
	switch {
	case st.start != -noBound && w < st.start+offsetAt(z.loc, st.start-1):
		o.Mark = MarkSecondPass
	case st.end != noBound && w >= st.end+offsetAt(z.loc, st.end):
		o.Mark = MarkFirstPass
	}
	return o
}

// nextSkippedGap finds the first gap in (from, to] that removes an occurrence. A pattern that matches every hour loses
// none: the clock shows the next hour.
func (s *Schedule) nextSkippedGap(from, to time.Time) (Occurrence, bool) {
	z, ok := s.rule.(*zoned)
	if !ok || z.gap == GapSkip && z.allHours {
		return Occurrence{}, false
	}
	limit := to.Unix()
	for at := from.Unix(); ; {
		end := stretchAt(z.loc, at).end
		if end > limit {
			return Occurrence{}, false
		}
		st := stretchAt(z.loc, end)
		if w, ok := z.inGap(st); ok && !z.firesAtGapEnd(st, end) {
			return Occurrence{Due: time.Unix(end, 0).In(s.loc), Skip: ReasonGap, Nominal: w.String()}, true
		}
		at = end
	}
}

func (w wall) String() string { return time.Unix(int64(w), 0).UTC().Format(localTime) }
