package job

import (
	"time"

	"github.com/google/uuid"
)

// Queue is a lane for runs.
type Queue struct {
	Name      string
	Paused    bool
	PausedAt  time.Time // zero: it is not
	Note      string    // why it is paused
	CreatedAt time.Time

	Limits  QueueLimits
	Running int64 // live runs that have a place; of a limited queue only
	Waiting int64 // runs that wait for one, as nodes said within the last seconds; of a limited queue only
}

// QueueParams is what somebody asks of a queue.
type QueueParams struct {
	Namespace uuid.UUID
	Name      string
	Note      string // of a pause: why
	Actor     string
	Limits    QueueLimits // of a change of them
}

// Cluster is who is alive and who works on what.
type Cluster struct {
	Now     time.Time // the database's
	Schema  int64     // its version
	Nodes   []Node
	Unowned []int16 // partitions that no live node owns
}

// Node is a live process.
type Node struct {
	Session    uuid.UUID
	Name       string
	StartedAt  time.Time
	ExpiresAt  time.Time // unless it is renewed
	Owns       bool      // may be given partitions; false: it drains
	Partitions []int16
}
