package app

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/belfry-dev/belfry/internal/postgres"
)

const (
	samplePause = 15 * time.Second
	maxBroken   = 1000 // cursors that are counted
)

// depth is what waits in the partitions of this node, as of the last sample. However often it is scraped, it costs one
// query per samplePause. It is empty if the last sample failed: an old number would look like a current one.
type depth struct {
	last atomic.Pointer[depthSample]
}

// depthSample is a sample by labels, with the numbers of queues that share labels added up.
type depthSample struct {
	queues              map[queueLabel]*queueSample
	noPending           bool // counting the pending runs took too long
	sessions, daysAhead int64
	bytes               int64 // of the database
	backupAge           *float64
	heldFor             float64
}

type queueSample struct {
	pending, due, running, accepted int64
	pulled, slots, deadLetters      int64
	oldestDue                       float64
}

func queueGauge(name, help string, more ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, append([]string{"namespace", "queue"}, more...), nil)
}

var (
	queueRuns = queueGauge("belfry_queue_runs",
		"Live runs in the partitions of this node by queue and state, at most 15 s old.", "state")
	dueOldest = queueGauge("belfry_due_oldest_seconds",
		"Age of the oldest due run in the partitions of this node that could start and has not, at most 15 s old.")
	deadLetters = queueGauge("belfry_dead_letters",
		"Dead letters in the partitions of this node, at most 15 s old; counted up to 100,000.")
	workerSlots = queueGauge("belfry_worker_slots",
		"Slots that workers offer, at most 15 s old; each worker counts on one node.")
	workerSlotsUsed = queueGauge("belfry_worker_slots_used",
		"Runs in the partitions of this node that workers execute, at most 15 s old.")
	sessionsLive = prometheus.NewDesc("belfry_sessions_live",
		"Sessions of the whole cluster that are alive, at most 15 s old.", nil, nil)
	historyDaysAhead = prometheus.NewDesc("belfry_history_days_ahead",
		"Days of history that exist after today, at most 15 s old.", nil, nil)
	backupAge = prometheus.NewDesc("belfry_backup_age_seconds",
		"Time since the last backup of the database that was reported, at most 15 s old.", nil, nil)
	restoreHeld = prometheus.NewDesc("belfry_restore_held_seconds",
		"Time since a restore of the database was noticed that still holds runs, at most 15 s old; 0: none does.", nil, nil)
	databaseBytes = prometheus.NewDesc("belfry_database_bytes",
		"Size of the database on disk without its WAL, at most 15 s old.", nil, nil)
)

// Describe lists the metrics.
func (d *depth) Describe(to chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{
		queueRuns, dueOldest, deadLetters, workerSlots, workerSlotsUsed, sessionsLive, historyDaysAhead, backupAge,
		restoreHeld, databaseBytes,
	} {
		to <- desc
	}
}

// Collect sends the last sample.
func (d *depth) Collect(to chan<- prometheus.Metric) {
	s := d.last.Load()
	if s == nil {
		return
	}
	gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	}
	for l, q := range s.queues {
		if !s.noPending {
			gauge(queueRuns, float64(q.pending), l.namespace, l.queue, "pending")
		}
		gauge(queueRuns, float64(q.due), l.namespace, l.queue, "due")
		gauge(queueRuns, float64(q.running), l.namespace, l.queue, "running")
		gauge(queueRuns, float64(q.accepted), l.namespace, l.queue, "accepted")
		gauge(dueOldest, q.oldestDue, l.namespace, l.queue)
		gauge(deadLetters, float64(q.deadLetters), l.namespace, l.queue)
		gauge(workerSlots, float64(q.slots), l.namespace, l.queue)
		gauge(workerSlotsUsed, float64(q.pulled), l.namespace, l.queue)
	}
	gauge(sessionsLive, float64(s.sessions))
	gauge(historyDaysAhead, float64(s.daysAhead))
	gauge(restoreHeld, s.heldFor)
	gauge(databaseBytes, float64(s.bytes))
	if s.backupAge != nil {
		gauge(backupAge, *s.backupAge)
	}
}

// sampleOf adds up what queues with the same labels have.
func sampleOf(d *postgres.Depth, labelsOf func(queue int32) queueLabel) *depthSample {
	s := &depthSample{
		queues: map[queueLabel]*queueSample{}, sessions: d.Sessions, daysAhead: d.DaysAhead, backupAge: d.BackupAge,
		heldFor: d.HeldFor, bytes: d.Bytes, noPending: d.Scheduled == nil,
	}
	of := func(queue int32) *queueSample {
		l := labelsOf(queue)
		if s.queues[l] == nil {
			s.queues[l] = &queueSample{}
		}
		return s.queues[l]
	}
	for _, q := range d.Queues {
		sum := of(q.ID)
		sum.due, sum.pulled = sum.due+q.Due, sum.pulled+q.Pulled
		sum.running, sum.accepted = sum.running+q.Running, sum.accepted+q.Waiting
		sum.oldestDue = max(sum.oldestDue, q.OldestDue)
	}
	for _, q := range d.Scheduled {
		of(q.ID).pending += q.Count
	}
	for _, q := range d.DeadLetters {
		of(q.ID).deadLetters += q.Count
	}
	for _, q := range d.WorkerSlots {
		of(q.ID).slots += q.Count
	}
	return s
}

// names lists the queues of a sample. Those with the most runs come first.
func names(d *postgres.Depth) []postgres.QueueName {
	var out []postgres.QueueName
	for _, q := range d.Queues {
		out = append(out, q.QueueName)
	}
	for _, q := range slices.Concat(d.Scheduled, d.WorkerSlots, d.DeadLetters) {
		out = append(out, q.QueueName)
	}
	return append(out, d.Names...)
}

// sampleOnce counts what waits in the partitions of this node, and learns the names of queues.
func (n *node) sampleOnce(ctx context.Context) (time.Duration, error) {
	m := n.metrics
	d, err := n.store.Depth(ctx, n.member.Owned(), m.queues.unknown())
	if err != nil {
		m.depth.last.Store(nil)
		return samplePause, err
	}
	m.queues.learn(names(&d))
	m.depth.last.Store(sampleOf(&d, m.queues.labelsOf))
	n.noteLate(&d)
	broken, _, err := n.store.BrokenCursors(ctx, maxBroken)
	if err == nil {
		m.broken.Store(int64(broken))
	}
	return samplePause, err
}
