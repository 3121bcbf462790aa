package clock

import "time"

// MaxFailover is how long a failover may take before it counts as a restore.
const MaxFailover = time.Minute

// Server identifies a server of PostgreSQL and its history. A promotion and a restore begin a new timeline. A field that
// is 0 is unknown.
type Server struct {
	System   int64 `json:"system"`
	Timeline int64 `json:"timeline"`
}

// differs reports whether two servers have different histories, as far as is known.
func (s Server) differs(other Server) bool {
	known := func(a, b int64) bool { return a != 0 && b != 0 && a != b }
	return known(s.System, other.System) || known(s.Timeline, other.Timeline)
}

// Restored decides whether the database was restored to an earlier time, from the server on which nodes trusted the
// clock last and that of now. An outage keeps the server. A failover changes it, but the mark is fresh, because renewals
// moved it on until the old server failed. A failover that takes longer than MaxFailover looks like a restore and counts
// as one: the price of a wrong yes is a question to the operator, and that of a wrong no is a second delivery of all that
// was forgotten.
func Restored(before, now Server, s Sample) bool {
	return before.differs(now) && !s.Mark.IsZero() && s.Now.Sub(s.Mark) > MaxFailover
}
