package job

import (
	"time"

	"github.com/google/uuid"
)

// Queue is a named group of runs that share limits and can be paused together.
type Queue struct {
	Name      string
	Paused    bool
	PausedAt  time.Time // zero if it is not paused
	Note      string    // why it is paused
	CreatedAt time.Time

	Limits  QueueLimits
	Running int64 // live runs that hold a permit; only for a queue with limits
	Waiting int64 // runs that wait for a permit, as nodes reported in the last seconds; only for a queue with limits
}

// QueueParams asks for a change of a queue.
type QueueParams struct {
	Namespace uuid.UUID
	Name      string
	Note      string // why, for a pause
	Actor     string
	Limits    QueueLimits // for a change of limits
}

// Cluster lists the live nodes and what they own.
type Cluster struct {
	Now     time.Time // the database's
	Schema  int64     // version of the database schema
	Nodes   []Node
	Unowned []int16 // partitions that no live node owns
}

// Node is a live server process.
type Node struct {
	Session    uuid.UUID
	Name       string
	StartedAt  time.Time
	ExpiresAt  time.Time // unless it is renewed
	Owns       bool      // may own partitions; false while it drains
	Partitions []int16
}
