package job

import "time"

// Failover is a change of the primary of the database, or a restore.
type Failover struct {
	Before, Timeline int64
	Received         time.Time // the last commit that the new primary has of the old one; zero: unknown
	Noticed          time.Time
	Synchronous      bool // commits on the old primary waited for a standby
	Lost             bool // a node missed a write that was acknowledged
}

// Writes is what a failover did to acknowledged writes.
type Writes string

// The values of Writes.
const (
	WritesKept    Writes = "kept"
	WritesUnknown Writes = "unknown" // they may be lost
	WritesLost    Writes = "lost"
)

// Writes is what happened to writes that were acknowledged between Received and Noticed.
func (f Failover) Writes() Writes {
	switch {
	case f.Lost:
		return WritesLost
	case f.Synchronous:
		return WritesKept
	default:
		return WritesUnknown
	}
}
