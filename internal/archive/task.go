package archive

import (
	"time"

	"github.com/google/uuid"
)

// Placed is a row and the namespace that it belongs to.
type Placed[T any] struct {
	Namespace uuid.UUID
	Row       T
}

// Task is a day that a session exports. The epoch fences what the session notes about it.
type Task struct {
	Day        Day
	Generation int
	Session    uuid.UUID
	Epoch      int64
	// AuditFailures is how often the audit of the day has failed.
	AuditFailures int
}

// Result is the outcome of a Task.
type Result struct {
	Manifest Manifest
	Again    bool // an object exists with another content: export the day as its next generation
	Failed   bool // the export failed: any session may take the day, this one too
	// AuditFailed: the audit of the day failed. With Failed it is retried, otherwise the day is archived without it.
	AuditFailed bool
}

// DayState is what the database knows about a day.
type DayState struct {
	Day        Day        `json:"day"`
	State      string     `json:"state"` // as docs/guide/archive.md lists them
	InDatabase bool       `json:"in_database"`
	Generation int        `json:"generation"`
	ArchivedAt *time.Time `json:"archived_at,omitempty"`
	Runs       Sum        `json:"runs"`
	Skips      Sum        `json:"skips"`
	Files      int64      `json:"files"`
	Bytes      int64      `json:"bytes"`
	Manifest   string     `json:"manifest,omitempty"`
	// AuditFailures is how often its audit failed since it last succeeded.
	AuditFailures int `json:"audit_failures,omitempty"`
}
