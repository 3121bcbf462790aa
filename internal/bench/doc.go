// Package bench measures what Belfry does on a user's own PostgreSQL.
//
//	             jobs, in SQL            the same binary
//	belfry bench ────────────► scratch ◄──────────────── nodes ──► sink (http)
//	     ▲                     database                    │         │
//	     │  ledger, counters      │                        │         │
//	     └────────────────────────┴── samples of lateness ─┴─ receipts
//
// The parts are separate processes, as in production: a node that shares heap and scheduler with the measurement is not
// what users run. Children end when their standard input does, so none outlives the parent, however it dies.
//
// This package computes which runs are expected. The ledger and, with http, the receiver say which happened. Lateness
// is measured by the node: from the run time to the start of the attempt, by its lower bound of the database clock.
//
//	bench.go                              create the database, load jobs, start nodes, count, clean up
//	hot_second.go, steady.go, engine.go   the three benchmarks; bare.go is the comparison without an engine
//	child.go, node.go, sink.go            the processes
//	sample.go, usage.go, cpu.go           what is measured
//	result.go, print.go, html.go          what is reported
//	scratch/                              the scratch database
package bench
