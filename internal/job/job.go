package job

import (
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/schedule"
)

// Job is a saved definition and what Belfry knows about it.
type Job struct {
	ID        uuid.UUID // version 7
	Namespace uuid.UUID
	Partition int16 // PartitionOf(ID)
	Version   int32 // 1 at create, +1 with each change of the definition
	State     State
	Note      string // why it is paused
	CreatedAt time.Time
	CreatedBy string // an actor
	UpdatedAt time.Time
	UpdatedBy string
	NextDue   time.Time // see [NextDue]; zero means never

	// These are zero unless the job is paused.
	PausedAt    time.Time
	PausedBy    string
	PausedUntil time.Time // when Belfry resumes it; zero means never
	Definition
}

// State of a job.
type State int16

// The states of a job. Their numbers are stored.
const (
	Active   State = 1
	Paused   State = 2
	Finished State = 3 // its schedule has no occurrence left
)

// Definition is what a user writes. Each version of a job keeps all of it.
type Definition struct {
	Name        string            `json:"name"`
	Description string            `json:"description,omitempty"`
	Owner       string            `json:"owner,omitempty"` // such as a team; for people only
	Labels      map[string]string `json:"labels,omitempty"`
	Schedule    schedule.Spec     `json:"schedule"`
	Target      Target            `json:"target"`
	Payload     json.RawMessage   `json:"payload,omitempty"`
	Queue       string            `json:"queue,omitempty"`    // default "default"
	Priority    int16             `json:"priority,omitempty"` // 0 (default) to 9; higher first
	Policy
}

// Version is one version of a job's definition.
type Version struct {
	Number    int32
	CreatedAt time.Time
	CreatedBy string // an actor
	Definition
}

// Target is where runs go: a kind, and settings that only the package of that kind reads.
type Target struct {
	Kind   string          `json:"kind"` // for example http, kafka or worker
	Config json.RawMessage `json:"config,omitempty"`
}

// Policy is the part of a definition that decisions use.
type Policy struct {
	Retry   Retry   `json:"retry,omitzero"`
	Missed  Missed  `json:"missed,omitzero"`
	Overlap Overlap `json:"overlap,omitempty"` // default skip
	// Timeout of one attempt. Default 30s.
	Timeout Duration `json:"timeout,omitempty"`
	// ReportTimeout is how long a target that accepted an attempt may take until its report or its next heartbeat.
	// Default 1h.
	ReportTimeout Duration `json:"report_timeout,omitempty"`
	// Deadline: a run that cannot start within this time after its due time is skipped as expired. 0 means none.
	Deadline Duration `json:"deadline,omitempty"`
	Delivery Delivery `json:"delivery,omitempty"` // default at_least_once
	// PauseAfterFailures pauses the job after this number of failed runs in a row. 0 means never.
	PauseAfterFailures int32 `json:"pause_after_failures,omitempty"`
	// Concurrency bounds the live runs of all jobs with the same key.
	Concurrency Concurrency `json:"concurrency,omitzero"`
	// IdempotencyKey is a CEL expression for the key that a target gets. Empty means the run's id.
	IdempotencyKey string `json:"idempotency_key,omitempty"`
	// KeepFinishedFor is how long a finished one-off job is kept. Default 24h.
	KeepFinishedFor Duration `json:"keep_finished_for,omitempty"`
}

// Retry says how often and when a failed attempt is retried.
type Retry struct {
	MaxAttempts int16    `json:"max_attempts,omitempty"` // default 3
	Backoff     Backoff  `json:"backoff,omitempty"`      // default exponential
	Base        Duration `json:"base,omitempty"`         // default 5s
	Cap         Duration `json:"cap,omitempty"`          // default 15m, or base if that is longer
	// Jitter is the part of the delay that is random, 0 to 1. Default 0.2; -1 means none.
	Jitter float64 `json:"jitter,omitempty"`
}

// Backoff is how the delay between attempts grows.
type Backoff string

// The ways a delay grows.
const (
	BackoffNone        Backoff = "none"
	BackoffFixed       Backoff = "fixed"
	BackoffLinear      Backoff = "linear"
	BackoffExponential Backoff = "exponential"
)

// Missed says what happens to occurrences whose time passed before they could be planned: the cluster was down, the
// job was paused, or it was created too late.
type Missed struct {
	Policy MissedPolicy `json:"policy,omitempty"` // default once
	// CatchUpWindow: older ones are skipped. Default 30m.
	CatchUpWindow Duration `json:"catch_up_window,omitempty"`
	// Max is how many run with policy all, the newest ones. Default 100.
	Max int32 `json:"max,omitempty"`
	// Pace is the time between the starts of two of them. Default 1s.
	Pace Duration `json:"pace,omitempty"`
	// Paused is the policy for occurrences missed while the job was paused. Default skip.
	Paused MissedPolicy `json:"paused,omitempty"`
	// Created is the policy for a one-off whose time had passed when it was created. Default once. A recurring job
	// begins after its creation even if start_at is earlier; a backfill runs earlier occurrences.
	Created MissedPolicy `json:"created,omitempty"`
}

// MissedPolicy is what happens to missed occurrences.
type MissedPolicy string

// The policies for missed occurrences.
const (
	MissedSkip MissedPolicy = "skip"
	MissedOnce MissedPolicy = "once" // the newest of them runs
	MissedAll  MissedPolicy = "all"
)

// Overlap says what happens when a run is due while another of its job is live.
type Overlap string

// The overlap policies.
const (
	OverlapSkip     Overlap = "skip"
	OverlapQueue    Overlap = "queue"     // one waits; a further one is skipped
	OverlapQueueAll Overlap = "queue_all" // up to MaxQueued wait
	OverlapAllow    Overlap = "allow"
	OverlapReplace  Overlap = "replace" // the running one is cancelled
)

// MaxQueued bounds the runs of one job that wait with OverlapQueueAll.
const MaxQueued = 1000

// Delivery is the promise about attempts whose outcome is unknown.
type Delivery string

// The deliveries.
const (
	AtLeastOnce Delivery = "at_least_once"
	AtMostOnce  Delivery = "at_most_once" // an unknown outcome is never retried
)
