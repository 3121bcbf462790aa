package job

import "github.com/google/uuid"

// MaxBulk is how many jobs one transaction makes.
const MaxBulk = 1000

// BulkParams is jobs to be made together, at most MaxBulk.
type BulkParams struct {
	Namespace  uuid.UUID
	Jobs       []NewJob
	Actor      string
	Idempotent *IdempotentRequest
}

// NewJob is one of them.
type NewJob struct {
	ID         uuid.UUID // zero: a new one
	Definition Definition
}

// Made is one of the jobs of a BulkParams: the job, or why it was not made.
type Made struct {
	Job Job
	Err error
}
