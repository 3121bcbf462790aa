package terminal

import "time"

// Moment formats a time for a page, in a zone and in UTC. It returns "" if there is none.
func Moment(t *time.Time, zone *time.Location) string {
	switch {
	case t == nil || t.IsZero():
		return ""
	case zone == nil || zone == time.UTC:
		return Local(t.UTC())
	}
	layout := "15:04:05 UTC"
	if t.In(zone).Day() != t.UTC().Day() {
		layout = "2006-01-02 15:04:05 UTC"
	}
	return Local(t.In(zone)) + Faint.Render(" ("+t.UTC().Format(layout)+")")
}

// Local formats a time in its own zone.
func Local(t time.Time) string { return t.Format("Mon 2006-01-02 15:04:05 MST") }

// Time formats a time for a table, in a zone or in UTC if it is nil. It returns "-" if there is none.
func Time(t *time.Time, zone *time.Location) string {
	if t == nil || t.IsZero() {
		return "-"
	}
	if zone == nil {
		zone = time.UTC
	}
	return t.In(zone).Format("2006-01-02 15:04:05")
}
