// Package tracing creates the OpenTelemetry spans of runs and exports them by OTLP over HTTP.
//
// The spans of a run are created when it has ended, by the node that wrote its end, from what the ledger says:
//
//	store ──ends──► Ended ──queue──► read ──► spans ──queue──► export ──► collector
//	                 │ not traced, or full      │ not traced, or full
//	                 ▼                          ▼
//	              nothing, or dropped and counted
//
// Their ids are derived from the key of the run (package trace), so attempts on other nodes, before crashes, are in the
// same trace and have the ids that their targets received. As the outcome is known, failed, rescued and late runs are
// traced too, whatever share of the others is.
//
// No run waits for any of it: both queues are bounded, what does not fit is dropped and counted, and each loop has
// its own goroutine.
package tracing
