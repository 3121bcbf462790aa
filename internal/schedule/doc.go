// Package schedule answers one question: when is the next occurrence after t?
//
// A [Spec] is what users write and the API carries as JSON; [New] checks it and
// compiles it into a [Schedule], an immutable value that many goroutines may
// share. There are four kinds, and exactly one is set in a Spec:
//
//	at     one instant, or one wall-clock reading in a zone
//	every  a fixed distance in elapsed time from an anchor; never drifts
//	cron   5 or 6 fields, names, L W #, H, macros
//	rrule  RFC 5545 recurrence, FREQ=DAILY or slower
//
// # Zones and DST
//
// cron and rrule are patterns over wall-clock readings. They know nothing of
// zones: a reading is held as the number of seconds since 1970 "as if the clock
// showed UTC" (type wall). The zone layer (zone.go) walks the stretches of
// constant offset that a zone is made of, and asks the pattern for readings
// inside each:
//
//	instants   ──────────┬───────────────┬──────────────
//	offset        -5 h   │     -4 h      │    -5 h
//	readings   …   02:00)[03:00 …  02:00)[01:00 …
//	                     gap             fold
//
// In a gap the readings [02:00, 03:00) never happen: gap "shift" (the default)
// fires once, when the gap ends; "skip" does not fire. In a fold [01:00, 02:00)
// happens twice: fold "first" (the default), "second" or "both". A gap longer
// than three hours is a correction of the calendar, not DST (Apia had no
// 30 December 2011), and is skipped whatever the choice.
//
// An expression whose minute or hour begins with * follows elapsed time instead:
// it occurs at each real instant whose reading matches, so "every 15 minutes"
// stays every 15 minutes through both changes.
//
// # Bounds
//
// No input makes New or Next work for long: a search ends [Horizon] after its
// start (ErrNoMore) or after a fixed number of excluded occurrences
// (ErrTooFar), and New refuses a schedule that has no occurrence at all.
//
// The package is pure: no I/O but the zone database, no clock, no goroutine.
package schedule
