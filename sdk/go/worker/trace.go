package worker

import (
	"context"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// scope is the name of the tracer, and schema the version of the semantic conventions that its attributes follow.
const (
	scope  = "github.com/belfry-dev/belfry/sdk/go/worker"
	schema = "https://opentelemetry.io/schemas/1.44.0"
)

// maxLinks is the default limit of OpenTelemetry for links of one span.
const maxLinks = 128

// Tracing sets where spans go; the default is the global provider of OpenTelemetry, which does nothing until the program
// sets one.
func Tracing(p trace.TracerProvider) Option {
	return func(w *Worker) { w.tracer = newTracer(p) }
}

func newTracer(p trace.TracerProvider) trace.Tracer {
	return p.Tracer(scope, trace.WithSchemaURL(schema))
}

// globalTracer returns the tracer of the global provider, which may be set at any time before it is used.
func globalTracer() trace.Tracer { return newTracer(otel.GetTracerProvider()) }

// remote returns a context in which the attempt is the parent.
func remote(ctx context.Context, traceparent string) context.Context {
	return propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{"traceparent": traceparent})
}

// attributes of each span.
func (w *Worker) attributes(operation string, more ...attribute.KeyValue) trace.SpanStartOption {
	return trace.WithAttributes(append(more,
		attribute.String("messaging.system", "belfry"), attribute.String("messaging.destination.name", w.queue),
		attribute.String("messaging.operation.name", operation), attribute.String("messaging.operation.type", operation),
	)...)
}

// tracesOf returns the traceparent of each element.
func tracesOf[T any](all []T, trace func(*T) string) []string {
	out := make([]string, len(all))
	for i := range all {
		out[i] = trace(&all[i])
	}
	return out
}

// batchSpan is a span about several runs, which it links to. It is recorded once the request has succeeded, because
// a claim may wait for long and return nothing.
func (w *Worker) batchSpan(ctx context.Context, operation string, began time.Time, traceparents []string) {
	if len(traceparents) == 0 {
		return
	}
	var links []trace.Link
	none := trace.ContextWithSpanContext(ctx, trace.SpanContext{})
	for _, p := range traceparents[:min(len(traceparents), maxLinks)] {
		if of := trace.SpanContextFromContext(remote(none, p)); of.IsValid() {
			links = append(links, trace.Link{SpanContext: of})
		}
	}
	_, span := w.tracer.Start(ctx, operation+" "+w.queue, trace.WithSpanKind(trace.SpanKindClient),
		trace.WithTimestamp(began), trace.WithLinks(links...),
		w.attributes(operation, attribute.Int("messaging.batch.message_count", len(traceparents))))
	span.End()
}

// process calls the handler in a span that is a child of the attempt. Its status has no description, because errors may
// contain anything.
func (w *Worker) process(ctx context.Context, r *Run) error {
	ctx, span := w.tracer.Start(remote(ctx, r.Traceparent), "process "+w.queue,
		trace.WithSpanKind(trace.SpanKindConsumer), w.attributes("process",
			attribute.String("messaging.message.id", r.ID), attribute.Int("belfry.attempt", r.Attempt),
			attribute.String("belfry.job.name", r.JobName), attribute.String("belfry.handler", r.Handler)))
	defer span.End()
	err := w.call(ctx, r)
	outcome := outcomeOf(err, context.Cause(ctx)).Kind
	span.SetAttributes(attribute.String("belfry.outcome", outcome))
	if outcome == "failed" {
		span.SetStatus(codes.Error, "")
		span.SetAttributes(attribute.String("error.type", outcome))
	}
	return err
}
