package app

import (
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/belfry-dev/belfry/internal/auditor"
	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/engine"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/postgres"
	"github.com/belfry-dev/belfry/internal/pull"
	"github.com/belfry-dev/belfry/internal/server"
	"github.com/belfry-dev/belfry/internal/tally"
)

// metrics of a node. It is the Observer of the engine, the store and the API. Every label has few values:
// outcomes, ends, reasons and loops are fixed lists, and only some queues have metrics of their own (see
// labelBudget).
//
// docs/reference/metrics.md explains each metric; a test compares the two.
type metrics struct {
	registry    *prometheus.Registry
	queues      *queueMetrics
	outcomes    map[job.OutcomeKind]prometheus.Counter
	skipped     *prometheus.CounterVec
	failed      *prometheus.CounterVec
	requests    *prometheus.CounterVec
	failover    *prometheus.CounterVec
	refusals    *prometheus.CounterVec
	refused     atomic.Pointer[refusedWrite] // the last one; nil: none
	findings    *prometheus.CounterVec
	answered    *prometheus.HistogramVec
	depth       depth
	certificate certificateLeft
	archive     archiveDays
	auditHeads  auditHeads
	tally       *tally.Tally             // for the statistics of minutes
	bound       *clock.Bound             // that the tally follows
	broken      atomic.Int64             // broken cursors, as of the last sample
	started     func(late time.Duration) // may be nil
}

var (
	outcomeNames = map[job.OutcomeKind]string{
		job.Succeeded: "succeeded", job.Failed: "failed", job.Accepted: "accepted",
		job.Cancelled: "cancelled", job.Deferred: "deferred", job.Snoozed: "snoozed",
	}
	endNames = map[job.Ended]string{
		job.EndedSucceeded: "succeeded", job.EndedFailed: "failed",
		job.EndedCancelled: "cancelled", job.EndedSkipped: "skipped",
	}
)

// skipReasons are why due times of a schedule are skipped.
var skipReasons = []job.Reason{
	job.ReasonMissed, job.ReasonMissedWindow, job.ReasonMissedMax, job.ReasonGap, job.ReasonCalendar,
	job.ReasonRestored,
}

func newMetrics(c Config) *metrics {
	counters := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	bound := &clock.Bound{}
	m := &metrics{
		registry: prometheus.NewRegistry(), started: c.Started, bound: bound, tally: tally.New(bound.Now),
		queues:   newQueueMetrics(),
		outcomes: map[job.OutcomeKind]prometheus.Counter{},
		skipped: counters("belfry_due_times_skipped_total",
			"Due times for which this node planned no run, by reason.", "reason"),
		failed: counters("belfry_loop_failures_total", "Failed rounds of a loop. Each is retried.", "loop"),
		requests: counters("belfry_api_requests_total",
			"API requests answered, by operation and status.", "operation", "status"),
		failover: counters("belfry_database_failovers_total",
			"Failovers of the database that this node noticed, by what happened to acknowledged writes.", "writes"),
		refusals: counters("belfry_database_refused_total",
			"Statements that failed because the database cannot write, by cause.", "cause"),
		findings: counters("belfry_audit_findings_total",
			"Occurrences that the audit of this node found not to be in the ledger as they must be, by kind.", "kind"),
		answered: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "belfry_api_request_seconds", Help: "Time to answer an API request.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
		}, []string{"operation"}),
	}
	outcomes := counters("belfry_attempts_total", "Attempts that this node delivered, by outcome.", "outcome")
	for kind, name := range outcomeNames {
		m.outcomes[kind] = outcomes.WithLabelValues(name)
	}
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "belfry_build_info", Help: "Always 1; the label is the version of the node.",
		ConstLabels: prometheus.Labels{"version": c.Version},
	})
	info.Set(1)
	// With all labels from the start, an increase is seen from the first one on.
	for _, writes := range []job.Writes{job.WritesKept, job.WritesUnknown, job.WritesLost} {
		m.failover.WithLabelValues(string(writes))
	}
	for _, cause := range postgres.Refusals {
		m.refusals.WithLabelValues(cause)
	}
	for _, kind := range []auditor.Kind{auditor.Missing, auditor.Phantom, auditor.Early, auditor.Duplicate} {
		m.findings.WithLabelValues(string(kind))
	}
	for _, why := range skipReasons {
		m.skipped.WithLabelValues(string(why))
	}
	m.registry.MustRegister(m.queues.collectors()...)
	m.registry.MustRegister(outcomes, m.skipped, m.failed, m.requests, m.failover, m.refusals, m.findings,
		m.answered, &m.depth, &m.certificate, &m.archive, &m.auditHeads, info,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Started is called by the engine for each attempt.
func (m *metrics) Started(queue int32, late time.Duration) {
	m.tally.Started(queue, late)
	m.queues.started(queue, late)
	if m.started != nil {
		m.started(late)
	}
}

// Ended is called by the engine for each attempt.
func (m *metrics) Ended(queue int32, o job.Outcome, took time.Duration) {
	m.outcomes[o.Kind].Inc()
	if o.Kind != job.Deferred { // its target was busy: it did not start
		m.tally.Attempted(queue, took)
		m.queues.attempted(queue, took)
	}
}

// Failed is called by the engine for each round of a loop that failed.
func (m *metrics) Failed(loop string) { m.failed.WithLabelValues(loop).Inc() }

// Found is called by the engine for each new finding of the audit.
func (m *metrics) Found(kind auditor.Kind) { m.findings.WithLabelValues(string(kind)).Inc() }

// Entered is called by the store when runs have entered history.
func (m *metrics) Entered(queue int32, how job.Ended, why job.Reason, runs int64) {
	m.tally.Entered(queue, how, why, runs)
	m.queues.entered(queue, endedAs{how, why}, runs)
}

// Skipped is called by the store when due times were skipped for all jobs of a cursor.
func (m *metrics) Skipped(namespace uuid.UUID, why job.Reason, dueTimes int64) {
	m.tally.Skipped(namespace, why, dueTimes)
	m.skipped.WithLabelValues(string(why)).Add(float64(dueTimes))
}

// refusedWrite is a statement that failed because the database cannot write.
type refusedWrite struct {
	cause string
	at    time.Duration // clock.Elapsed
}

// Refused is called by the store when the database cannot write.
func (m *metrics) Refused(cause string) {
	m.refusals.WithLabelValues(cause).Inc()
	m.refused.Store(&refusedWrite{cause, clock.Elapsed()})
}

// noOperation is the label of requests that reached no operation.
const noOperation = "none"

// Answered is called by the API for each request. The operation is one of a fixed list, and the status is
// reduced to its class, so that the labels have few values.
func (m *metrics) Answered(operation string, status int, took time.Duration) {
	if operation == "" {
		operation = noOperation
	}
	m.requests.WithLabelValues(operation, strconv.Itoa(status/100)+"xx").Inc()
	m.answered.WithLabelValues(operation).Observe(took.Seconds())
}

func (m *metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 10, Timeout: 10 * time.Second})
}

// watch registers the metrics that are read from the parts of the node on each scrape. None of them queries
// the database.
func (m *metrics) watch(n *node) {
	m.watchEngine(n.engine)
	m.watchWorkers(n.pull)
	m.gauge("belfry_cursors_broken", "Schedules that cannot be planned, in the whole cluster.",
		func() float64 { return float64(m.broken.Load()) })
	m.gauge("belfry_partitions_owned", "Partitions that this node owns.",
		func() float64 { return float64(len(n.member.Owned())) })
	m.gauge("belfry_clock_in_doubt", "1 while this node does not trust the clock of the database and does no work.",
		func() float64 {
			if n.bound.Doubt() != "" {
				return 1
			}
			return 0
		})
	m.gauge("belfry_session_left_seconds", "Time until the session of this node expires unless renewed; 0: no session.",
		func() float64 { return n.member.Left().Seconds() })
	m.watchTracing(n.config.tracer)
	m.watchDatabase(n.db)
}

func (m *metrics) watchEngine(e *engine.Engine) {
	for _, name := range e.LoopNames() {
		m.failed.WithLabelValues(name)
	}
	count := func(name, help string, value func(engine.Counts) int64) {
		m.counter(name, help, func() float64 { return float64(value(e.Counts())) })
	}
	count("belfry_runs_planned_total", "Runs that this node planned.",
		func(c engine.Counts) int64 { return c.Planned })
	count("belfry_runs_claimed_total", "Attempts that this node claimed.",
		func(c engine.Counts) int64 { return c.Claimed })
	count("belfry_runs_completed_total", "Outcomes that this node wrote.",
		func(c engine.Counts) int64 { return c.Completed })
	count("belfry_runs_retried_total", "Outcomes that led to another attempt.",
		func(c engine.Counts) int64 { return c.Retried })
	count("belfry_runs_rescued_total", "Attempts of dead sessions that this node ended.",
		func(c engine.Counts) int64 { return c.Rescued })
	count("belfry_outcomes_fenced_total", "Outcomes rejected because they came too late.",
		func(c engine.Counts) int64 { return c.Fenced })
	count("belfry_runs_reconciled_total", "Runs that this node moved to the queue and handler of their job.",
		func(c engine.Counts) int64 { return c.Misplaced })
	count("belfry_audit_checked_total", "Occurrences of the last hour that the audit of this node judged.",
		func(c engine.Counts) int64 { return c.Audited })
	m.gauge("belfry_audit_last_sample_timestamp_seconds", "When the audit of this node last judged a sample; 0: never.",
		func() float64 { return e.Counts().AuditedAt })
	count("belfry_runs_caught_up_total", "Missed runs that start late, because no node served their partition.",
		func(c engine.Counts) int64 { return c.CaughtUp })
	m.gauge("belfry_runs_planned", "Planned runs that this node keeps in memory until they are due.",
		func() float64 { return float64(e.Counts().Wheel) })
	m.gauge("belfry_slots", "Maximum number of attempts that this node runs at the same time.",
		func() float64 { return float64(e.Slots) })
	m.gauge("belfry_slots_free", "Slots without an attempt.", func() float64 { return float64(e.Counts().Free) })
}

func (m *metrics) watchWorkers(p *pull.Puller) {
	for _, name := range pull.LoopNames() {
		m.failed.WithLabelValues(name)
	}
	count := func(name, help string, value func(pull.Counts) int64) {
		m.counter(name, help, func() float64 { return float64(value(p.Counts())) })
	}
	count("belfry_worker_looks_total", "Scans for due runs on behalf of waiting workers.",
		func(c pull.Counts) int64 { return c.Scans })
	count("belfry_worker_claims_total", "Claims on behalf of workers, each for up to 200 polls of a queue.",
		func(c pull.Counts) int64 { return c.Claims })
	count("belfry_worker_runs_claimed_total", "Attempts that this node gave to workers.",
		func(c pull.Counts) int64 { return c.Claimed })
	count("belfry_worker_reports_total", "Reports of workers that were accepted.",
		func(c pull.Counts) int64 { return c.Reported })
	count("belfry_worker_reports_stale_total", "Reports of workers rejected because they came too late.",
		func(c pull.Counts) int64 { return c.Stale })
	m.gauge("belfry_workers_waiting", "Long polls of workers that wait on this node.",
		func() float64 { return float64(p.Counts().Waiting) })
}

// watchAPI registers the errors of all operations: an increase is seen from the first one on.
func (m *metrics) watchAPI(api *server.Server) *server.Server {
	m.requests.WithLabelValues(noOperation, "5xx")
	for _, operation := range api.Operations() {
		m.requests.WithLabelValues(operation, "5xx")
	}
	return api
}

func (m *metrics) watchDatabase(db *postgres.DB) {
	const connections, help = "belfry_database_connections", "Open connections to the database, by state."
	m.gauge(connections, help, func() float64 { return float64(db.PoolStats().Acquired) }, "state", "busy")
	m.gauge(connections, help, func() float64 { return float64(db.PoolStats().Idle) }, "state", "idle")
	m.gauge("belfry_database_connections_max", "Maximum number of connections that this node opens.",
		func() float64 { return float64(db.PoolStats().Max) })
	m.counter("belfry_database_waits_total", "Queries that had to wait for a connection.",
		func() float64 { return float64(db.PoolStats().Waits) })
	m.counter("belfry_database_wait_seconds_total", "Time spent waiting for a connection.",
		func() float64 { return db.PoolStats().Waited.Seconds() })
}

func (m *metrics) counter(name, help string, value func() float64) {
	m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, value))
}

// gauge registers a gauge. A label is a name and a value.
func (m *metrics) gauge(name, help string, value func() float64, label ...string) {
	o := prometheus.GaugeOpts{Name: name, Help: help}
	if len(label) == 2 {
		o.ConstLabels = prometheus.Labels{label[0]: label[1]}
	}
	m.registry.MustRegister(prometheus.NewGaugeFunc(o, value))
}
