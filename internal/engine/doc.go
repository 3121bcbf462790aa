// Package engine is HOW runs happen: the loops of the path
//
//	plan → claim → deliver → complete, beside it sweep, rescue and prune
//
// and nothing else. What is decided is in internal/job, what is written in
// internal/postgres; the engine brings them together in time.
//
//	            Plan            take when due         one slot each
//	database ─────────► wheel ─────────────► claimers ─────────────► deliverers
//	    ▲  ▲              ▲ ▲                    │ left over             │
//	    │  │ Pending,     │ └─ wait ─ admitters ◄┘                       │ outcomes
//	    │  └─ Woken ──────┤ retries                                      ▼
//	    └─────────────────┴──────────── Complete ◄──────────────── completers
//
// The wheel holds the runs of the partitions that this node owns, in memory, by
// the time they may start. It may know too much or too little: a run that is
// gone is not claimed, one that it misses is found by a sweep. So
// losing ownership, or having it twice, makes nothing wrong. Runs of a paused
// queue stay in it until the queue is resumed.
//
// Claim takes what needs no decision, in batches. What it leaves goes to the
// admitters one by one, so that jobs with an overlap policy do not hold up the
// others. A claim whose answer was lost is in doubt: who made it asks until it
// is known, for nobody else will deliver what a living session holds.
//
// Runs that fall under a limit of their queue or of a concurrency key wait in
// lanes of the wheel, by priority and time. One loop tries those whose limits
// are not known to be full; the store decides, for all nodes. The end of a run
// that had a place opens its lanes at once, other nodes' ends are seen by a look
// each placePause. What waits there has no slot.
//
// Due-ness: a run is claimed up to Lead before its time and starts when the
// lower bound of the database's clock (clock.Bound) has reached it: never early.
//
// Stopping: take in nothing more, let what is claimed finish, complete it. The
// session is renewed until all of that is done; that is internal/member's part.
package engine
