package engine

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/job"
)

// Queues is the store as the loop "queues" uses it.
type Queues interface {
	PausedAndLimitedQueues(ctx context.Context) (paused, limited []int32, err error)
}

// Namespaces is the store as the wheel and the cap of live runs use it.
type Namespaces interface {
	NamespacesOfQueues(ctx context.Context, queues []int32) (map[int32]uuid.UUID, error)
	// CountLiveRuns counts the live runs of namespaces, of which each may have a maximum, unless a node did so within a time.
	CountLiveRuns(ctx context.Context, within time.Duration, maximum int64) error
}

// queuesPause is how long a node may not notice that a queue was paused or resumed. A limit holds from
// the moment it is set, because the database refuses what it forbids.
const queuesPause = time.Second

// queuesOnce updates in the wheel which queues are paused and which have limits.
func (e *Engine) queuesOnce(ctx context.Context) (time.Duration, error) {
	paused, limited, err := e.Queues.PausedAndLimitedQueues(ctx)
	if err != nil {
		return 0, err
	}
	e.wheel.SetPaused(paused)
	if e.Limits != nil {
		e.wheel.SetLimited(limited)
	}
	if !e.queuesKnown.Swap(true) {
		e.wheel.Signal()
	}
	return queuesPause, nil
}

// add adds runs to the wheel. It first reads the namespaces of queues that are new to this node, because namespaces take
// turns. If that fails, those queues share a turn until it succeeds for later runs of theirs.
func (e *Engine) add(ctx context.Context, runs []job.Run) {
	if unknown := e.wheel.Unknown(runs); len(unknown) > 0 && e.Namespaces != nil {
		if of, err := e.Namespaces.NamespacesOfQueues(ctx, unknown); err == nil {
			e.wheel.SetNamespaces(of)
		}
	}
	e.wheel.Add(runs)
}

// mayClaim returns false until it is known which queues are paused: nothing starts before.
func (e *Engine) mayClaim() bool { return e.Queues == nil || e.queuesKnown.Load() }
