package archive

import "github.com/google/uuid"

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
}

// Result is the outcome of a Task.
type Result struct {
	Manifest Manifest
	Again    bool // an object exists with another content: export the day as its next generation
}
