package keep

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/loop"
)

// HistoryAhead is how many days of history are created in advance, so that runs can end even if prune
// fails for days.
const HistoryAhead = 14

const (
	prunePause  = 10 * time.Minute
	finishPause = 30 * time.Second
	batchSize   = 1000 // rows in one transaction
)

// Options of a Keeper.
type Options struct {
	Store     *Store
	Session   func() uuid.UUID // of the node
	ZoneRules string           // identifies the time zone rules of this process
	LookAhead time.Duration    // how far ahead runs are planned; 60s
	Retention time.Duration    // of history
	Log       *slog.Logger
}

// Keeper has the loops of a node that finish jobs and remove what is over.
type Keeper struct {
	Options
	finish, prune []step
}

// step changes up to limit rows and returns how many there were.
type step struct {
	name  string
	batch func(ctx context.Context, limit int) (int, error)
}

// NewKeeper returns a Keeper.
func NewKeeper(o Options) *Keeper {
	k, s := &Keeper{Options: o}, o.Store
	k.LookAhead = cmp.Or(k.LookAhead, time.Minute)
	retained := func(drop func(context.Context, time.Duration, int) (int, error), keep time.Duration) func(
		context.Context, int) (int, error) {
		return func(ctx context.Context, limit int) (int, error) { return drop(ctx, keep, limit) }
	}
	k.finish = []step{
		{"follow time zone rules", k.followZones},
		{"finish jobs that have ended", s.FinishJobs},
		{"remove finished one-off jobs", s.RemoveJobs},
	}
	k.prune = []step{
		{"create days of history", k.createHistory},
		{"drop old history", k.dropHistory},
		{"drop output of ended attempts", s.DropStaleOutputs},
		{"drop expired idempotent responses", s.DropIdempotentResponses},
		{"drop expired login sessions", s.DropLogins},
		{"drop old statistics", retained(s.DropStats, job.KeepStats)},
		{"drop old skips", retained(s.DropSkips, k.Retention)},
		{"drop old operations", retained(s.DropOperations, k.Retention)},
	}
	return k
}

// Loops returns the loops. Their steps may take long, so a round has no limit.
func (k *Keeper) Loops() loop.Group {
	return loop.Group{{Name: "finish", Once: k.finishOnce}, {Name: "prune", Once: k.pruneOnce}}
}

// finishOnce finishes jobs whose end has come, and removes one-offs that finished long enough ago. Users see both, so
// it is more frequent than prune. First it moves cursors that were computed by other time zone rules.
func (k *Keeper) finishOnce(ctx context.Context) (time.Duration, error) {
	k.all(ctx, k.finish)
	return finishPause, nil
}

// pruneOnce creates the next days of history, drops those past their retention, and removes what has expired.
func (k *Keeper) pruneOnce(ctx context.Context) (time.Duration, error) {
	k.all(ctx, k.prune)
	return prunePause, nil
}

// all takes each step until it has nothing left. One that fails is logged and does not stop the others. All are
// retried in the next round.
func (k *Keeper) all(ctx context.Context, steps []step) {
	for _, step := range steps {
		for more := true; more && ctx.Err() == nil; {
			n, err := step.batch(ctx, batchSize)
			if err != nil && ctx.Err() == nil {
				k.Log.Error("prune failed", "step", step.name, "error", err)
			}
			more = err == nil && n == batchSize
		}
	}
}

func (k *Keeper) followZones(ctx context.Context, _ int) (int, error) {
	moved, err := k.Store.FollowZones(ctx, job.FollowZonesParams{
		Session: k.Session(), Rules: k.ZoneRules, LookAhead: k.LookAhead,
	})
	if moved > 0 {
		k.Log.Info("cursors moved: time zone rules have changed", "cursors", moved)
	}
	return 0, err
}

func (k *Keeper) createHistory(ctx context.Context, _ int) (int, error) {
	return 0, k.Store.CreateHistory(ctx, HistoryAhead)
}

func (k *Keeper) dropHistory(ctx context.Context, _ int) (int, error) {
	dropped, err := k.Store.DropHistory(ctx, k.Retention)
	for _, table := range dropped {
		k.Log.Info("dropped a day of history", "table", table)
	}
	if errors.Is(err, job.ErrInUse) {
		k.Log.Warn("old history cannot be dropped yet, will retry", "retry_after", prunePause, "error", err)
		return 0, nil
	}
	return 0, err
}
