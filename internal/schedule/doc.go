// Package schedule answers one question: when is the next occurrence after t?
//
// A [Spec] is what users write and what the API carries as JSON. [New] checks it and compiles it into a [Schedule], an
// immutable value that is safe for concurrent use. There are four kinds, and exactly one is set in a Spec:
//
//	at     one instant, or one wall-clock reading in a zone
//	every  a fixed interval of elapsed time from an anchor; never drifts
//	cron   5 or 6 fields, names, L W #, H, macros
//	rrule  RFC 5545 recurrence, FREQ=DAILY or slower
//
// # Zones and DST
//
// cron and rrule are patterns over wall-clock readings, independent of zones. A reading is the number of seconds since
// 1970 "as if the clock showed UTC" (type wall). The zone layer (zone.go) walks the stretches of constant offset in a
// zone and asks the pattern for readings inside each:
//
//	instants   ──────────┬───────────────┬──────────────
//	offset        -5 h   │     -4 h      │    -5 h
//	readings   …   02:00)[03:00 …  02:00)[01:00 …
//	                     gap             fold
//
// In a gap the readings [02:00, 03:00) never happen. Gap "shift" (the default) fires once, when the gap ends, and
// "skip" does not fire. In a fold the readings [01:00, 02:00) happen twice, and fold "first" (the default), "second" or
// "both" chooses. A gap of more than three hours is a correction of the calendar, not DST (Apia had no 30 December
// 2011), and is always skipped.
//
// An expression whose minute or hour begins with * follows elapsed time instead: it occurs at each real instant whose
// reading matches, so "every 15 minutes" stays every 15 minutes through both changes.
//
// # Bounds
//
// The work of New and Next is bounded for every input: a search ends [Horizon] after its start (ErrNoMore) or after a
// fixed number of excluded occurrences (ErrTooFar). New rejects a schedule without any occurrence.
//
// The package is pure: no I/O except the zone database, no clock and no goroutines.
package schedule
