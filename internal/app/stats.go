package app

import (
	"context"
	"time"

	"github.com/belfry-dev/belfry/internal/postgres"
)

// statsPause is how often a node writes what it has counted.
const statsPause = 5 * time.Second

// statsOnce writes what this node has counted: one statement, and one more when it sees a queue for the first time.
func (n *node) statsOnce(ctx context.Context) (time.Duration, error) {
	if n.bound.Doubt() != "" {
		return statsPause, nil // its minutes may be wrong
	}
	n.stats.Lock() // the last write, of a node that stops, may come while the loop writes
	defer n.stats.Unlock()
	t, store := n.metrics.tally, n.db.Admin()
	audited := n.engine.Counts().Audited
	t.Audited(audited - n.audited)
	n.audited = audited
	if unknown := t.Unknown(); len(unknown) > 0 {
		found, err := store.NamespacesOf(ctx, unknown)
		if err != nil {
			return statsPause, err
		}
		t.Learn(found)
	}
	rows, done := t.Rows()
	if err := store.WriteStats(ctx, n.process, rows); err != nil {
		return statsPause, err
	}
	done()
	return statsPause, nil
}

// noteLate notes how many runs of the partitions of this node are late.
func (n *node) noteLate(d *postgres.Depth) {
	late := map[int32]int64{}
	for _, q := range d.Queues {
		if q.Late > 0 {
			late[q.ID] += q.Late
		}
	}
	n.metrics.tally.Late(late)
}
