package app

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/belfry-dev/belfry/internal/engine"
	"github.com/belfry-dev/belfry/internal/job"
)

// metrics of a node. It is the engine's Observer.
type metrics struct {
	registry *prometheus.Registry
	lateness prometheus.Histogram
	outcomes *prometheus.CounterVec
	started  func(late time.Duration) // may be nil
}

func newMetrics(r *prometheus.Registry, started func(late time.Duration)) *metrics {
	m := &metrics{
		registry: r, started: started,
		lateness: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "belfry_schedule_lag_seconds", Help: "How late attempts start after run_at.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300},
		}),
		outcomes: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "belfry_attempts_total", Help: "Attempts by outcome."}, []string{"outcome"}),
	}
	r.MustRegister(m.lateness, m.outcomes)
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
func (m *metrics) Ended(o job.Outcome) {
	m.outcomes.WithLabelValues(map[job.OutcomeKind]string{
		job.Succeeded: "succeeded", job.Failed: "failed", job.Accepted: "accepted", job.Cancelled: "cancelled",
	}[o.Kind]).Inc()
}

// watch registers what is read from the machines when somebody asks.
func (m *metrics) watch(n *node) {
	counter := func(name, help string, value func(engine.Counts) int64) {
		m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help},
			func() float64 { return float64(value(n.engine.Counts())) }))
	}
	counter("belfry_runs_planned_total", "Runs written by this node's planner.", func(c engine.Counts) int64 { return c.Planned })
	counter("belfry_runs_claimed_total", "Attempts claimed by this node.", func(c engine.Counts) int64 { return c.Claimed })
	counter("belfry_runs_completed_total", "Outcomes written by this node.", func(c engine.Counts) int64 { return c.Completed })
	counter("belfry_runs_retried_total", "Outcomes that led to another attempt.", func(c engine.Counts) int64 { return c.Retried })
	counter("belfry_runs_rescued_total", "Attempts of dead sessions that this node ended.", func(c engine.Counts) int64 { return c.Rescued })
	counter("belfry_outcomes_fenced_total", "Outcomes that came too late to count.", func(c engine.Counts) int64 { return c.Fenced })
	gauge := func(name, help string, value func() float64) {
		m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value))
	}
	gauge("belfry_runs_waiting", "Planned runs in this node's wheel.", func() float64 { return float64(n.engine.Counts().Wheel) })
	gauge("belfry_partitions_owned", "Partitions that this node owns.", func() float64 { return float64(len(n.member.Owned())) })
}

// handler answers health and metrics.
func (n *node) handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(n.metrics.registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), 2*time.Second)
		defer cancel()
		if err := n.store.Ping(ctx); err != nil || !n.member.Valid() {
			http.Error(w, "not ready: the database does not answer, or this node has no valid session", http.StatusServiceUnavailable)
			return
		}
		_, _ = fmt.Fprintln(w, "ready")
	})
	return mux
}
