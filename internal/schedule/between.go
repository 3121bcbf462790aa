package schedule

import "time"

// Reason is why an occurrence does not become a run.
type Reason string

// The reasons that a schedule itself can have.
const (
	ReasonGap      Reason = "dst_gap"
	ReasonCalendar Reason = "calendar"
)

// Mark tells what a change of the clock did to an occurrence that fires.
type Mark string

// The marks. The passes are those of a reading that happens twice.
const (
	MarkShifted    Mark = "shifted"
	MarkFirstPass  Mark = "first_pass"
	MarkSecondPass Mark = "second_pass"
)

// Occurrence is one time of a schedule, fired or not.
type Occurrence struct {
	Due  time.Time
	Skip Reason // empty: it fires
	Mark Mark   // empty: an ordinary day
	// Nominal is the reading that a gap removed ("2026-03-08T02:30:00"), where
	// Mark is shifted or Skip is dst_gap. Due is then the end of the gap. A gap
	// that removes several readings is one occurrence, with the first of them.
	Nominal string
}

// Between lists the occurrences in (from, to] in order, at most limit of them,
// with those that a gap or a calendar takes away and the reason.
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

// describe says what became of the occurrence at t.
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

// nextSkippedGap finds the first gap in (from, to] that takes an occurrence
// away. A pattern of every hour loses nothing: the clock shows the next one.
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
