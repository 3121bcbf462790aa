package sdk_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/belfry-dev/belfry/internal/job"
	ids "github.com/belfry-dev/belfry/internal/trace"
	"github.com/belfry-dev/belfry/sdk/go/worker"
)

// TestSpansOfAWorker: a handler works in a span below its attempt, and claims and reports link to the attempts.
func TestSpansOfAWorker(t *testing.T) {
	t.Parallel()
	n := setupNode(t, 10*time.Second)
	recorder := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder))
	n.job("good", "")
	n.job("bad", `,"retry":{"max_attempts":1}`)
	w := n.worker(n.url, worker.Tracing(provider))
	inside := make(chan trace.SpanContext, 10)
	w.Handle("good", func(ctx context.Context, _ *worker.Run) error {
		inside <- trace.SpanContextFromContext(ctx)
		return nil
	})
	w.Handle("bad", func(context.Context, *worker.Run) error { return errors.New("canary") })
	stop := n.start(w)
	good, bad := n.trigger("good", "{}"), n.trigger("bad", "{}")
	n.await(good, "succeeded")
	n.await(bad, "failed")
	stop()

	key, err := job.ParseRunID(good)
	require.NoError(t, err)
	wantTrace, wantParent := ids.Of(key, "").String(), ids.DeliverSpan(key, 1).String()
	byName := map[string][]sdktrace.ReadOnlySpan{}
	for _, s := range recorder.Ended() {
		byName[s.Name()] = append(byName[s.Name()], s)
	}
	require.Len(t, byName["process mail"], 2)
	handled := <-inside
	for _, s := range byName["process mail"] {
		require.Equal(t, trace.SpanKindConsumer, s.SpanKind())
		if s.SpanContext().SpanID() != handled.SpanID() {
			require.Equal(t, codes.Error, s.Status().Code)
			require.Empty(t, s.Status().Description, "errors may contain anything")
			continue
		}
		require.Equal(t, wantTrace, s.SpanContext().TraceID().String())
		require.Equal(t, wantParent, s.Parent().SpanID().String(), "the attempt is the parent")
		require.True(t, s.Parent().IsRemote())
	}
	for _, name := range []string{"receive mail", "settle mail"} {
		linked := 0
		for _, s := range byName[name] {
			require.Equal(t, trace.SpanKindClient, s.SpanKind())
			for _, l := range s.Links() {
				if l.SpanContext.TraceID().String() == wantTrace && l.SpanContext.SpanID().String() == wantParent {
					linked++
				}
			}
		}
		require.Equal(t, 1, linked, name)
	}
}
