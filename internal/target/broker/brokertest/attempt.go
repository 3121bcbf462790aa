package brokertest

import (
	"time"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/job"
)

// Patience is the timeout of attempts. It is long, because only a failing test waits for it.
const Patience = time.Minute

// Attempt returns the first attempt of a new run.
func Attempt(kind, config string) job.Attempt {
	id := uuid.New()
	return job.Attempt{
		Key:    job.Key{Partition: job.PartitionOf(id), Job: id, DueAt: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)},
		Number: 1, Timeout: Patience, Kind: kind, Config: config, Payload: `{"n": 1}`,
	}
}
