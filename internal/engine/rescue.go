package engine

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/job"
)

const (
	rescuePause = time.Second
	rescueLimit = 1000
)

// rescueOnce ends attempts that no node will report on: their session has ended. A node that owns nothing does
// so too: if all nodes died while the clock was ahead, their sessions own everything until Rescue corrects them.
func (e *Engine) rescueOnce(ctx context.Context) (time.Duration, error) {
	if err := e.rescueForgotten(ctx); err != nil {
		return 0, err
	}
	retries, found, err := e.Completer.Rescue(ctx, e.Member.Owned(), rescueLimit)
	e.add(ctx, retries)
	if err != nil {
		return 0, err
	}
	return e.rescued(found, "runs rescued", "retries", len(retries))
}

// rescueWorkersOnce ends attempts of dead workers. Their retries are for workers again, and the sweep finds those that a
// node delivers now. It is a loop of its own, because the other one may have to read all runs of its partitions.
func (e *Engine) rescueWorkersOnce(ctx context.Context) (time.Duration, error) {
	_, found, err := e.Completer.RescueWorkers(ctx, rescueLimit)
	if err != nil {
		return 0, err
	}
	return e.rescued(found, "worker runs rescued")
}

// rescued notes how many attempts a round has ended, and returns when the next one begins.
func (e *Engine) rescued(found int, message string, more ...any) (time.Duration, error) {
	if found > 0 {
		e.Log.Warn(message, append([]any{"found", found}, more...)...)
		e.stats.rescued.Add(int64(found))
	}
	if found >= rescueLimit {
		return 0, nil
	}
	return rescuePause, nil
}

// Leases is the store as FailedOver needs it.
type Leases interface {
	// Leased returns the attempts that are leased to a session, as lost.
	Leased(ctx context.Context, session uuid.UUID, limit int) ([]job.Completion, error)
}

// FailedOver is called when the database failed over. If acknowledged writes may be lost, completions and claims may be
// among them: this node has forgotten attempts that are leased to it again, and runs that are pending again.
func (e *Engine) FailedOver(f job.Failover) {
	if f.Writes() != job.WritesKept {
		e.failedOver.Store(true)
	}
}

// rescueForgotten ends attempts that are leased to this node and that it does not know, and loads its runs again, after
// FailedOver. A run that is taken may be one whose claim is unresolved: the next round decides about it. If the
// completion of an attempt is under way, one of the two outcomes is fenced.
func (e *Engine) rescueForgotten(ctx context.Context) (err error) {
	unsure := e.inFlight.takeUnsure()
	if !e.failedOver.Swap(false) && !unsure {
		return nil
	}
	limit := e.Slots + rescueLimit
	more := true
	defer func() {
		if more || err != nil {
			e.failedOver.Store(true)
		}
	}()
	leased, err := e.Leases.Leased(ctx, e.Member.Session(), limit)
	if err != nil {
		return err
	}
	more = len(leased) == limit
	forgotten := slices.DeleteFunc(leased, func(c job.Completion) bool {
		// In this order, because a claimed run is in flight before it is released.
		taken := e.wheel.Taken(c.Key.RunKey())
		more = more || taken
		return taken || e.inFlight.has(c)
	})
	if len(forgotten) > 0 {
		if forgotten, err = e.stillLeased(ctx, forgotten, limit); err != nil {
			return err
		}
	}
	if len(forgotten) > 0 {
		e.Log.Warn("runs rescued: a failover lost their completion", "found", len(forgotten))
		retries, _, err := e.Completer.CompleteDecided(ctx, forgotten)
		if err != nil {
			return err
		}
		e.stats.rescued.Add(int64(len(forgotten)))
		e.add(ctx, retries)
	}
	if !more {
		e.loads.add(e.Member.Owned(), e.Bound.Now())
	}
	return nil
}

// stillLeased returns those of some attempts that are leased to this node now. One that ended between the first search
// and the look at what is in flight is not: its run may be live, because the target has accepted it.
func (e *Engine) stillLeased(ctx context.Context, forgotten []job.Completion, limit int) ([]job.Completion, error) {
	leased, err := e.Leases.Leased(ctx, e.Member.Session(), limit)
	if err != nil {
		return nil, err
	}
	type lease struct {
		run     job.RunKey
		attempt int16
	}
	still := make(map[lease]bool, len(leased))
	for _, c := range leased {
		still[lease{c.Key.RunKey(), c.Attempt}] = true
	}
	return slices.DeleteFunc(forgotten, func(c job.Completion) bool {
		return !still[lease{c.Key.RunKey(), c.Attempt}]
	}), nil
}
