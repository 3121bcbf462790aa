package app

import (
	"context"
	"time"

	"github.com/belfry-dev/belfry/internal/job"
)

const (
	historyAhead = 3 // days made ahead, so that a night without a node does no harm
	prunePause   = 10 * time.Minute
	maxBroken    = 1000 // that are counted
)

// prune makes the days of history ahead and drops those past their time.
func (n *node) prune(ctx context.Context) {
	tick := time.NewTicker(prunePause)
	defer tick.Stop()
	for {
		if err := n.store.MakeHistory(ctx, historyAhead); err != nil && ctx.Err() == nil {
			n.log.Error("cannot make the days of history", "error", err)
		}
		dropped, err := n.store.DropHistory(ctx, n.config.KeepHistory)
		if err != nil && ctx.Err() == nil {
			n.log.Error("cannot drop old history", "error", err)
		}
		for _, table := range dropped {
			n.log.Info("dropped a day of history", "table", table)
		}
		if broken, oldest, err := n.store.Broken(ctx, maxBroken); err != nil && ctx.Err() == nil {
			n.log.Error("cannot count broken cursors", "error", err)
		} else if broken > 0 {
			n.log.Error("schedules cannot be planned; they are tried again at least each hour", "cursors", broken, "oldest", oldest)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
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
