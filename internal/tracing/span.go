package tracing

import (
	"strconv"
	"time"

	commonpb "go.opentelemetry.io/proto/slim/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/slim/otlp/trace/v1"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/trace"
)

// schema is the version of the semantic conventions that the attributes follow.
const schema = "https://opentelemetry.io/schemas/1.44.0"

// sampledFlag is that of W3C trace context.
const sampledFlag = 1

var outcomes = map[job.OutcomeKind]string{
	job.Succeeded: "succeeded", job.Failed: "failed", job.Accepted: "accepted", job.Lost: "lost",
	job.Cancelled: "cancelled", job.Deferred: "deferred", job.Snoozed: "snoozed",
}

// attribute is nil for a value that is not set.
func attribute[T string | int | bool](key string, value T) *commonpb.KeyValue {
	var v commonpb.AnyValue
	switch value := any(value).(type) {
	case string:
		if value == "" {
			return nil
		}
		v.Value = &commonpb.AnyValue_StringValue{StringValue: value}
	case int:
		v.Value = &commonpb.AnyValue_IntValue{IntValue: int64(value)}
	case bool:
		v.Value = &commonpb.AnyValue_BoolValue{BoolValue: value}
	}
	return &commonpb.KeyValue{Key: key, Value: &v}
}

// attributes leaves out those that are not set.
func attributes(all ...*commonpb.KeyValue) (set []*commonpb.KeyValue) {
	for _, kv := range all {
		if kv != nil {
			set = append(set, kv)
		}
	}
	return set
}

// spanTimes sets start and end. A span never ends before it starts: times of different attempts are written by
// different transactions.
func spanTimes(s *tracepb.Span, start, end time.Time) {
	if end.Before(start) {
		end = start
	}
	s.StartTimeUnixNano, s.EndTimeUnixNano = uint64(start.UnixNano()), uint64(end.UnixNano())
}

// fail sets the status of a span. It has no description: what targets say may contain anything.
func fail(s *tracepb.Span, reason string) {
	s.Status = &tracepb.Status{Code: tracepb.Status_STATUS_CODE_ERROR}
	s.Attributes = append(s.Attributes, attribute("error.type", reason))
}

// spansOf returns the spans of an ended run: the run, its attempts, and the calls to its target.
func spansOf(r *job.Traced) []*tracepb.Span {
	b := builder{r: r, id: trace.Of(r.Key, r.Trace), run: trace.RunSpan(r.Key, r.Attempt)}
	attempts := r.Attempts
	if began := r.BeganAt(); !began.IsZero() && r.Status != job.EndedStatus(job.EndedSkipped) {
		attempts = append(attempts[:len(attempts):len(attempts)], job.AttemptEnd{
			Number: r.Attempt, StartedAt: began, EndedAt: r.EndedAt, Outcome: b.lastOutcome(), Code: r.Code,
		})
	}
	spans := []*tracepb.Span{b.runSpan(attempts)}
	for i := range attempts {
		a := &attempts[i]
		deliver := b.deliverSpan(a)
		if i > 0 {
			link := trace.DeliverSpan(r.Key, attempts[i-1].Number)
			deliver.Links = []*tracepb.Span_Link{{TraceId: b.id[:], SpanId: link[:], Flags: sampledFlag}}
		}
		spans = append(spans, deliver)
		if trace.Calls(r.Kind) {
			spans = append(spans, b.callSpan(a))
		}
	}
	return spans
}

// builder creates the spans of one run.
type builder struct {
	r   *job.Traced
	id  trace.ID
	run trace.SpanID
}

func (b *builder) span(id, parent trace.SpanID, name string, kind tracepb.Span_SpanKind) *tracepb.Span {
	s := &tracepb.Span{TraceId: b.id[:], SpanId: id[:], Name: name, Kind: kind, Flags: sampledFlag}
	if parent != (trace.SpanID{}) {
		s.ParentSpanId = parent[:]
	}
	return s
}

// lastOutcome is the outcome of the last attempt, as far as the end of the run says.
func (b *builder) lastOutcome() job.OutcomeKind {
	switch {
	case b.r.Status == job.EndedStatus(job.EndedSucceeded):
		return job.Succeeded
	case b.r.Status == job.EndedStatus(job.EndedCancelled):
		return job.Cancelled
	case b.r.Reason == job.ReasonLost:
		return job.Lost
	}
	return job.Failed
}

// runSpan is the span of the run. That of a redrive begins with its first attempt: its due time may be days ago.
func (b *builder) runSpan(attempts []job.AttemptEnd) *tracepb.Span {
	r := b.r
	parent, _, _ := trace.Trigger(r.Trace)
	s := b.span(b.run, parent, "run "+r.Queue, tracepb.Span_SPAN_KIND_INTERNAL)
	start := r.DueAt
	if len(attempts) > 0 && (r.Origin == job.FromRedrive || attempts[0].StartedAt.Before(start)) {
		start = attempts[0].StartedAt
	}
	spanTimes(s, start, r.EndedAt)
	s.Attributes = attributes(
		attribute("belfry.run.id", job.FormatRunID(r.Key)), attribute("belfry.job.id", job.FormatJobID(r.Job)),
		attribute("belfry.job.name", r.JobName), attribute("belfry.namespace", r.Namespace),
		attribute("belfry.queue", r.Queue), attribute("belfry.run.due_at", r.DueAt.UTC().Format(time.RFC3339Nano)),
		attribute("belfry.run.origin", job.OriginNames[r.Origin]), attribute("belfry.run.attempts", int(r.Attempt)),
		attribute("belfry.run.ended", string(r.Status)), attribute("belfry.run.reason", string(r.Reason)),
	)
	if began := r.BeganAt(); !began.IsZero() {
		s.Attributes = append(s.Attributes,
			attribute("belfry.run.lag_ms", int(max(began.Sub(r.RunAt), 0).Milliseconds())))
	}
	if r.Status == job.EndedStatus(job.EndedFailed) {
		fail(s, string(r.Reason))
	}
	return s
}

// deliverSpan is the span of an attempt.
func (b *builder) deliverSpan(a *job.AttemptEnd) *tracepb.Span {
	s := b.span(trace.DeliverSpan(b.r.Key, a.Number), b.run, "deliver "+b.r.Queue, tracepb.Span_SPAN_KIND_CONSUMER)
	spanTimes(s, a.StartedAt, a.EndedAt)
	s.Attributes = attributes(
		attribute("messaging.system", "belfry"), attribute("messaging.operation.name", "deliver"),
		attribute("messaging.operation.type", "process"), attribute("messaging.destination.name", b.r.Queue),
		attribute("messaging.message.id", job.FormatRunID(b.r.Key)), attribute("belfry.attempt", int(a.Number)),
		attribute("belfry.outcome", outcomes[a.Outcome]),
	)
	if why := b.errorType(a); why != "" {
		fail(s, why)
	}
	return s
}

// errorType says why an attempt failed: the reason of the run for its last attempt, otherwise the status of the target
// or the outcome. It is empty if the attempt did not fail.
func (b *builder) errorType(a *job.AttemptEnd) string {
	switch {
	case a.Outcome != job.Failed && a.Outcome != job.Lost:
		return ""
	case a.Number == b.r.Attempt && b.r.Reason != "":
		return string(b.r.Reason)
	case a.Outcome == job.Failed && a.Code != 0:
		return strconv.Itoa(a.Code)
	}
	return outcomes[a.Outcome]
}
