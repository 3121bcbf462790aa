package job

import (
	"time"

	"github.com/google/uuid"
)

// DeadLetter is a failed run that waits for redrive or discard.
type DeadLetter struct {
	Key
	FailedAt time.Time
	Attempt  int16
	Reason   Reason
	Status   int    // of the target's protocol; 0 if none
	Cause    string // see [Cause]
	Message  string
	JobName  string // empty if the job is deleted
	Queue    string
}

// DeadFilter selects dead letters. A zero field selects all.
type DeadFilter struct {
	Job          uuid.UUID `json:"job,omitzero"`
	Queue        string    `json:"queue,omitempty"`
	Reason       Reason    `json:"reason,omitempty"`
	Cause        string    `json:"cause,omitempty"`
	FailedFrom   time.Time `json:"failed_from,omitzero"`
	FailedBefore time.Time `json:"failed_before,omitzero"`
}

// DeadQuery asks for a page of dead letters, newest first.
type DeadQuery struct {
	Namespace uuid.UUID
	DeadFilter
	Limit int
	After RunMark
}

// DeadPage is a page of dead letters. It may be short even if there are more.
type DeadPage struct {
	Letters []DeadLetter
	Next    *RunMark // nil after the last page
}
