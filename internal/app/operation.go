package app

import (
	"context"
	"time"

	"github.com/belfry-dev/belfry/internal/telemetry"
)

// How long after it found no work a node looks for it again: soon while there
// was some a moment ago, which is paced, and else seldom.
const (
	operationPause = time.Second
	operationSoon  = 100 * time.Millisecond
	operationLooks = 20 // so often it looks soon
)

// operate works on what users asked for in bulk, with whichever other nodes do.
func (n *node) operate(ctx context.Context) {
	var trouble telemetry.Trouble
	idle := operationLooks
	for ctx.Err() == nil {
		worked, err := n.store.WorkOperation(ctx)
		switch {
		case err != nil && ctx.Err() == nil:
			trouble.Failed(n.log, "cannot work on an operation", err, "again_in", operationPause)
			idle = operationLooks
		case err == nil:
			trouble.Worked(n.log, "works on operations again")
		}
		if worked {
			idle = 0
			continue
		}
		pause := operationPause
		if idle < operationLooks {
			idle++
			pause = operationSoon
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		timer.Stop()
	}
}
