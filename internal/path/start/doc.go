// Package start is the step of a run in which an attempt begins: its row is leased to
// a session, and from then on that session delivers it and no other.
//
//	due runs ─► Claim ──── starts what nothing stands in the way of, in one statement
//	              │ the rest
//	              ▼
//	            Admit ──┬─ starts       with the permits that it needs
//	                    ├─ waits        for another run of its job, or for a permit
//	                    ├─ is skipped   its deadline has passed, its job is paused, it overlaps
//	                    └─ replaces     the live runs of its job, which end first
//
// There is one way to start a run (start.sql) and one way to decide about it: Decide
// for the policy of its job, Grant for limits. Both are pure. Admit locks the runs of
// many jobs in one transaction, asks both, and writes what they say. Nodes call it for
// runs that Claim leaves, waitlists call AdmitWaiting, which locks the limits first, and
// workers' queues call AdmitFor.
//
// Claim is a shortcut for most runs: claim.sql compares what Decide would look at, and
// takes only runs under no limit. A test compares the two on random jobs.
//
// Which runs may start at all is written once, in the function belfry_may_start of the
// schema: the session owns the partition, or the queue is the worker's; the run was
// not missed while no node served the partition; and no restore holds it.
//
// Every start happens under the shared lock of a session, which a takeover of its
// partitions takes exclusively. It commits before anything is delivered. If the reply
// is lost, ResolveClaim finds out what happened.
//
//	decide.go    whether a run may start: Decide, Grant
//	claim.go     Claim, and ResolveClaim after a lost reply
//	store.go     Admit
//	permit.go    permits of queues, concurrency keys and quotas
//	content.go   payloads that are too large to read under locks
//	key.go       idempotency keys, which are decided before a delivery
package start
