package app

import (
	"context"
	"time"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/postgres"
)

// statsOnce writes what this node has counted.
func (n *node) statsOnce(ctx context.Context) (time.Duration, error) {
	return job.StatsPause, n.writeStats(ctx, false)
}

// writeStats writes what this node has counted: one statement, and one more when it sees a queue for the first time.
// last: it stops, and counts nothing more.
func (n *node) writeStats(ctx context.Context, last bool) error {
	if n.bound.Doubt() != "" {
		return nil // its minutes may be wrong
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
			return err
		}
		t.Learn(found)
	}
	rows, done := t.Rows()
	if err := store.WriteStats(ctx, n.process, rows, last); err != nil {
		return err
	}
	done()
	return nil
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
