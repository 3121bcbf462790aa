// Package member decides which nodes are alive and which node owns which partition.
//
// A [Member] is this process in its cluster. It has a session: a row that expires by the database clock
// unless it is renewed. The session owns the partitions whose row names it. There is no leader. All
// members read the same survey of sessions and partitions and compute the same assignment by rendezvous
// hashing. Each of them releases what it should not own, and takes what it should own and is free.
//
//	            registered                 Drain
//	no session ───────────▶ owning ───────────────────▶ draining ──▶ closed
//	    ▲                    │  ▲                          Close: unregistered
//	    │      not renewed   │  │ renewed
//	    │      in time       ▼  │
//	    └─────────────── suspended: no partitions, but its attempts in flight go on
//	    another node has ended the session: the next one has a new id
//	    (a draining member registers no new one)
//
// # Two loops
//
// The loop "renew" extends the session once per interval. The loop "assign" surveys, releases and takes
// once per interval. It runs earlier when a session that owns partitions is about to expire, and for a
// short while after members joined or left. The loops are separate because taking a partition waits for
// claims in progress and OnGain may load many runs, and neither may cost the session. An idle member
// makes two queries per interval.
//
// # Trust
//
// The database sets the expiry to TTL after it renewed the session, which is later than when the request
// was sent. A session that was renewed by a request sent at s is therefore alive until at least s + TTL,
// by any clock that runs at the same rate. [Member.Valid] returns false a tenth of the TTL earlier. Only
// a reply extends trust; the wall clock is never used.
//
// A process can still be suspended right after it called Valid, and the clock of a machine that sleeps
// stops. Both are harmless, because each write is fenced in its own transaction: by owner,
// session or attempt. Ownership is an optimization.
//
// # Failures
//
//   - A renewal fails or times out: the member retries with each interval. When trust ends, it suspends
//     the session: it loses all partitions, keeps the session, to which runs are leased, and keeps
//     renewing. Whether the database did renew does not matter: no session is left behind that no process
//     uses.
//   - A survey shows that the session has expired: the same.
//   - A renewal succeeds: the session is revived, and gets partitions with the next survey.
//   - A renewal reports that another node has ended the session and rescues its runs: the member drops it.
//     The next session has a new random id. The name decides nothing.
//   - A registration fails: its row may exist and would be assigned partitions, so the member removes it
//     before it registers again.
//   - Taking or releasing fails: the next survey shows the result. The member then gains a partition that
//     the table and the assignment give to its session, and releases one that is assigned to another.
//   - A member dies: its session expires, and the others wake up at that instant and take its partitions.
//   - A member hangs in a claim: taking waits for that claim, with a limit. Partitions are taken owner by
//     owner, so only those of the hanging member wait.
//   - The database is down: all members suspend their sessions, and revive them when it is back. No node
//     ends a session in the first two TTLs after that, so attempts in flight survive (postgres.Members). Until
//     then runs are late, but none is lost.
package member
