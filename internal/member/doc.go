// Package member is Belfry's WHO: who is alive, and who owns which partition.
//
// A [Member] is this process in one shard. It has a session, a row that expires
// by the database's clock unless it is renewed, and owns the partitions whose
// row names that session. There is no leader: all members look at the same
// survey, come to the same assignment by rendezvous hashing, and each of them
// gives up what is another's and takes what is its own and free.
//
//	            registered                 Drain
//	no session ───────────▶ owning ───────────────────▶ draining ──▶ closed
//	    ▲                     │   renewed: trust until     │   Close: unregistered
//	    └─────────────────────┘   sent + TTL - margin      │
//	  expired, or not renewed                              └─▶ closed, also when the
//	  in time: everything lost,                                session expires: a draining
//	  next time another id                                     member makes no new one
//
// # Two loops
//
// renew moves the expiry, once per interval. assign surveys, releases and takes,
// once per interval too, or sooner: when a session that owns partitions would
// expire, and for a short while after members came or went. They are apart
// because taking waits for claims under way and OnGain may load much: neither
// may cost the session. An idle member makes two queries per interval.
//
// # Trust
//
// The database ends a session TTL after the instant it renewed it, which is
// later than the request was sent. So a session that was renewed by a request
// sent at s is alive until s + TTL at least, by any clock that runs at the same
// rate; [Member.Valid] stops a tenth of the TTL earlier. Nothing else prolongs
// trust: not an answer that never came, nor the wall clock.
//
// A paused process can still act right after it looked at Valid, and a machine
// that slept does not count its sleep. Both are harmless: each write is fenced in
// its own transaction, by owner, session or attempt. Ownership is an
// optimisation.
//
// # What fails
//
//   - A renewal fails or times out: tried again with each interval until trust
//     ends, then everything is lost. Whether the database did renew does not matter.
//   - A renewal answers that the session expired: everything is lost at once.
//   - Either way the next session has a new random id. The name decides nothing.
//   - A registration fails: its row may exist, and would be given partitions, so
//     it is removed before the next is made.
//   - Take or release fails: what became of it shows in the next survey. A
//     partition that is this session's by the table and by assignment is gained
//     then; one that is another's by assignment is released again.
//   - A member dies: its session expires; the others wake up at that instant and
//     take. A member hangs in a claim: taking waits for that claim, bounded, and
//     by owner, so that only the partitions of that one wait.
//   - The database is away: all members lose everything, and start anew when it
//     answers. Until then runs are late, not lost.
package member
