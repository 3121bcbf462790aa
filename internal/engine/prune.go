package engine

import (
	"context"
	"errors"
	"time"

	"github.com/belfry-dev/belfry/internal/job"
)

// History is the store as prune sees the ledger of ended runs, which is partitioned by day, and ended operations.
type History interface {
	CreateHistory(ctx context.Context, daysAhead int) error
	DropHistory(ctx context.Context, keep time.Duration) (dropped []string, err error)
	DropOperations(ctx context.Context, keep time.Duration, limit int) (int, error)
}

// Pruner is the store as prune sees everything else that time changes. Methods with a limit remove at most as many
// rows, and return how many there were.
type Pruner interface {
	// FollowZones moves cursors of the session's partitions that were computed by other time zone rules.
	FollowZones(ctx context.Context, in job.FollowZonesParams) (moved int64, err error)
	FinishJobs(ctx context.Context, limit int) (int, error)
	RemoveJobs(ctx context.Context, limit int) (int, error)
	DropStaleOutputs(ctx context.Context, limit int) (int, error)
	DropIdempotentResponses(ctx context.Context, limit int) (int, error)
	DropSkips(ctx context.Context, keep time.Duration, limit int) (int, error)
}

// Logins is the store as prune sees login sessions.
type Logins interface {
	DropLogins(ctx context.Context, limit int) (int, error)
}

// Minutes is the store as prune sees the statistics of minutes.
type Minutes interface {
	DropStats(ctx context.Context, keep time.Duration, limit int) (int, error)
}

// HistoryAhead is how many days of history are created in advance, so that runs can end even if prune
// fails for days.
const HistoryAhead = 14

const (
	prunePause  = 10 * time.Minute
	finishPause = 30 * time.Second
	pruneBatch  = 1000 // rows in one transaction
)

// pruneStep removes up to limit rows and returns how many there were.
type pruneStep struct {
	name  string
	batch func(ctx context.Context, limit int) (int, error)
}

// finishOnce finishes jobs whose end has come, and removes one-offs that finished long enough ago. Users see both, so
// it is more frequent than prune. First it moves cursors that were computed by other time zone rules.
func (e *Engine) finishOnce(ctx context.Context) (time.Duration, error) {
	moved, err := e.Pruner.FollowZones(ctx, job.FollowZonesParams{
		Session: e.Member.Session(), Rules: e.ZoneRules, LookAhead: e.LookAhead,
	})
	e.pruneFailed(ctx, "follow time zone rules", err)
	if moved > 0 {
		e.Log.Info("cursors moved: time zone rules have changed", "cursors", moved)
	}
	e.pruneAll(ctx,
		pruneStep{"finish jobs that have ended", e.Pruner.FinishJobs},
		pruneStep{"remove finished one-off jobs", e.Pruner.RemoveJobs},
	)
	return finishPause, nil
}

// pruneOnce creates the next days of history, drops those past their retention, and removes what has
// expired. A step that fails is logged and does not stop the others. All are retried in the next round.
func (e *Engine) pruneOnce(ctx context.Context) (time.Duration, error) {
	e.pruneFailed(ctx, "create days of history", e.History.CreateHistory(ctx, HistoryAhead))
	dropped, err := e.History.DropHistory(ctx, e.KeepHistory)
	if errors.Is(err, job.ErrInUse) {
		e.Log.Warn("old history cannot be dropped yet, will retry", "retry_after", prunePause, "error", err)
	} else {
		e.pruneFailed(ctx, "drop old history", err)
	}
	for _, table := range dropped {
		e.Log.Info("dropped a day of history", "table", table)
	}
	e.pruneAll(ctx,
		pruneStep{"drop output of ended attempts", e.Pruner.DropStaleOutputs},
		pruneStep{"drop expired idempotent responses", e.Pruner.DropIdempotentResponses},
		pruneStep{"drop expired login sessions", e.Logins.DropLogins},
		pruneStep{"drop old statistics", func(ctx context.Context, limit int) (int, error) {
			return e.Minutes.DropStats(ctx, job.KeepStats, limit)
		}},
		pruneStep{"drop old skips", func(ctx context.Context, limit int) (int, error) {
			return e.Pruner.DropSkips(ctx, e.KeepHistory, limit)
		}},
		pruneStep{"drop old operations", func(ctx context.Context, limit int) (int, error) {
			return e.History.DropOperations(ctx, e.KeepHistory, limit)
		}},
	)
	return prunePause, nil
}

func (e *Engine) pruneAll(ctx context.Context, steps ...pruneStep) {
	for _, step := range steps {
		for more := true; more && ctx.Err() == nil; {
			n, err := step.batch(ctx, pruneBatch)
			e.pruneFailed(ctx, step.name, err)
			more = err == nil && n == pruneBatch
		}
	}
}

func (e *Engine) pruneFailed(ctx context.Context, step string, err error) {
	if err != nil && ctx.Err() == nil {
		e.Log.Error("prune failed", "step", step, "error", err)
	}
}
