// Package job holds Belfry's vocabulary, and the decisions of all steps of a run that have no package of their own.
//
// It is pure: no I/O, no clock and no goroutines. The current instant is always an argument, read once per transaction
// from the database. internal/postgres reads rows, calls a decision here and writes its result; it decides nothing
// itself.
//
// # The life of a run
//
//	            Plan           start.Decide, Grant         finish.Decide
//	occurrence ──────► pending ───────────────────► running ──────────► history
//	    │               │   ▲                        │   │               ▲  ▲
//	    │               │   │   retry or deferral    │   │ accepted      │  │
//	    │               │   └────────────────────────┤   ▼               │  │
//	    │               │                            └ waiting ──────────┘  │
//	    │ skip          │ skip                                              │
//	    └───────────────┴───────────────────────────────────────────────────┘
//
// A run is due once its run time has come. "Due" is a comparison with the clock, not a state. A run that fails
// permanently goes to history and also becomes a dead letter.
//
// # Vocabulary
//
//   - [Job]: a saved [Definition] of schedule, target, payload and [Policy]. Each change creates a new version.
//   - [Run]: one occurrence of a job. Its [Key] is the job, the due time and a sequence number.
//   - Due time and run time: when the schedule says, and when the run may start. Jitter and retries move only
//     the run time.
//   - [Attempt]: one try of a run. Its number is the fencing token: every write names it, and a write that finds
//     another number changes nothing. An attempt ends with an [Outcome].
//   - Cursor: how far a schedule has been planned. Jobs with the same schedule share a cursor.
//   - [Session]: a live process. Runs are leased to sessions, and partitions are owned by them.
//   - Permit: the right to run under a [Limit] (a queue or a concurrency key), held from start to end of a run.
//     A [Candidate] asks for permits, [Capacity] is how many a limit still has.
//   - Deferred: pending again without counting an attempt, because the target was not tried.
//   - Ledger: live runs and history together. Every expected occurrence has an [Entry], with a [Reason] if it
//     did not run.
//
// # Decisions
//
//   - [Plan] decides which occurrences of a schedule get a run, which are skipped, and where the cursor goes.
//     [Resumed], [Created] and [Backfill] are its variants for a resumed job, a new one-off and a past range.
//   - [Assign] decides which worker gets which of the due runs that workers pull.
//
// # Files
//
//	job.go defaults.go validate.go duration.go  a definition, its defaults and what can be wrong with it
//	run.go attempt.go id.go                     runs, attempts, outcomes and public ids
//	plan.go catchup.go resume.go backfill.go    planning
//	admit.go limit.go permit.go                 what starts ask: rules, limits and refusals
//	worker.go session.go pull.go                runs that workers pull
//	backoff.go                                  how long a retry waits
//	idempotency.go                              the key that a target gets with an attempt
//	control.go idempotent_request.go            requests of users
//	list.go ledger.go dead_letter.go queue.go   what users read
package job
