// Package path holds the steps of a run, one package each:
//
//	plan → wheel → start → deliver → finish
//
// A step has its decision (decide.go, pure), its statements (store.go and *.sql) and
// its loop. Steps call only to the right, and a retry goes back through the wheel.
// After a run has ended, keep removes what is over.
//
// So far start, finish and keep are here, and the loops of start and finish are not. The
// other loops are in internal/engine, statements in internal/postgres and decisions in
// internal/job.
package path
