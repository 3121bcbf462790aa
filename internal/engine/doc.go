// Package engine runs the loops that take a run from its schedule to its outcome:
//
//	plan → claim → deliver → complete, plus sweep, rescue and prune.
//
// Decisions live in internal/job and internal/path, SQL in internal/postgres and internal/path.
// This package only decides when each of them is called.
//
//	            plan            due                    one slot each
//	database ─────────► wheel ─────────► claimers ─────────────────► deliverers
//	    ▲  ▲              ▲ ▲               │ needs a decision            │
//	    │  │ sweep, load  │ └── wait ── admitters ◄┘                      │ outcomes
//	    │  └──────────────┤ retries                                       ▼
//	    └─────────────────┴──────────────── complete ◄────────────── completers
//
// The wheel (package wheel) is an in-memory index of upcoming runs in the partitions this node owns. It
// is only a hint: claiming a run that no longer exists does nothing, and the sweep finds runs the wheel
// does not know. Losing a partition, or two nodes believing they own it, is therefore harmless.
//
// Claim takes runs that need no decision, in batches: that includes runs of every policy that nothing
// blocks. The rest go to the admitters, also in batches, so jobs with an overlap policy do not slow down
// others. Namespaces take turns there as well. If the reply to a claim is lost, the claimer keeps asking
// until it knows whether the claim committed, because no other node delivers runs that are leased to a
// live session.
//
// Runs limited by a queue or a concurrency key wait on a waitlist, ordered by priority and run time.
// They occupy no slot. One loop claims those whose limits are not known to be full, and the database
// decides which of them get a permit. When a run ends on this node, its waitlists are retried
// immediately; permits freed on other nodes are noticed by polling every wheel.PermitPoll.
//
// Runs are claimed up to Lead before their run time and start once the lower bound of the database
// clock (clock.Bound) has reached it, so no run ever starts early. Limited runs are claimed when they
// are due, without Lead.
//
// # Loops
//
//	plan        plan.go       writes the runs of the next minute and adds them to the wheel
//	claim       claim.go      claims due runs and hands them to the deliverers
//	waitlists   waitlist.go   starts due runs that fall under limits
//	sweep       sweep.go      finds runs that other nodes created, retried or woke
//	wake        wake.go       finds runs that were just written, when Wake says where
//	load        sweep.go      loads all runs of partitions that this node has gained
//	overdue     sweep.go      finds runs that everything else missed
//	rescue      rescue.go     ends attempts whose node or worker is dead
//	pause       complete.go   pauses jobs that have failed too often
//	interrupt   interrupt.go  stops attempts whose run has ended or belongs to another session
//	queues      queues.go     reads which queues are paused and which have limits
//	reconcile   waitlist.go   compares permits with live runs, and pending runs with their jobs
//	live-runs   live_runs.go  counts the live runs of namespaces, each of which may have a maximum
//
// Two more, finish and prune, come from internal/path/keep.
//
// Admitters, deliverers and completers read from queues instead. Each loop is a loop.Loop, and tests
// can call its round directly.
//
// # Stopping
//
// The engine stops planning and claiming, delivers and completes what it has claimed, and only then
// lets internal/member release the session.
package engine
