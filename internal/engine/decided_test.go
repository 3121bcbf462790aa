package engine_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/belfry-dev/belfry/internal/engine"
	"github.com/belfry-dev/belfry/internal/job"
)

// stuckDecided writes no outcome that takes a decision before its gate is closed.
type stuckDecided struct {
	engine.Completer
	begun, gate chan struct{}
}

func (s *stuckDecided) CompleteDecided(ctx context.Context, done []job.Completion) ([]job.Run, int, error) {
	s.begun <- struct{}{}
	<-s.gate
	return s.Completer.CompleteDecided(ctx, done)
}

// TestSuccessesDoNotWaitForOtherOutcomes: writing that runs are deferred costs more. The successes of others are
// written meanwhile.
func TestSuccessesDoNotWaitForOtherOutcomes(t *testing.T) {
	t.Parallel()
	b := setup(t)
	stuck := &stuckDecided{b.store, make(chan struct{}, 100), make(chan struct{})}
	b.engine.Completer = stuck
	stop := b.start(t)
	for i := range 2 { // as many as there are completers
		b.create(t, fmt.Sprintf("exotic-%d", i), longAgo, func(d *job.Definition) { d.Target.Kind = "exotic" })
		<-stuck.begun
	}
	b.create(t, "plain", longAgo, nil)
	b.eventually(t, "succeeded", `SELECT count(*) FROM run_history WHERE ended = 1`, 1)
	b.eventually(t, "not written", `SELECT count(*) FROM run WHERE state = 1`, 2)
	close(stuck.gate)
	b.eventually(t, "deferred", `SELECT count(*) FROM run WHERE state = 0 AND free_attempts > 0`, 2)
	stop()
}
