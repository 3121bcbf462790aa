package app

import (
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/belfry-dev/belfry/internal/engine"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/pull"
)

// metrics of a node. It is the Observer of the engine and of the store. Every
// label has few values: outcomes, ends, reasons and loops are fixed lists, and
// of queues the fullest are told apart (see depth).
//
// docs/reference/metrics.md explains each; a test compares it with this.
type metrics struct {
	registry *prometheus.Registry
	lateness prometheus.Histogram
	outcomes map[job.OutcomeKind]prometheus.Counter
	ended    *prometheus.CounterVec
	skipped  *prometheus.CounterVec
	failed   *prometheus.CounterVec
	requests *prometheus.CounterVec
	answered *prometheus.HistogramVec
	depth    depth
	broken   atomic.Int64             // cursors, as of the last sample
	started  func(late time.Duration) // may be nil
}

var (
	outcomeNames = map[job.OutcomeKind]string{
		job.Succeeded: "succeeded", job.Failed: "failed", job.Accepted: "accepted", job.Cancelled: "cancelled", job.Deferred: "deferred", job.Snoozed: "snoozed",
	}
	endNames = map[job.Ended]string{
		job.EndedSucceeded: "succeeded", job.EndedFailed: "failed", job.EndedCancelled: "cancelled", job.EndedSkipped: "skipped",
	}
)

func newMetrics(c Config) *metrics {
	counters := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	m := &metrics{
		registry: prometheus.NewRegistry(), started: c.Started,
		lateness: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "belfry_schedule_lag_seconds", Help: "How late attempts start after run_at.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300},
		}),
		outcomes: map[job.OutcomeKind]prometheus.Counter{},
		ended:    counters("belfry_runs_ended_total", "Runs that this node wrote into history, by how they ended and why.", "ended", "reason"),
		skipped:  counters("belfry_due_times_skipped_total", "Due times of schedules that this node planned no run for, by reason.", "reason"),
		failed:   counters("belfry_loop_failures_total", "Rounds of a loop that failed and were tried again.", "loop"),
		requests: counters("belfry_api_requests_total", "Requests to the API that were answered, by operation and status.", "operation", "status"),
		answered: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "belfry_api_request_seconds", Help: "How long the API takes to answer.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
		}, []string{"operation"}),
	}
	outcomes := counters("belfry_attempts_total", "Attempts that this node delivered, by outcome.", "outcome")
	for kind, name := range outcomeNames {
		m.outcomes[kind] = outcomes.WithLabelValues(name)
	}
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "belfry_build_info", Help: "Always 1; the labels say what runs.", ConstLabels: prometheus.Labels{"version": c.Version},
	})
	info.Set(1)
	m.registry.MustRegister(m.lateness, outcomes, m.ended, m.skipped, m.failed, m.requests, m.answered, &m.depth, info,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Started is called by the engine for each attempt.
func (m *metrics) Started(late time.Duration) {
	m.lateness.Observe(late.Seconds())
	if m.started != nil {
		m.started(late)
	}
}

// Ended is called by the engine for each attempt.
func (m *metrics) Ended(o job.Outcome) { m.outcomes[o.Kind].Inc() }

// Failed is called by the engine for each round of a loop that failed.
func (m *metrics) Failed(loop string) { m.failed.WithLabelValues(loop).Inc() }

// Entered is called by the store when runs have entered history.
func (m *metrics) Entered(how job.Ended, why job.Reason, runs int64) {
	m.ended.WithLabelValues(endNames[how], string(why)).Add(float64(runs))
}

// Skipped is called by the store when due times were skipped for all jobs of a cursor.
func (m *metrics) Skipped(why job.Reason, dueTimes int64) {
	m.skipped.WithLabelValues(string(why)).Add(float64(dueTimes))
}

// Answered is called by the API for each request. The operation is one of a fixed
// list, and of the status only the class is told.
func (m *metrics) Answered(operation string, status int, took time.Duration) {
	if operation == "" {
		operation = "none"
	}
	m.requests.WithLabelValues(operation, strconv.Itoa(status/100)+"xx").Inc()
	m.answered.WithLabelValues(operation).Observe(took.Seconds())
}

func (m *metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 10, Timeout: 10 * time.Second})
}

// watch registers what is read from the machines when somebody asks. None of it
// asks the database.
func (m *metrics) watch(n *node) {
	counter := func(name, help string, value func() float64) {
		m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, value))
	}
	gauge := func(name, help string, value func() float64, labels ...string) {
		o := prometheus.GaugeOpts{Name: name, Help: help}
		if len(labels) == 2 {
			o.ConstLabels = prometheus.Labels{labels[0]: labels[1]}
		}
		m.registry.MustRegister(prometheus.NewGaugeFunc(o, value))
	}
	count := func(name, help string, value func(engine.Counts) int64) {
		counter(name, help, func() float64 { return float64(value(n.engine.Counts())) })
	}
	count("belfry_runs_planned_total", "Runs written by this node's planner.", func(c engine.Counts) int64 { return c.Planned })
	count("belfry_runs_claimed_total", "Attempts claimed by this node.", func(c engine.Counts) int64 { return c.Claimed })
	count("belfry_runs_completed_total", "Outcomes written by this node.", func(c engine.Counts) int64 { return c.Completed })
	count("belfry_runs_retried_total", "Outcomes that led to another attempt.", func(c engine.Counts) int64 { return c.Retried })
	count("belfry_runs_rescued_total", "Attempts of dead sessions that this node ended.", func(c engine.Counts) int64 { return c.Rescued })
	count("belfry_outcomes_fenced_total", "Outcomes that came too late to count.", func(c engine.Counts) int64 { return c.Fenced })

	pulled := func(name, help string, value func(pull.Counts) int64) {
		counter(name, help, func() float64 { return float64(value(n.pull.Counts())) })
	}
	pulled("belfry_worker_looks_total", "Scans for due runs that workers wait for.", func(c pull.Counts) int64 { return c.Scans })
	pulled("belfry_worker_claims_total", "Claims for workers, each for up to 200 polls of a queue.", func(c pull.Counts) int64 { return c.Claims })
	pulled("belfry_worker_runs_claimed_total", "Attempts that workers got from this node.", func(c pull.Counts) int64 { return c.Claimed })
	pulled("belfry_worker_reports_total", "Reports of workers that were accepted.", func(c pull.Counts) int64 { return c.Reported })
	pulled("belfry_worker_reports_stale_total", "Reports of workers that came too late to count.", func(c pull.Counts) int64 { return c.Stale })
	gauge("belfry_workers_waiting", "Long polls of workers that wait on this node.", func() float64 { return float64(n.pull.Counts().Waiting) })
	gauge("belfry_runs_planned", "Planned runs that this node holds in memory until they are due.", func() float64 { return float64(n.engine.Counts().Wheel) })
	gauge("belfry_cursors_broken", "Schedules that cannot be planned, in the whole cluster.", func() float64 { return float64(m.broken.Load()) })
	gauge("belfry_slots", "Attempts that this node may have under way at once.", func() float64 { return float64(n.engine.Slots) })
	gauge("belfry_slots_free", "Slots without an attempt.", func() float64 { return float64(n.engine.Counts().Free) })
	gauge("belfry_partitions_owned", "Partitions that this node owns.", func() float64 { return float64(len(n.member.Owned())) })
	gauge("belfry_session_left_seconds", "How long this node's session lives if it is not renewed; 0: it has none.", func() float64 { return n.member.Left().Seconds() })

	const connections, help = "belfry_database_connections", "Open connections to the database, by state."
	gauge(connections, help, func() float64 { return float64(n.db.PoolStats().Acquired) }, "state", "busy")
	gauge(connections, help, func() float64 { return float64(n.db.PoolStats().Idle) }, "state", "idle")
	gauge("belfry_database_connections_max", "Connections that this node may open.", func() float64 { return float64(n.db.PoolStats().Max) })
	counter("belfry_database_waits_total", "Times that somebody waited for a connection.", func() float64 { return float64(n.db.PoolStats().Waits) })
	counter("belfry_database_wait_seconds_total", "Time spent waiting for a connection.", func() float64 { return n.db.PoolStats().Waited.Seconds() })
}
