// Package wheel is the timing wheel: an in-memory index of the runs that a node will start, by the time
// they may start. It holds the pending runs of the partitions that this node owns. Runs enter it when
// they are planned, loaded, swept or retried, and leave it when they are claimed.
//
// The wheel is only a hint. The database decides whether a run exists, is due and may start, so a wheel
// that knows too much or too little makes runs late at worst.
//
//	  Add            its slot comes             Take
//	───────► slots ──────────────────► ready ─────────────► taken ──► Started, Release
//	           ▲                        │ ▲                 ▲   │
//	           │        queue is paused │ │ SetPaused       │   │
//	           │                        ├─┴─ paused queues  │   │
//	           │                        │                   │   │
//	           │     falls under limits │       TakeWaiting │   │
//	           │                        └──► waitlists ─────┘   │
//	           │                                ▲               │
//	           │                                │ ReturnRefused │
//	           │                                └───────────────┤
//	           │           Return, ReturnAt, ReturnBlocked      │
//	           └────────────────────────────────────────────────┘
//
// # Slots
//
// A slot is 20 ms of time and holds the runs that may start by its beginning. A heap orders the slots.
// Half a million runs in one second are 50 slots, so adding and taking a run cost the same however many
// share its time. Runs of slots that have come are ready: one first-in-first-out list per namespace and priority.
// Namespaces take turns, so that a million due runs of one of them do not delay the others. The wheel learns from claims
// which namespace a queue belongs to.
//
// A run that is found again with an earlier run time gets an entry in that slot too. The entry in the later slot stays:
// searching a slot of half a million runs for it would cost more than the claim that finds nothing.
//
// # One run of a job at a time
//
// Between Take and Release (or a Return) a job is busy: its other runs wait, in order, until the first
// is returned. Two runs of one job are therefore never in one claim, and never claimed concurrently.
//
// A run is blocked if its job's overlap policy makes it wait for another run of the job. Each blocked run
// was decided about once, when it was due. After that it waits in line, and only the first of the line is
// taken again: each BlockedPause, and as soon as RunsEnded reports the end of a run of its job. The others
// follow when it has started, and are taken when their deadline passes.
//
// # Paused queues
//
// Ready runs of a paused queue are set aside until SetPaused no longer names their queue. They stay
// known, so a sweep that finds them again adds nothing.
//
// # Waitlists
//
// A run that falls under limits (of its queue, of its concurrency key, or both) goes to a waitlist when
// it is due. There is one waitlist for each combination of limits, ordered by priority and run time.
// TakeWaiting takes runs from all waitlists whose limits are not known to be full.
//
// What the wheel knows about a limit is a guess, because other nodes take and free permits too. The
// state of a limit says whether it was full, when it is worth trying again, and how many runs to try:
//
//	refused for lack of capacity   full until a run ends on this node or SetCapacity reports capacity
//	refused by a rate              full until the next token, at most one second; then try 50
//	nothing refused                try twice as many as were started
//	nothing known                  try 500
//
// A run whose job moved to another queue, or whose queue got its first limit, waits in the wrong place.
// Add recognizes such runs and moves them.
//
// # Locking
//
// A Wheel is safe for concurrent use. One mutex guards everything. Every exported method locks it, and
// no unexported function does: they all expect the caller to hold it.
package wheel
