// Package pull hands runs to workers, which are users' own processes, and writes what workers report.
//
// A worker opens a session for one queue, then long-polls for runs of the handlers it knows. The node
// replies with runs that it has leased to that session. The worker reports an outcome for each of them,
// and renews its session with heartbeats meanwhile.
//
//	long polls ──► queue ──► PullClaim ──────────────────► replies
//	                 ▲           │ alone                     ▲
//	                 │           ▼                           │
//	                 │       PullAdmit, one by one ───────────┘
//	   feeds with    │           │ may not start yet
//	   due runs      │           ▼
//	                 ├──────── blocked
//	                scan
//
//	reports ──► batches of a few milliseconds ──► CompletePulled ──► replies
//
//	undelivered runs ──► Claimed, if it is unknown whether they are leased ──► CompletePulled
//
// # Feeds and marks
//
// A feed is the runs of one queue, handler and priority, ordered by run time. For each feed that workers
// wait for, a node keeps a low-water mark: as far as this node knows, every run before the mark has been
// taken. Claims and scans start at the mark, so they do not meet the dead rows of runs that were taken, however
// many VACUUM has not removed yet.
//
// A mark is a hint. It stays a little behind the database's clock, because a transaction may commit a run
// whose run time has already passed, and a wake-up moves it back to runs that were planned late. If a mark is
// too far ahead, a run is late but not lost: once a second a scan starts ten seconds back, and every thirty
// seconds at the beginning of the feed. Scans and claims of a feed overlap. None of them moves the mark if another
// one has found runs before the place where it began to read, and none moves it on if it began before a wake-up
// about late runs.
//
// # Scans and claims
//
// One scan for the whole node asks, for all feeds with waiting polls in one statement, when their first
// run is due. It wakes the queues that have one. A queue then collects its polls for a millisecond and
// claims for up to 200 of them in one transaction; job.Assign decides which poll gets which run.
//
// The claim decides about the runs as nodes do (internal/path/start), all but those that replace others under a
// limit: they are admitted one by one. A run that may not start yet, because
// another run of its job is live or its concurrency key has no permit, is blocked: claims and scans skip
// it. Blocked runs that wait for the same job or key form a line, and the first of the line is retried after
// a second, or immediately when a run that it may wait for ends through this node. The runs of a job have the
// order of their due times, those of a key that of priority and run time. In the line of a key, a run that has to
// wait for its job lets other jobs go first. The lines that wait longest have their turn first, so no line keeps
// the others waiting. If as many runs wait for a key as it has permits, a run without an overlap policy joins
// them without a try, so a long line does not keep the runs behind it waiting either.
//
// # Fences
//
// Safety does not depend on this package. The database leases a run to a session under the lock of its
// queue and never before its run time. It accepts a report only from the session and attempt that hold
// the lease. Several nodes can hand out runs of one queue without knowing of each other.
//
// # Lost replies
//
// A session stays alive while its worker sends heartbeats, and no one else takes runs of a live session.
// A run that is leased to a worker that does not know about it must therefore be returned:
//
//   - If the reply to PullClaim is lost, the polls of that claim get the error. A worker that gets one
//     opens a new session in place of the old one and names the runs it has; the others are rescued.
//   - If the reply to PullAdmit is lost, the claim of that run is unresolved. Claims and scans skip the run
//     until internal/claim has found out whether it was leased. If it was, the run is undelivered.
//   - If a worker disconnects while a claim for it is under way, the runs of that claim are undelivered.
//
// An undelivered run is returned by completing its attempt as snoozed: nothing was done, so it does not
// count as an attempt, and the run is available immediately. The node retries until the database accepts.
//
// # Stopping
//
// Stop replies to all polls with no runs and accepts no new ones; reports are still written. Undelivered
// runs that cannot be written are retried once more and then left to the rescue: they end when their
// worker's session ends or their timeout passes.
//
// Loops run on internal/loop, and none runs while no worker is connected. The scan ends with the last poll,
// the loop of a queue a minute after it, and the loops that write reports and return runs when nothing is left
// to write.
package pull
