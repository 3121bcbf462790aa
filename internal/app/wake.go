package app

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/loop"
	"github.com/belfry-dev/belfry/internal/postgres"
)

const (
	wakeLimit = 5 * time.Second // of sending
	// wakeGap is the least time between two wake-ups that a node sends. What is written meanwhile shares the next one.
	wakeGap  = 10 * time.Millisecond
	idleWake = time.Minute
	// pooledPause is how long a node does not try to listen after it found a pooler.
	pooledPause = time.Minute
)

// wakes carries wake-ups from the transactions that write due runs to the node that starts them: directly to this node,
// and by notifications of the database to the others. It is a shortcut. Whatever it loses, sweeps and scans find.
type wakes struct {
	node *node // set before anything is written
	from string

	mu      sync.Mutex
	unsent  job.Wake
	changed chan struct{} // has capacity for one signal

	pooled   atomic.Bool            // a pooler stands between: notifications do not arrive
	listener *postgres.WakeListener // of the loop "listen"; nil: not connected
}

func newWakes() *wakes { return &wakes{changed: make(chan struct{}, 1)} }

// start makes wake-ups arrive at a node.
func (w *wakes) start(n *node) { w.node, w.from = n, n.db.Process().Application() }

// written takes what a committed transaction has written. It never blocks.
func (w *wakes) written(k job.Wake) {
	w.wakeNode(k)
	others := job.Wake{Queues: k.Queues} // any node may have workers that wait
	for _, p := range k.Partitions {
		if !w.node.member.Owns(p) {
			others.Add(p, 0, false)
		}
	}
	if others.Empty() || w.pooled.Load() {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.unsent.Merge(others)
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

func (w *wakes) wakeNode(k job.Wake) {
	w.node.engine.Wake(k.Partitions)
	w.node.pull.Wake(k.Queues)
}

// loops returns the loops that send and receive.
func (w *wakes) loops() loop.Group {
	// Wait, because otherwise failing rounds follow at the rate of wake-ups.
	backoff := loop.Backoff{Min: 200 * time.Millisecond, Max: 5 * time.Second, Wait: true}
	return loop.Group{
		{
			Name: "notify", Title: "wake-up of other nodes", Once: w.sendOnce, Wake: w.changed, Limit: wakeLimit,
			Backoff: backoff, Log: w.node.log,
		},
		{Name: "listen", Title: "wake-up listener", Once: w.listenOnce, Backoff: backoff, Log: w.node.log},
	}
}

// sendOnce sends what was written since the last round, as one notification.
func (w *wakes) sendOnce(ctx context.Context) (time.Duration, error) {
	w.mu.Lock()
	k := w.unsent
	w.unsent = job.Wake{}
	w.mu.Unlock()
	if k.Empty() {
		return idleWake, nil
	}
	k.From = w.from
	if err := w.node.db.Wakes().Send(ctx, k); err != nil {
		return 0, err
	}
	select { // in the round and not after it, because a wake-up ends a pause
	case <-ctx.Done():
	case <-time.After(wakeGap):
	}
	return idleWake, nil
}

// listenOnce connects, or waits for one wake-up of another node.
func (w *wakes) listenOnce(ctx context.Context) (time.Duration, error) {
	if w.listener == nil {
		l, err := w.node.db.Wakes().Listen(ctx)
		pooled := errors.Is(err, postgres.ErrPooled)
		if w.pooled.Swap(pooled) != pooled && pooled {
			w.node.log.Info("nodes do not wake each other: a pooler stands before the database")
		}
		if pooled {
			return pooledPause, nil
		}
		w.listener = l
		return 0, err
	}
	k, err := w.listener.Next(ctx)
	if err != nil {
		w.close(ctx)
		return 0, err
	}
	if k.From != w.from {
		w.wakeNode(k)
	}
	return 0, nil
}

// close ends the connection of the listener. The loops must have ended.
func (w *wakes) close(ctx context.Context) {
	if w.listener != nil {
		w.listener.Close(ctx)
		w.listener = nil
	}
}
