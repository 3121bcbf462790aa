package engine

import (
	"context"
	"time"

	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/job"
)

const (
	countPause = 10 * time.Second
	// countShare bounds how long counts take that fail: to a 50th of the time, on each node.
	countShare = 50
)

// countOnce counts the live runs of namespaces, for plan. One node at a time does so.
func (e *Engine) countOnce(ctx context.Context) (time.Duration, error) {
	begun := clock.Elapsed()
	err := e.Namespaces.CountLiveRuns(ctx, countPause, job.MaxNamespaceRuns)
	if err != nil {
		return max(countPause, countShare*(clock.Elapsed()-begun)), err
	}
	return countPause, nil
}
