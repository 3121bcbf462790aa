package schedule

import "strings"

// Spread returns the schedule with H in place of minute 0, so that jobs are spread over the hour by their ids. It
// returns false for a schedule that does not name minute 0.
func (s Spec) Spread() (Spec, bool) {
	text := strings.TrimSpace(s.Cron)
	if macro, ok := cronMacros[strings.ToLower(text)]; ok {
		text = macro
	}
	f := strings.Fields(text)
	minute := len(f) - 5 // the field before it, if any, is the second
	if s.Cron == "" || minute < 0 || minute > 1 || strings.Trim(f[minute], "0") != "" {
		return s, false
	}
	f[minute] = "H"
	s.Cron = strings.Join(f, " ")
	return s, true
}
