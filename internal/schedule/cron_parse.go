package schedule

import (
	"fmt"
	"strconv"
	"strings"
)

// field describes one position of an expression.
type field struct {
	name     string
	min, max int
	names    string // three letters for each value, beginning at min
}

var (
	secondField = field{name: "second", max: 59}
	minuteField = field{name: "minute", max: 59}
	hourField   = field{name: "hour", max: 23}
	domField    = field{name: "day-of-month", min: 1, max: 31}
	monthField  = field{name: "month", min: 1, max: 12, names: "janfebmaraprmayjunjulaugsepoctnovdec"}
	dowField    = field{name: "day-of-week", max: 7, names: "sunmontuewedthufrisat"}

	cronFields = [6]field{secondField, minuteField, hourField, domField, monthField, dowField}
)

var cronMacros = map[string]string{
	"@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0",
	"@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *",
}

const maxCron = 256

func cronError(text, format string, args ...any) *Error {
	return &Error{Field: "cron", Problem: quote(text) + ": " + fmt.Sprintf(format, args...)}
}

// cronText is the canonical text of an expression: macros and H resolved, lower case, single spaces.
func cronText(text, spread string) (string, error) {
	if len(text) > maxCron {
		return "", cronError(text, "%d characters; at most %d are taken", len(text), maxCron)
	}
	lower := strings.ToLower(strings.TrimSpace(text))
	if m, ok := cronMacros[lower]; ok {
		return m, nil
	}
	f := strings.Fields(lower)
	switch {
	case strings.Contains(lower, "tz="):
		e := cronError(text, "a time zone inside the expression is not supported")
		e.Fix = "put it into timezone"
		return "", e
	case strings.HasPrefix(lower, "@"):
		e := cronError(text, "unknown macro")
		e.Fix = "use @hourly, @daily, @weekly, @monthly or @yearly; for @every use every"
		return "", e
	case len(f) == 1:
		e := cronError(text, "it is not a cron expression: it has one field, not 5 or 6")
		e.Fix = "write for example 0 9 * * 1-5; other schedules are every 15m, a time such as " +
			"2027-01-31T09:00:00Z, or an rrule such as FREQ=MONTHLY"
		return "", e
	case len(f) != 5 && len(f) != 6:
		e := cronError(text, "%d fields", len(f))
		e.Fix = "write 5 (minute hour day-of-month month day-of-week) or 6 (second first); " +
			"for years use start_at and end_at"
		return "", e
	}
	for i := range f {
		position := 6 - len(f) + i
		resolved, err := resolveH(f[i], cronFields[position], spread, position)
		if err != nil {
			return "", cronError(text, "%s %s: %s", cronFields[position].name, quote(f[i]), err)
		}
		f[i] = resolved
	}
	if len(f) == 6 && f[0] == "0" {
		f = f[1:]
	}
	return strings.Join(f, " "), nil
}

// canonical is the expression by its values, so that each pattern has one text. It has no *, except for days: the only
// other effect of a * is on the DST rule, which is a separate part of the key. Day fields stay as written, because a *
// there decides whether both fields must match.
func (c *cron) canonical(f []string) string {
	n := len(f)
	out := []string{values(c.min), values(c.hour), f[n-3], values(uint64(c.month)), f[n-1]}
	if c.sec != 1 {
		out = append([]string{values(c.sec)}, out...)
	}
	return strings.Join(out, " ")
}

// values lists the bits of a set, with ranges.
func values(set uint64) string {
	var parts []string
	for v := 0; v < 64; v++ {
		if set&(1<<v) == 0 {
			continue
		}
		end := v
		for end < 63 && set&(1<<(end+1)) != 0 {
			end++
		}
		part := strconv.Itoa(v)
		if end > v {
			part += "-" + strconv.Itoa(end)
		}
		parts = append(parts, part)
		v = end
	}
	return strings.Join(parts, ",")
}

// parseCron reads a string that cronText returned. Messages show what the user wrote.
func parseCron(text, written string) (*cron, error) {
	f := strings.Fields(text)
	if len(f) == 5 {
		f = append([]string{"0"}, f...)
	}
	c := &cron{}
	var sets [6]uint64
	for i, fd := range cronFields {
		for part := range strings.SplitSeq(f[i], ",") {
			if c.special(i, part) {
				continue
			}
			if i == 3 && strings.HasPrefix(part, "l") {
				return nil, cronError(written, "%s %s: write L, LW or L-1 to L-30", fd.name, quote(f[i]))
			}
			set, err := fd.parse(part)
			if err != nil {
				return nil, cronError(written, "%s %s: %s", fd.name, quote(f[i]), err)
			}
			sets[i] |= set
		}
	}
	c.sec, c.min, c.hour = sets[0], sets[1], sets[2]
	c.dom, c.month = uint32(sets[3]), uint32(sets[4])
	c.dow = uint8(sets[5])
	c.either = !isAny(f[3]) && !isAny(f[5])
	return c, nil
}

// isAny follows Vixie's cron: a field that begins with * does not restrict the day, even with a step.
func isAny(s string) bool { return s[0] == '*' || s[0] == '?' }

// special reads the parts that mean a different day each month.
func (c *cron) special(position int, part string) bool {
	switch cronFields[position].name {
	case domField.name:
		if part == "lw" {
			c.lastWork = true
			return true
		}
		if rest, ok := strings.CutPrefix(part, "l"); ok {
			n, ok := 0, true
			if rest != "" {
				n, ok = domField.number(strings.TrimPrefix(rest, "-"))
				ok = ok && rest[0] == '-' && n <= 30 // no month has more days
			}
			if ok {
				c.lastMinus |= 1 << n
			}
			return ok
		}
		if day, ok := strings.CutSuffix(part, "w"); ok {
			n, ok := domField.number(day)
			if ok {
				c.nearest |= 1 << n
			}
			return ok
		}
	case dowField.name:
		day, which, ok := strings.Cut(part, "#")
		if !ok {
			day, ok = strings.CutSuffix(part, "l")
			which = "l"
		}
		d, isDay := dowField.number(day)
		if !ok || !isDay {
			return false
		}
		n := strings.Index("l12345", which)
		if len(which) != 1 || n < 0 {
			return false
		}
		c.nth[n] |= 1 << (d % 7)
		return true
	}
	return false
}

// number reads a value of the field: digits or a name.
func (f field) number(s string) (int, bool) {
	if len(s) == 3 && f.names != "" {
		if i := strings.Index(f.names, s); i >= 0 && i%3 == 0 {
			return f.min + i/3, true
		}
	}
	if s == "" || len(s) > 2 || s[0] == '+' || s[0] == '-' {
		return 0, false
	}
	n, err := strconv.Atoi(s)
	return n, err == nil && n >= f.min && n <= f.max
}

// parse reads one part of a list, *, n, a-b, with or without /step, into bits.
func (f field) parse(part string) (uint64, error) {
	span, stepText, stepped := strings.Cut(part, "/")
	lo, hi, err := f.span(span, stepped)
	if err != nil {
		return 0, err
	}
	step := 1
	size := f.max - f.min + 1
	if f.name == dowField.name {
		size = 7
	}
	if stepped {
		if step, err = parseStep(stepText, size); err != nil {
			return 0, err
		}
	}
	if hi < lo {
		hi += size // the range wraps: 22-2, fri-mon
	}
	var set uint64
	for v := lo; v <= hi; v += step {
		set |= 1 << (f.min + (v-f.min)%size) // 7 is Sunday too
	}
	return set, nil
}

func parseStep(s string, most int) (int, error) {
	n, err := strconv.ParseUint(s, 10, 8)
	if err != nil || n < 1 || int(n) > most {
		return 0, fmt.Errorf("the step %s is not a number from 1 to %d", quote(s), most)
	}
	return int(n), nil
}

// span is the range that a part covers before its step. hi < lo means it wraps.
func (f field) span(s string, stepped bool) (lo, hi int, err error) {
	top := f.max
	if f.name == dowField.name {
		top = 6 // a whole week has seven days; 7 is another name for 0
	}
	if s == "*" || (s == "?" && (f.name == domField.name || f.name == dowField.name)) {
		return f.min, top, nil
	}
	from, to, ranged := strings.Cut(s, "-")
	lo, ok := f.number(from)
	if !ok {
		return 0, 0, f.complain(from)
	}
	switch {
	case ranged:
		if hi, ok = f.number(to); !ok {
			return 0, 0, f.complain(to)
		}
	case stepped:
		hi = max(top, lo)
	default:
		hi = lo
	}
	return lo, hi, nil
}

func (f field) complain(s string) error {
	extra := ""
	switch {
	case f.name == domField.name:
		extra = ", L, L-n, nW or LW"
	case f.names != "":
		extra = fmt.Sprintf(", a name (%s … %s)", f.names[:3], f.names[len(f.names)-3:])
		if f.name == dowField.name {
			extra += ", n#1 to n#5 or nL"
		}
	}
	if s == "" {
		return fmt.Errorf("a value is missing; it takes %d to %d%s", f.min, f.max, extra)
	}
	return fmt.Errorf("%s is not %d to %d%s", quote(s), f.min, f.max, extra)
}

// resolveH replaces H in a field by values from the hash of spread: H, H(a-b), H/step and H(a-b)/step, also in a list.
func resolveH(text string, f field, spread string, position int) (string, error) {
	parts := strings.Split(text, ",")
	for i, part := range parts {
		rest, ok := strings.CutPrefix(part, "h") // no name of a month or day begins with h
		if !ok {
			continue
		}
		lo, hi := f.min, f.max
		switch f.name {
		case domField.name:
			hi = 28 // a day that every month has
		case dowField.name:
			hi = 6
		}
		if inside, after, ok := strings.Cut(strings.TrimPrefix(rest, "("), ")"); ok && rest[0] == '(' {
			var err error
			if lo, hi, err = f.span(inside, false); err != nil || hi < lo {
				return "", fmt.Errorf("%s is not a range for H", quote(inside))
			}
			if f.name == dowField.name { // 7 is Sunday once more
				lo, hi = lo%7, min(hi, 6)
				if lo == 0 && inside[0] == '7' {
					hi = 0
				}
			}
			rest = after
		}
		step := hi - lo + 1
		if s, ok := strings.CutPrefix(rest, "/"); ok {
			n, err := parseStep(s, step)
			if err != nil {
				return "", err
			}
			step, rest = n, ""
		}
		if rest != "" {
			return "", fmt.Errorf("%s after H is not understood; write H, H(a-b), H/step or H(a-b)/step", quote(rest))
		}
		at := lo + int(hashOf(spread, uint64(position))%uint64(step))
		parts[i] = strconv.Itoa(at)
		if at+step <= hi {
			parts[i] = fmt.Sprintf("%d-%d/%d", at, hi, step)
		}
	}
	return strings.Join(parts, ","), nil
}
