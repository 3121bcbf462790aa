package job

import (
	"time"

	"github.com/google/uuid"
)

// QueueCounts counts the live runs and the workers of a queue.
type QueueCounts struct {
	Due         int64 // runs that may start and have not
	OldestDueAt time.Time
	Running     int64 // running, or accepted by a target that has not reported
	Waiting     int64 // of the due runs, those that wait for a permit
	More        bool  // there are more runs than were read: Due and Running may be too low, OldestDueAt is not
	Planned     int64 // runs that may start within the next minute
	PlannedMore bool  // there are more of those

	Workers int64
	// Orphans are the handlers of due runs for which no worker asks.
	Orphans []string
}

// LiveCounts counts the live runs of all queues at one instant, by the id of the queue.
type LiveCounts map[int32]*QueueCounts

// WorkerInfo describes the session of a worker.
type WorkerInfo struct {
	ID          uuid.UUID
	Name        string
	Handlers    []string // nil: it has not claimed yet
	Slots       *int     // nil: it did not report them
	Running     int64
	RunningMore bool // there are more than were counted
	StartedAt   time.Time
	HeartbeatAt time.Time
	ExpiresAt   time.Time
	Silent      bool // two heartbeats are missing
}

// WorkerMark is where a page of workers ends.
type WorkerMark struct {
	Name string    `json:"name"`
	ID   uuid.UUID `json:"id"`
}

// BrokenSchedule is a schedule that nodes cannot plan.
type BrokenSchedule struct {
	Schedule string // JSON
	Problem  string
	Since    time.Time
	RetryAt  time.Time
	Jobs     int64
	More     bool // there are more jobs than were counted
	Sample   []BrokenJob
}

// BrokenJob is a job whose schedule cannot be planned.
type BrokenJob struct {
	ID   uuid.UUID
	Name string
}
