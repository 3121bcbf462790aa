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
	if found == rescueLimit {
		return 0, nil
	}
	return rescuePause, nil
}
