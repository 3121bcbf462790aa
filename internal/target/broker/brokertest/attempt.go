package brokertest

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/target/guard"
)

// Patience is the timeout of attempts: long, as nothing but a fault makes a test wait for it.
const Patience = time.Minute

// Attempt is the first one of a run of its own.
func Attempt(kind, config string) job.Attempt {
	id := uuid.New()
	return job.Attempt{
		Key:    job.Key{Partition: job.PartitionOf(id), Job: id, DueAt: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)},
		Number: 1, Timeout: Patience, Kind: kind, Config: config, Payload: `{"n": 1}`,
	}
}

// Guard lets connections to these places pass.
func Guard(t *testing.T, allow ...string) *guard.Guard {
	t.Helper()
	g, err := guard.New(guard.Options{Allow: allow})
	if err != nil {
		t.Fatal(err)
	}
	return g
}
