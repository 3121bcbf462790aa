package app

import (
	"context"
	"time"

	"github.com/belfry-dev/belfry/internal/job"
)

const (
	historyAhead = 3 // days made ahead, so that a night without a node does no harm
	prunePause   = 10 * time.Minute
	pruneBatch   = 1000 // jobs in one transaction
)

// pruneOnce creates the partitions of history that are needed next, drops those past their retention,
// and removes finished jobs and expired answers. A step that fails does not stop the others: each is
// logged with its name and retried in the next round.
func (n *node) pruneOnce(ctx context.Context) (time.Duration, error) {
	failed := func(step string, err error) {
		if err != nil && ctx.Err() == nil {
			n.log.Error("prune failed", "step", step, "error", err)
		}
	}
	failed("make the days of history", n.store.MakeHistory(ctx, historyAhead))
	dropped, err := n.store.DropHistory(ctx, n.config.KeepHistory)
	failed("drop old history", err)
	for _, table := range dropped {
		n.log.Info("dropped a day of history", "table", table)
	}
	if done, left, err := n.store.ResealSecrets(ctx); err != nil || done+left > 0 {
		failed("seal secrets anew", err)
		n.log.Info("sealed secrets with the key in use", "done", done, "left", left)
	}
	for _, batch := range []struct {
		what string
		once func() (int, error)
	}{
		{"finish jobs that have ended", func() (int, error) { return n.store.FinishJobs(ctx, pruneBatch) }},
		{"remove finished one-offs", func() (int, error) { return n.store.RemoveJobs(ctx, pruneBatch) }},
		{"drop output of attempts that are over", func() (int, error) { return n.store.DropStaleOutputs(ctx, pruneBatch) }},
		{"drop old answers", func() (int, error) { return n.store.DropAnswers(ctx, pruneBatch) }},
		{"drop old skips", func() (int, error) { return n.store.DropSkips(ctx, n.config.KeepHistory, pruneBatch) }},
	} {
		for more := true; more && ctx.Err() == nil; {
			done, err := batch.once()
			failed(batch.what, err)
			more = err == nil && done == pruneBatch
		}
	}
	return prunePause, nil
}

// gained takes in the runs of partitions that this node now owns.
func (n *node) gained(ctx context.Context, got []job.Ownership) {
	partitions := make([]int16, len(got))
	for i, o := range got {
		partitions[i] = o.Partition
	}
	n.log.Info("gained partitions", "count", len(got))
	if err := n.engine.Load(ctx, partitions); err != nil {
		n.log.Warn("cannot load the runs of new partitions; the next sweep will", "error", err)
	}
}

func (n *node) lost(partitions []int16) {
	n.log.Info("lost partitions", "count", len(partitions))
	n.engine.Drop(partitions)
}
