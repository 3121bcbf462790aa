// Package ledger says what happened to an occurrence of a job: it ran, was skipped and why, waits, is still to come, or is
// missing.
//
// The ledger has no row for most occurrences that did not run: what a whole schedule skipped is a range of its cursor,
// and what a gap or a calendar removes is computed. Life is what is known about a job over time, and Life.Account
// combines it with what the ledger has, as decision 10 says. The readers of the ledger ask it: why adds words,
// timeline adds items and buckets, and auditor adds counts and looks for what Account cannot explain.
//
// The package is pure: no I/O and no clock.
package ledger
