package app

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/postgres"
)

// Each bucket is a series for each queue. The alerts use 1 and 5.
var (
	lagBuckets     = []float64{.005, .025, .1, .5, 1, 5, 30, 300}
	attemptBuckets = []float64{.01, .1, .5, 1, 5, 30, 300, 3600}
)

// Limits of memory. What exceeds them is counted as otherQueues.
const (
	maxUnnamed = 10_000  // values that are kept until the names of their queues are known
	maxKnown   = 100_000 // queues whose labels are kept
)

// The reasons that alerts look for. Their counters exist from the start: an increase from nothing to one is not seen.
var (
	failedReasons = []job.Reason{
		job.ReasonRejected, job.ReasonAttempts, job.ReasonLost, job.ReasonUnknownOutcome, job.ReasonGone,
	}
	missedReasons = []job.Reason{job.ReasonMissed, job.ReasonMissedWindow, job.ReasonMissedMax}
)

// queueMetrics are the metrics that count by queue. The path knows queues by their ids; sampleOnce reads the names.
// Until then the values of a queue are kept, so that they are counted under its name.
//
// An attempt of a queue whose name is known takes no lock but those of the Prometheus library.
type queueMetrics struct {
	lag, took *prometheus.HistogramVec
	ended     *prometheus.CounterVec

	known atomic.Pointer[map[int32]*queueSeries] // a map is not changed once it is here

	mu      sync.Mutex
	budget  *labelBudget
	series  map[queueLabel]*queueSeries
	unnamed map[int32]*unnamedQueue
	kept    int // values of unnamed
}

// queueSeries are the metrics of one pair of labels.
type queueSeries struct {
	queueLabel
	lag, took prometheus.Observer
}

// unnamedQueue is what is to be counted once the name of a queue is known.
type unnamedQueue struct {
	lag, took []float64
	ended     map[endedAs]int64
	kept      int // values
}

type endedAs struct {
	how job.Ended
	why job.Reason
}

func newQueueMetrics() *queueMetrics {
	histogram := func(name, help string, buckets []float64) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets},
			[]string{"namespace", "queue"})
	}
	q := &queueMetrics{
		lag: histogram("belfry_schedule_lag_seconds",
			"Delay between run_at and the start of an attempt.", lagBuckets),
		took: histogram("belfry_attempt_seconds",
			"Time from the start of an attempt to its outcome.", attemptBuckets),
		ended: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "belfry_runs_ended_total", Help: "Runs that this node moved to history, by end and reason.",
		}, []string{"namespace", "queue", "ended", "reason"}),
		budget: newLabelBudget(), series: map[queueLabel]*queueSeries{}, unnamed: map[int32]*unnamedQueue{},
	}
	q.known.Store(&map[int32]*queueSeries{})
	return q
}

func (q *queueMetrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{q.lag, q.took, q.ended}
}

// started counts an attempt that started.
func (q *queueMetrics) started(queue int32, late time.Duration) {
	if s := (*q.known.Load())[queue]; s != nil {
		s.lag.Observe(late.Seconds())
		return
	}
	q.later(queue, func(s *queueSeries) { s.lag.Observe(late.Seconds()) },
		func(u *unnamedQueue) { u.lag = append(u.lag, late.Seconds()) })
}

// attempted counts an attempt that came to an outcome.
func (q *queueMetrics) attempted(queue int32, took time.Duration) {
	if s := (*q.known.Load())[queue]; s != nil {
		s.took.Observe(took.Seconds())
		return
	}
	q.later(queue, func(s *queueSeries) { s.took.Observe(took.Seconds()) },
		func(u *unnamedQueue) { u.took = append(u.took, took.Seconds()) })
}

// entered counts runs that entered history.
func (q *queueMetrics) entered(queue int32, as endedAs, runs int64) {
	if s := (*q.known.Load())[queue]; s != nil {
		q.end(s, as, runs)
		return
	}
	q.later(queue, func(s *queueSeries) { q.end(s, as, runs) }, func(u *unnamedQueue) { u.ended[as] += runs })
}

func (q *queueMetrics) end(s *queueSeries, as endedAs, runs int64) {
	q.ended.WithLabelValues(s.namespace, s.queue, endNames[as.how], string(as.why)).Add(float64(runs))
}

// later keeps a value of a queue whose name is not known.
func (q *queueMetrics) later(queue int32, count func(*queueSeries), keep func(*unnamedQueue)) {
	q.mu.Lock()
	defer q.mu.Unlock()
	known := *q.known.Load()
	if s := known[queue]; s != nil { // learned meanwhile
		count(s)
		return
	}
	if queue == 0 || q.kept >= maxUnnamed || len(known) >= maxKnown {
		count(q.seriesOf(queueLabel{otherQueues, otherQueues}))
		return
	}
	u := q.unnamed[queue]
	if u == nil {
		u = &unnamedQueue{ended: map[endedAs]int64{}}
		q.unnamed[queue] = u
	}
	q.kept++
	u.kept++
	keep(u)
}

// unknown returns queues that have values and no name yet.
func (q *queueMetrics) unknown() (queues []int32) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for queue := range q.unnamed {
		queues = append(queues, queue)
	}
	return queues
}

// learn gives queues their labels, in the order of the list, and counts what was kept. A queue that is not in the
// database any more has no names. It is called once per sample.
func (q *queueMetrics) learn(names []postgres.QueueName) {
	q.mu.Lock()
	defer q.mu.Unlock()
	old := *q.known.Load()
	known := make(map[int32]*queueSeries, len(old)+len(names))
	for queue, s := range old {
		known[queue] = s
	}
	for _, n := range names {
		if known[n.ID] != nil || n.ID == 0 || len(known) >= maxKnown {
			continue
		}
		s := q.seriesOf(q.budget.label(n.Namespace, n.Queue))
		known[n.ID] = s
		if u := q.unnamed[n.ID]; u != nil {
			q.count(s, u)
			q.kept -= u.kept
			delete(q.unnamed, n.ID)
		}
	}
	if len(known) > len(old) {
		q.known.Store(&known)
	}
}

// count counts what was kept of a queue.
func (q *queueMetrics) count(s *queueSeries, u *unnamedQueue) {
	for _, late := range u.lag {
		s.lag.Observe(late)
	}
	for _, took := range u.took {
		s.took.Observe(took)
	}
	for as, runs := range u.ended {
		q.end(s, as, runs)
	}
}

// seriesOf returns the metrics of a pair of labels. The caller holds the lock.
func (q *queueMetrics) seriesOf(l queueLabel) *queueSeries {
	s := q.series[l]
	if s == nil {
		s = &queueSeries{
			l, q.lag.WithLabelValues(l.namespace, l.queue), q.took.WithLabelValues(l.namespace, l.queue),
		}
		q.end(s, endedAs{job.EndedSucceeded, job.ReasonNone}, 0)
		for _, why := range failedReasons {
			q.end(s, endedAs{job.EndedFailed, why}, 0)
		}
		for _, why := range missedReasons {
			q.end(s, endedAs{job.EndedSkipped, why}, 0)
		}
		q.series[l] = s
	}
	return s
}

// labelsOf returns the labels of a queue. Queues whose names are not known have those of the others.
func (q *queueMetrics) labelsOf(queue int32) queueLabel {
	if s := (*q.known.Load())[queue]; s != nil {
		return s.queueLabel
	}
	return queueLabel{otherQueues, otherQueues}
}
