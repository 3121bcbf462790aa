package engine

import (
	"context"
	"time"
)

const (
	rescuePause = time.Second
	rescueLimit = 1000
)

// rescueOnce ends attempts that no node or worker will report on: their session has ended.
func (e *Engine) rescueOnce(ctx context.Context) (time.Duration, error) {
	owned := e.Member.Owned()
	if len(owned) == 0 {
		return rescuePause, nil
	}
	retries, found, err := e.Completer.Rescue(ctx, owned, rescueLimit)
	if err != nil {
		return 0, err
	}
	if found > 0 {
		e.Log.Warn("runs rescued", "found", found, "retries", len(retries))
		e.stats.rescued.Add(int64(found))
	}
	e.wheel.Add(retries)
	fromWorkers, err := e.rescueWorkers(ctx)
	if err != nil {
		return 0, err
	}
	if found == rescueLimit || fromWorkers == rescueLimit {
		return 0, nil
	}
	return rescuePause, nil
}

// rescueWorkers ends attempts of dead workers. Their retries are for workers again, and the sweep finds
// those that a node delivers now.
func (e *Engine) rescueWorkers(ctx context.Context) (found int, err error) {
	_, found, err = e.Completer.RescueWorkers(ctx, rescueLimit)
	if found > 0 {
		e.Log.Warn("worker runs rescued", "found", found)
		e.stats.rescued.Add(int64(found))
	}
	return found, err
}
