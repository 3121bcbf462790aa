package app

import (
	"context"
	"log/slog"

	"github.com/belfry-dev/belfry/internal/config"
	"github.com/belfry-dev/belfry/internal/trace"
	"github.com/belfry-dev/belfry/internal/tracing"
)

// newTracer returns the tracer of a node; nil: tracing is off.
func newTracer(c Config, log *slog.Logger) (*tracing.Tracer, error) {
	t := &c.Tracing
	if t.Endpoint == "" {
		return nil, nil
	}
	roots, err := tracing.ReadRoots(t.CAFile)
	if err != nil {
		return nil, err
	}
	resource := t.ResourceAttributes()
	resource["service.name"], resource["service.version"], resource["service.instance.id"] = t.Service, c.Version, c.Name
	return tracing.New(tracing.Options{
		Export: tracing.Export{
			Endpoint: t.Endpoint, Headers: t.HeaderValues(), Timeout: t.Timeout, Gzip: t.Compression == "gzip",
			RootCAs: roots, Resource: resource, Version: c.Version,
		},
		Sampler: samplerOf(t), Late: t.Late, Queue: t.Queue, Log: log,
	}), nil
}

func samplerOf(t *config.Tracing) trace.Sampler { return trace.NewSampler(t.ShareOf()) }

// startTracer starts a tracer, if there is one. The returned function ends it, once it has exported what is left.
func startTracer(ctx context.Context, t *tracing.Tracer, store tracing.Store) (stop func()) {
	if t == nil {
		return func() {}
	}
	t.Store = store
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		t.Run(ctx)
	}()
	return func() {
		cancel()
		<-done
	}
}

// watchTracing registers the metrics of the tracer. They are 0 if tracing is off.
func (m *metrics) watchTracing(t *tracing.Tracer) {
	count := func(name, help string, value func(*tracing.Tracer) int64) {
		m.counter(name, help, func() float64 {
			if t == nil {
				return 0
			}
			return float64(value(t))
		})
	}
	count("belfry_spans_exported_total", "Spans that the collector has accepted.", (*tracing.Tracer).Exported)
	count("belfry_spans_dropped_total", "Spans of traced runs that were not exported.", (*tracing.Tracer).Dropped)
}
