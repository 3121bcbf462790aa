package job

import (
	"time"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/problem"
)

// WorkerSession is the session of a worker. It belongs to one queue.
type WorkerSession struct {
	ID        uuid.UUID
	Namespace uuid.UUID
	Queue     int32
	QueueName string
	Name      string
	ExpiresAt time.Time
}

// SessionPath names a worker's session as requests do. The session has to be of this namespace and queue.
type SessionPath struct {
	Namespace uuid.UUID
	Queue     string
	ID        uuid.UUID
}

// SessionParams are the parameters of a new session.
type SessionParams struct {
	Namespace uuid.UUID
	Queue     string
	Name      string
	TTL       time.Duration
	Make      bool // creates the queue if it does not exist
	Actor     string
	Slots     int // how many runs the worker has at most at the same time; 0: unknown
	// Adopt is an earlier session of the same worker that this one replaces; the zero value means none. The
	// new session takes over Runs, and other runs of the old one are lost.
	Adopt uuid.UUID
	Runs  []Lease
}

// Validate returns the first problem of the parameters.
func (o SessionParams) Validate() error {
	if !queueForm.MatchString(o.Queue) {
		return problem.New("queue", problem.Quote(o.Queue)+" is not a queue name", QueueNameFix)
	}
	var c problem.Checker
	CheckName(&c, o.Name)
	if len(c) > 0 {
		return c[0]
	}
	return nil
}

// OpenedSession is a new session. Gone are the runs that it should have adopted and could not.
type OpenedSession struct {
	WorkerSession
	TTL  time.Duration
	Gone []Gone
}

// Lease is an attempt that a worker executes, as far as the worker knows.
type Lease struct {
	Key     Key
	Attempt int16
	// Percent and Progress are nil unless the worker has reported them since the last heartbeat.
	Percent  *int16
	Progress *string
}

// Gone is an attempt that a session no longer holds, and why.
type Gone struct {
	Lease
	Why GoneReason
}

// GoneReason is why a session no longer holds an attempt. It is a code that clients switch on.
type GoneReason string

// The reasons.
const (
	GoneCancelled GoneReason = "cancelled" // a user or a newer run cancelled the run
	GoneTimeout   GoneReason = "timeout"   // the attempt took too long
	GoneReported  GoneReason = "reported"  // its outcome has been reported
	GoneLost      GoneReason = "lost"      // another attempt replaced it, or the run does not exist any more
)

// Reported is the outcome of a report about an attempt.
type Reported struct {
	Err      error         // why it may not be written; it is to be sent again
	Rejected GoneReason    // empty: it was accepted
	Took     time.Duration // how long the attempt took; 0 if the report was rejected
}

// Explain describes a reason, and what the worker should do.
func (r GoneReason) Explain() string {
	switch r {
	case GoneCancelled:
		return "the run was cancelled; stop working on it"
	case GoneTimeout:
		return "the attempt took longer than the job's timeout, and counts as failed; stop working on it"
	case GoneReported:
		return "this attempt was reported before; no action needed"
	default:
		return "this session does not hold the attempt: its session had expired and another worker got the run, " +
			"or it never held it; stop working on it"
	}
}

// Fate is what is known of an attempt that its session no longer holds.
type Fate struct {
	Ended   *Ended       // how the run ended; nil if it did not
	Mine    bool         // the attempt that ended the run was the session's own
	Outcome *OutcomeKind // of the attempt, if the run has not ended; nil if unknown
}

// Why returns why the session no longer holds the attempt.
func (f Fate) Why() GoneReason {
	switch {
	case f.Ended != nil && *f.Ended == EndedCancelled:
		return GoneCancelled
	case f.Ended != nil && f.Mine, f.Outcome != nil && *f.Outcome != Lost:
		return GoneReported
	default:
		return GoneLost
	}
}

const sessionPrefix = "ses_"

// FormatSessionID is the public id of a worker's session.
func FormatSessionID(id uuid.UUID) string { return sessionPrefix + Alphabet.EncodeToString(id[:]) }

// ParseSessionID reads exactly what FormatSessionID writes.
func ParseSessionID(s string) (uuid.UUID, error) { return ParseID(s, sessionPrefix, "a session") }
