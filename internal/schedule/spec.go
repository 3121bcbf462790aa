package schedule

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// Spec is a schedule as users write it. Exactly one of At, Every, Cron and RRule is set. As JSON it is an object, or
// one string: see [Parse].
type Spec struct {
	At    string `json:"at,omitempty"`    // 2026-03-08T02:30:00Z, or a reading in Timezone without an offset
	Every string `json:"every,omitempty"` // 90s, 15m, 1h30m, 7d
	Cron  string `json:"cron,omitempty"`
	RRule string `json:"rrule,omitempty"`

	// Anchor is where "every" counts from (default 1970-01-01T00:00:00Z), or the DTSTART of an rrule.
	Anchor    string     `json:"anchor,omitempty"`
	Timezone  string     `json:"timezone,omitempty"` // IANA name; default UTC
	DST       DST        `json:"dst,omitzero"`
	StartAt   time.Time  `json:"start_at,omitzero"` // no occurrence before
	EndAt     time.Time  `json:"end_at,omitzero"`   // no occurrence at or after
	Jitter    string     `json:"jitter,omitempty"`
	Calendars []Calendar `json:"calendars,omitempty"`
}

// DST says what happens to wall-clock readings that a change of the clock removes or repeats. The zero value means
// shift and first.
type DST struct {
	Gap  Gap  `json:"gap,omitempty"`
	Fold Fold `json:"fold,omitempty"`
}

// Gap is what to do with a reading that does not happen.
type Gap string

// Fold is what to do with a reading that happens twice.
type Fold string

// The values of Gap and Fold.
const (
	GapShift   Gap  = "shift" // fire once, when the gap ends
	GapSkip    Gap  = "skip"
	FoldFirst  Fold = "first"
	FoldSecond Fold = "second"
	FoldBoth   Fold = "both"
)

// Error is a problem of a Spec: which field, what is wrong, what to do.
type Error struct {
	Field   string // JSON name, e.g. "cron"
	Problem string
	Fix     string // may be empty
}

func (e *Error) Error() string {
	if e.Fix == "" {
		return e.Field + ": " + e.Problem
	}
	return e.Field + ": " + e.Problem + "; " + e.Fix
}

const maxText = 1024 // characters of any text in a Spec

// Parse reads the one-string form: an ISO-8601 time is at, a string with FREQ= is rrule, "@every 15m" and "every 15m"
// are every, and anything else is cron.
func Parse(text string) (Spec, error) {
	text = strings.TrimSpace(text)
	switch {
	case text == "":
		return Spec{}, &Error{
			Field: "schedule", Problem: "it is empty",
			Fix: `write for example "0 9 * * 1-5", "every 15m" or "2027-01-31T09:00:00Z"`,
		}
	case len(text) > maxText:
		return Spec{}, &Error{
			Field: "schedule", Problem: fmt.Sprintf("%d characters; at most %d are taken", len(text), maxText),
		}
	case looksLikeTime(text):
		return Spec{At: text}, nil
	case strings.Contains(strings.ToUpper(text), "FREQ="):
		return Spec{RRule: text}, nil
	}
	if word, d, ok := strings.Cut(strings.TrimPrefix(text, "@"), " "); ok && strings.EqualFold(word, "every") {
		return Spec{Every: strings.TrimSpace(d)}, nil
	}
	return Spec{Cron: text}, nil
}

// looksLikeTime reports whether a text begins with four digits and a hyphen, as no cron expression does.
func looksLikeTime(s string) bool {
	if len(s) < 5 || s[4] != '-' {
		return false
	}
	for _, c := range []byte(s[:4]) {
		if c < '0' || c > '9' {
			return false
		}
	}
	return true
}

// UnmarshalJSON accepts the object and the one-string form, and rejects unknown fields.
func (s *Spec) UnmarshalJSON(data []byte) error {
	var text string
	if json.Unmarshal(data, &text) == nil {
		spec, err := Parse(text)
		if err == nil {
			*s = spec
		}
		return err
	}
	type plain Spec // without this method
	var p plain
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&p); err != nil {
		return jsonError(err)
	}
	*s = Spec(p)
	return nil
}

func jsonError(err error) error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	var typ *json.UnmarshalTypeError
	if errors.As(err, &typ) {
		if typ.Field == "" {
			return &Error{
				Field: "schedule", Problem: "a JSON " + typ.Value + " is not a schedule",
				Fix: `write a string such as "0 9 * * 1-5", or an object such as {"cron": "0 9 * * 1-5"}`,
			}
		}
		return &Error{
			Field: typ.Field, Problem: "a JSON " + typ.Value + " is where a string or a list belongs",
			Fix: "put it in quotes, or see the guide to schedules",
		}
	}
	var when *time.ParseError
	if errors.As(err, &when) {
		return &Error{
			Field:   "start_at or end_at",
			Problem: quote(strings.Trim(when.Value, `"`)) + " is not a time with an offset",
			Fix:     "write for example 2026-01-31T09:00:00Z",
		}
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return &Error{Field: "schedule", Problem: "the JSON ends too early"}
	}
	return &Error{
		Field: "schedule", Problem: strings.TrimPrefix(err.Error(), "json: "),
		Fix: "the fields of a schedule are at, every, anchor, cron, rrule, timezone, dst, start_at, end_at, jitter, " +
			"calendars (dates, weekdays, windows)",
	}
}

func (s *Spec) kind() string {
	switch {
	case s.At != "":
		return "at"
	case s.Every != "":
		return "every"
	case s.Cron != "":
		return "cron"
	default:
		return "rrule"
	}
}

func (s *Spec) text() string { return s.At + s.Every + s.Cron + s.RRule }

// describe is the schedule in one line: kind, text, and the anchor if it matters.
func (s *Spec) describe() string {
	text := s.kind() + " " + s.text()
	if s.Anchor != "" {
		text += " from " + s.Anchor
	}
	return text
}

// check finds errors that need no compiling.
func (s *Spec) check() error {
	n := 0
	for _, v := range []string{s.At, s.Every, s.Cron, s.RRule} {
		if v != "" {
			n++
		}
	}
	if n != 1 {
		return &Error{
			Field: "schedule", Problem: fmt.Sprintf("%d of at, every, cron and rrule are set", n),
			Fix: "set exactly one",
		}
	}
	for _, f := range [][2]string{
		{s.kind(), s.text()}, {"anchor", s.Anchor}, {"timezone", s.Timezone}, {"jitter", s.Jitter},
	} {
		if len(f[1]) > maxText {
			return &Error{Field: f[0], Problem: fmt.Sprintf("%d characters; at most %d are taken", len(f[1]), maxText)}
		}
	}
	switch s.DST.Gap {
	case "", GapShift, GapSkip:
	default:
		return &Error{Field: "dst.gap", Problem: "unknown value " + quote(string(s.DST.Gap)), Fix: "use shift or skip"}
	}
	switch s.DST.Fold {
	case "", FoldFirst, FoldSecond, FoldBoth:
	default:
		return &Error{
			Field: "dst.fold", Problem: "unknown value " + quote(string(s.DST.Fold)), Fix: "use first, second or both",
		}
	}
	if s.Anchor != "" && s.Every == "" && s.RRule == "" {
		return &Error{
			Field: "anchor", Problem: "only every and rrule have an anchor", Fix: "remove it, or use start_at",
		}
	}
	for _, f := range []struct {
		name string
		t    time.Time
	}{{"start_at", s.StartAt}, {"end_at", s.EndAt}} {
		if !f.t.IsZero() {
			if err := checkYear(f.name, f.t); err != nil {
				return err
			}
		}
	}
	if !s.StartAt.IsZero() && !s.EndAt.IsZero() && !s.StartAt.Before(s.EndAt) {
		return &Error{Field: "end_at", Problem: "it is not after start_at", Fix: "swap or move them"}
	}
	return nil
}

// key is the canonical text of a spec after compile has normalized it.
func (s Spec) key(r rule) string {
	s.StartAt, s.EndAt, s.Jitter = time.Time{}, time.Time{}, ""
	if z, ok := r.(*zoned); ok {
		s.DST = DST{Gap: z.gap, Fold: z.fold}
	} else {
		s.DST = DST{} // DST has no effect on instants
		if len(s.Calendars) == 0 {
			s.Timezone = ""
		}
	}
	if s.Timezone == "" {
		s.Timezone = "UTC"
	}
	b, err := json.Marshal(s)
	if err != nil {
		panic(err) //nolint:forbidigo // cannot happen: strings and slices of strings always marshal
	}
	return string(b)
}

// quote shows user input in a message, with bounded length and escaped control characters.
func quote(s string) string {
	if r := []rune(s); len(r) > 60 {
		s = string(r[:60]) + "…"
	}
	return fmt.Sprintf("%q", s)
}
