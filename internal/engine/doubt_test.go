package engine_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/schedule"
)

// scripted is a target that returns the outcome that the test sends for a job.
type scripted struct {
	mu    sync.Mutex
	gates map[uuid.UUID]chan job.Outcome
}

func (s *scripted) gate(id uuid.UUID) chan job.Outcome {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gates[id] == nil {
		s.gates[id] = make(chan job.Outcome)
	}
	return s.gates[id]
}

func (s *scripted) Deliver(ctx context.Context, a job.Attempt) job.Outcome {
	select {
	case o := <-s.gate(a.Key.Job):
		return o
	case <-ctx.Done():
		return job.Outcome{Kind: job.Failed, Message: "the test has ended"}
	}
}

// A success is written while the clock is in doubt, because its node may die. Outcomes that need a time, and cannot be
// written yet, do not delay it.
func TestSuccessesAreWrittenWhileTheClockIsInDoubt(t *testing.T) {
	t.Parallel()
	b := setup(t)
	target := &scripted{gates: map[uuid.UUID]chan job.Outcome{}}
	b.engine.Targets["scripted"], b.engine.Completers = target, 1
	create := func(name string) uuid.UUID {
		return b.create(t, name, schedule.Spec{At: "2026-01-01T00:00:00Z"}, func(d *job.Definition) {
			d.Target.Kind, d.Retry = "scripted", job.Retry{MaxAttempts: 1}
		}).ID
	}
	fails, first, second := create("fails"), create("first"), create("second")
	b.start(t)
	b.eventually(t, "all are running", `SELECT count(*) FROM run WHERE state = 1`, 3)
	right := b.bound.Now()
	require.NotEmpty(t, b.bound.Set(clock.Sample{Now: right.Add(time.Hour), Mark: right}).Doubt)
	_, err := b.pool.Exec(t.Context(), `UPDATE cluster SET trusted_at = now() - interval '1 h'`)
	require.NoError(t, err)

	target.gate(fails) <- job.Outcome{Kind: job.Failed, Status: 400}
	const succeeded = `SELECT count(*) FROM run_history WHERE ended = 1`
	target.gate(first) <- job.Outcome{Kind: job.Succeeded}
	b.eventually(t, "a success", succeeded, 1)
	target.gate(second) <- job.Outcome{Kind: job.Succeeded} // not in the batch of the failure
	b.eventually(t, "another success", succeeded, 2)
	b.eventually(t, "the failure waits", `SELECT count(*) FROM run WHERE state = 1`, 1)

	_, err = b.pool.Exec(t.Context(), `UPDATE cluster SET trusted_at = now()`)
	require.NoError(t, err)
	b.eventually(t, "the failure is written", `SELECT count(*) FROM run_history WHERE ended = 2`, 1)
	counted := func() bool { return b.engine.Counts().Completed == 3 } // after it is written
	require.Eventually(t, counted, time.Minute, time.Millisecond)
}
