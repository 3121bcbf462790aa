// Package why explains one occurrence of a job: what happened, why, and what to do about it.
//
// It is pure. internal/postgres reads the [Facts], and [Explain] turns them into a [Story]:
//
//	explain.go   finds the ledger entry, or the reason why there is none
//	text.go      describes an entry
//	next.go      says what happens next, or what to do
package why
