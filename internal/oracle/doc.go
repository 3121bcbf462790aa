// Package oracle computes when a schedule must fire, by brute force. Its tests compare the product with it, and
// internal/auditor judges the ledger with it.
//
// The product computes the next occurrence by searching: it jumps over years, months and hours and corrects
// for the zone at the end. A search can be wrong in ways that its own tests share. The oracle therefore does
// the simplest thing:
//
//	for every instant of real time in the window, one after the other:
//	    ask the zone database what a clock on the wall reads;
//	    does that reading match the expression?
//
// It has its own parser (sets as []bool, one function per day term) and shares no code with
// internal/schedule, so a mistake in one of them shows as a difference. Code outside _test.go files must
// never import internal/schedule. Change one side without copying from the other.
//
// # What an expression means
//
// Text: five fields "minute hour day-of-month month day-of-week", or six with
// "second" first, or a macro (@hourly …). An expression is elapsed when its
// minute or hour field starts with "*"; every other one is fixed.
//
//	elapsed  occurs at each real instant whose reading matches: nothing in a
//	         gap, both passes of a fold. The DST options have no effect.
//	fixed    a reading that happens once occurs at its instant.
//	         fold (a reading that happens twice): first, second or both.
//	         gap (readings that never happen): shift = one occurrence at the
//	         instant of the transition if any reading in the gap matches;
//	         skip = nothing. A gap of more than three hours is a correction of
//	         the calendar, not daylight saving (Pacific/Apia lost a whole day
//	         in 2011): nothing occurs for it.
//
// Day rule: when the day-of-month or the day-of-week field starts with "*" or
// "?", a date must match both; otherwise one of the two suffices.
//
// # How it stays fast enough
//
// A [Clock] is the walk, done once: every minute of the window, with what the wall clock read and how often
// it read so. All expressions are matched against the same walk, and dates that match an expression are
// remembered. There is no other optimisation: no jump to a next candidate, no conversion from a wall reading
// to its instant, no knowledge of the zone's rules. The walk goes by minutes, because each offset and each
// transition since the 1970s is a whole minute. Where that is not so, it goes by seconds.
package oracle
