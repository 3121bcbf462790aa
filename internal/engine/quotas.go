package engine

import (
	"context"
	"time"

	"github.com/belfry-dev/belfry/internal/clock"
)

const (
	quotasPause = 10 * time.Second
	// quotasShare bounds how long counts take that fail: to a 50th of the time, on each node.
	quotasShare = 50
)

// quotasOnce counts the live runs of namespaces with a quota of them, for plan. One node at a time does so.
func (e *Engine) quotasOnce(ctx context.Context) (time.Duration, error) {
	begun := clock.Elapsed()
	err := e.Namespaces.CountForQuotas(ctx, quotasPause)
	if err != nil {
		return max(quotasPause, quotasShare*(clock.Elapsed()-begun)), err
	}
	return quotasPause, nil
}
