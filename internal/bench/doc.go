// Package bench measures what Belfry does on a user's own PostgreSQL.
//
//	             jobs, in SQL            the same binary
//	belfry bench ────────────► scratch ◄──────────────── nodes ──► sink (http)
//	     ▲                     database                    │         │
//	     │  ledger, counters      │                        │         │
//	     └────────────────────────┴── samples of lateness ─┴─ receipts
//
// The parts are processes of their own, as in real life: a node that shares a
// heap and a scheduler with what measures it is not what users run. Children
// end when their standard input does, so none outlives the parent, however it
// dies.
//
// What had to happen is told by the arithmetic of this package, what did by the
// ledger and, over http, by the receiver. Lateness is what the node saw: the
// start of an attempt after run_at, by its lower bound of the database's clock.
package bench
