package job

import (
	"time"

	"github.com/google/uuid"
)

// Queue is a named group of runs that share limits and can be paused together.
type Queue struct {
	ID        int32
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

	Owners       []PartitionOwner // one for each partition
	LagMore      bool             // there are too many live runs to read: a partition may be later than it says
	ClockInDoubt bool
	Database     DatabaseFacts
}

// PartitionOwner is who works on a partition, and how late.
type PartitionOwner struct {
	Owner       uuid.UUID // the session of the node; the zero value: none that is alive
	Epoch       int64
	OldestDueAt time.Time // of a run that could start and has not; zero: there is none
}

// NodeSettings are the settings of a node that users notice, as durations. A node that does not report one has "".
type NodeSettings struct {
	KeepHistory, LookAhead, WorkerTTL string
}

// DatabaseFacts are what a node sees of the database server.
type DatabaseFacts struct {
	Version        string
	Connections    int // of all clients to this database
	MaxConnections int
}

// Node is a live server process.
type Node struct {
	Session    uuid.UUID
	Name       string
	StartedAt  time.Time
	ExpiresAt  time.Time // unless it is renewed
	Owns       bool      // may own partitions; false while it drains
	Partitions []int16

	Version   string
	ZoneRules string // identifies the time zone rules
	Settings  NodeSettings
	Slots     *int // attempts at the same time; nil: not reported yet
	SlotsFree *int // at the last renewal
}
