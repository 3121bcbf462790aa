package engine

import (
	"context"
	"time"
)

const (
	rescuePause = time.Second
	rescueLimit = 1000
)

// rescueOnce ends attempts that nobody will report on any more.
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
		e.Log.Warn("rescued runs", "found", found, "retries", len(retries))
		e.stats.rescued.Add(int64(found))
	}
	e.wheel.add(retries)
	lost, err := e.rescueWorkers(ctx)
	if err != nil {
		return 0, err
	}
	if found == rescueLimit || lost == rescueLimit {
		return 0, nil
	}
	return rescuePause, nil
}

// rescueWorkers ends what workers had that are gone. Retries are for workers
// again; those that are for nodes now are found by a sweep.
func (e *Engine) rescueWorkers(ctx context.Context) (found int, err error) {
	_, found, err = e.Completer.RescueWorkers(ctx, rescueLimit)
	if found > 0 {
		e.Log.Warn("rescued runs of workers", "found", found)
		e.stats.rescued.Add(int64(found))
	}
	return found, err
}
