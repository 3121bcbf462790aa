package app

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/belfry-dev/belfry/internal/postgres"
)

const (
	samplePause = 15 * time.Second
	maxQueues   = 50 // with metrics of their own; the others are added up
	otherQueues = "(other)"
	maxBroken   = 1000 // cursors that are counted
)

// depth is the number of runs that wait in the partitions of this node, as of the last sample. However
// often it is scraped, it costs one query per samplePause. It is empty if the last sample failed: an old
// number would look like a current one.
type depth struct {
	last atomic.Pointer[postgres.Depth]
}

var (
	queueRuns = prometheus.NewDesc("belfry_queue_runs",
		"Live runs in the partitions of this node by queue and state, at most 15 s old; counted up to 100,000.",
		[]string{"namespace", "queue", "state"}, nil)
	deadLetters = prometheus.NewDesc("belfry_dead_letters",
		"Dead letters in the partitions of this node, at most 15 s old; counted up to 100,000.", nil, nil)
	sessionsLive = prometheus.NewDesc("belfry_sessions_live",
		"Sessions of the whole cluster that are alive, at most 15 s old.", nil, nil)
)

// Describe lists the metrics.
func (d *depth) Describe(to chan<- *prometheus.Desc) {
	to <- queueRuns
	to <- deadLetters
	to <- sessionsLive
}

// Collect sends the last sample.
func (d *depth) Collect(to chan<- prometheus.Metric) {
	s := d.last.Load()
	if s == nil {
		return
	}
	gauge := func(desc *prometheus.Desc, value int64, labels ...string) {
		to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(value), labels...)
	}
	for _, q := range fullest(s.Queues) {
		gauge(queueRuns, q.Scheduled, q.Namespace, q.Queue, "pending")
		gauge(queueRuns, q.Due, q.Namespace, q.Queue, "due")
		gauge(queueRuns, q.Running, q.Namespace, q.Queue, "running")
		gauge(queueRuns, q.Waiting, q.Namespace, q.Queue, "accepted")
	}
	gauge(deadLetters, s.DeadLetters)
	gauge(sessionsLive, s.Sessions)
}

// fullest limits the number of queues: it returns the first maxQueues, and the sum of the rest.
func fullest(queues []postgres.QueueDepth) []postgres.QueueDepth {
	if len(queues) <= maxQueues {
		return queues
	}
	rest := postgres.QueueDepth{Namespace: otherQueues, Queue: otherQueues}
	for _, q := range queues[maxQueues:] {
		rest.Scheduled += q.Scheduled
		rest.Due += q.Due
		rest.Running += q.Running
		rest.Waiting += q.Waiting
	}
	return append(queues[:maxQueues:maxQueues], rest)
}

// sampleOnce counts the runs that wait in the partitions of this node.
func (n *node) sampleOnce(ctx context.Context) (time.Duration, error) {
	d, err := n.store.Depth(ctx, n.member.Owned())
	if err != nil {
		n.metrics.depth.last.Store(nil)
		return samplePause, err
	}
	n.metrics.depth.last.Store(&d)
	n.noteLate(&d)
	broken, _, err := n.store.BrokenCursors(ctx, maxBroken)
	if err == nil {
		n.metrics.broken.Store(int64(broken))
	}
	return samplePause, err
}
