package tracing_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	collectorpb "go.opentelemetry.io/proto/slim/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/slim/otlp/trace/v1"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/trace"
	"github.com/belfry-dev/belfry/internal/tracing"
	"github.com/belfry-dev/belfry/internal/tracing/tracingtest"
)

var due = time.Date(2026, 3, 29, 1, 30, 0, 0, time.UTC)

// ledger has runs as history has them.
type ledger struct {
	mu    sync.Mutex
	runs  map[job.RunKey]job.Traced
	fails int           // how many of the next reads fail
	bad   job.RunKey    // reads of this run fail
	hold  chan struct{} // reads wait until it is closed; nil: they do not
}

func (l *ledger) TraceRuns(ctx context.Context, ends []job.End) (out []job.Traced, err error) {
	if l.hold != nil {
		select {
		case <-l.hold:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fails > 0 {
		l.fails--
		return nil, context.DeadlineExceeded
	}
	for _, e := range ends {
		if e.Key.RunKey() == l.bad {
			return nil, errors.New("cannot be read")
		}
		if r, ok := l.runs[e.Key.RunKey()]; ok {
			out = append(out, r)
		}
	}
	return out, nil
}

// add puts a run into the ledger and returns its end.
func (l *ledger) add(change func(*job.Traced)) job.End {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := job.Traced{Namespace: "default", Kind: "http", Config: `{"url":"https://example.com:8443/hook?token=canary"}`}
	r.Key = job.Key{Job: uuid.New(), DueAt: due}
	r.Attempt, r.Status, r.Queue, r.JobName = 1, job.EndedStatus(job.EndedSucceeded), "mail", "report"
	r.RunAt, r.StartedAt, r.EndedAt = due, due.Add(time.Millisecond), due.Add(time.Second)
	if change != nil {
		change(&r)
	}
	l.runs[r.RunKey()] = r
	e := job.End{Key: r.Key, Attempt: r.Attempt, Ended: job.EndedSucceeded, Trace: r.Trace}
	if r.Status == job.EndedStatus(job.EndedFailed) {
		e.Ended = job.EndedFailed
	}
	return e
}

func (l *ledger) remove(e job.End) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.runs, e.Key.RunKey())
}

func failed(r *job.Traced) {
	r.Status, r.Reason, r.Code = job.EndedStatus(job.EndedFailed), "attempts", 500
}

type bundle struct {
	*tracing.Tracer
	ledger    *ledger
	collector *tracingtest.Collector
	stop      func() // and wait
}

func setup(t *testing.T, ratio float64, change func(*tracing.Options)) *bundle {
	t.Helper()
	b := &bundle{ledger: &ledger{runs: map[job.RunKey]job.Traced{}}, collector: tracingtest.New(t)}
	o := tracing.Options{
		Store: b.ledger, Sampler: trace.NewSampler(ratio, true), Late: time.Second, Queue: 1000, Flush: time.Minute,
		Export: tracing.Export{Endpoint: b.collector.URL, Timeout: time.Minute, Gzip: true},
		Log:    slog.New(slog.DiscardHandler),
	}
	if change != nil {
		change(&o)
	}
	b.Tracer = tracing.New(o)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); b.Run(ctx) }()
	b.stop = sync.OnceFunc(func() { cancel(); <-done })
	t.Cleanup(b.stop)
	return b
}

// runs returns the ids of the runs that the collector has.
func (b *bundle) runs() map[string]bool {
	out := map[string]bool{}
	for _, s := range b.collector.Spans() {
		if id := tracingtest.Attributes(s)["belfry.run.id"]; id != "" {
			out[id] = true
		}
	}
	return out
}

// TestWhichRunsAreTraced: with a ratio of 0 these are failed, rescued and late runs, and those of callers that sample.
func TestWhichRunsAreTraced(t *testing.T) {
	t.Parallel()
	b := setup(t, 0, nil)
	want := map[string]bool{}
	end := func(traced bool, e job.End) {
		if traced {
			want[job.FormatRunID(e.Key)] = true
		}
		b.Ended([]job.End{e})
	}
	attempts := func(outcome job.OutcomeKind) func(*job.Traced) {
		return func(r *job.Traced) {
			r.Attempt = 2
			r.Attempts = []job.AttemptEnd{{Number: 1, StartedAt: due, EndedAt: due, Outcome: outcome}}
		}
	}
	end(false, b.ledger.add(nil))
	end(true, b.ledger.add(failed))
	end(true, b.ledger.add(attempts(job.Lost)))
	end(false, b.ledger.add(attempts(job.Failed)))
	late := b.ledger.add(nil)
	late.Late = time.Second + 1
	end(true, late)
	punctual := b.ledger.add(nil)
	punctual.Late = time.Second
	end(false, punctual)
	for flags, traced := range map[string]bool{"00": false, "01": true, "02": false, "03": true} {
		end(traced, b.ledger.add(func(r *job.Traced) {
			r.Trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-" + flags
		}))
	}
	gone := b.ledger.add(failed)
	b.ledger.remove(gone) // another attempt took over
	b.Ended([]job.End{gone})
	b.stop()
	require.Equal(t, want, b.runs())
	require.Zero(t, b.Dropped())
	require.EqualValues(t, len(b.collector.Spans()), b.Exported())
}

// TestRunsThatCannotBeReadAreDropped: they do not hold up those that come after them.
func TestRunsThatCannotBeReadAreDropped(t *testing.T) {
	t.Parallel()
	b := setup(t, 1, nil)
	bad := b.ledger.add(nil)
	b.ledger.mu.Lock()
	b.ledger.bad = bad.Key.RunKey()
	b.ledger.mu.Unlock()
	b.Ended([]job.End{bad})
	require.Eventually(t, func() bool { return b.Dropped() == 3 }, time.Minute, 10*time.Millisecond)
	good := b.ledger.add(nil)
	b.Ended([]job.End{good})
	require.Eventually(t, func() bool { return b.runs()[job.FormatRunID(good.Key)] }, time.Minute, 10*time.Millisecond)
	require.EqualValues(t, 3, b.Dropped())
}

// TestTheRatioHolds: all nodes with the same ratio trace the same runs.
func TestTheRatioHolds(t *testing.T) {
	t.Parallel()
	one, other, all := trace.NewSampler(.1, true), trace.NewSampler(.1, false), trace.NewSampler(1, true)
	sampled := 0
	for range 10_000 {
		key := job.Key{Job: uuid.New(), DueAt: due}
		require.Equal(t, one.Sampled(key, ""), other.Sampled(key, ""))
		require.True(t, all.Sampled(key, ""))
		if one.Sampled(key, "") {
			sampled++
		}
	}
	require.InDelta(t, 1000, sampled, 200) // six standard deviations
}

// TestSpansOfTargets: each kind of target has its own span, and none has more of the config than it may.
func TestSpansOfTargets(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kind, config, name string
		span               tracepb.Span_SpanKind
		attributes         map[string]string
	}{
		{
			"http", `{"url":"https://u:canary@example.com:8443/canary?q=canary","method":"PUT","headers":{"a":"canary"}}`,
			"PUT", tracepb.Span_SPAN_KIND_CLIENT,
			map[string]string{
				"http.request.method": "PUT", "server.address": "example.com", "server.port": "8443",
				"http.response.status_code": "500", "error.type": "500",
			},
		},
		{
			"kafka", `{"broker":"canary","topic":"orders","key":"canary"}`, "send orders",
			tracepb.Span_SPAN_KIND_PRODUCER,
			map[string]string{
				"messaging.system": "kafka", "messaging.operation.name": "send", "messaging.operation.type": "send",
				"messaging.destination.name": "orders", "error.type": "failed",
			},
		},
		{
			"nats", `{"subject":"${payload.canary}"}`, "send", tracepb.Span_SPAN_KIND_PRODUCER, map[string]string{
				"messaging.system": "nats", "messaging.operation.name": "send", "messaging.operation.type": "send",
				"error.type": "failed",
			},
		},
		{
			"amqp", `{"exchange":"","routing_key":"due"}`, "send due", tracepb.Span_SPAN_KIND_PRODUCER,
			map[string]string{
				"messaging.system": "rabbitmq", "messaging.operation.name": "send", "messaging.operation.type": "send",
				"messaging.destination.name": "due", "error.type": "failed",
			},
		},
		{
			"command", `{"command":["canary"],"env":{"A":"canary"}}`, "exec", tracepb.Span_SPAN_KIND_INTERNAL,
			map[string]string{"process.exit.code": "500", "error.type": "failed"},
		},
		{kind: "worker", config: `{"handler":"canary"}`},
	} {
		t.Run(c.kind, func(t *testing.T) {
			t.Parallel()
			b := setup(t, 1, nil)
			e := b.ledger.add(func(r *job.Traced) { failed(r); r.Kind, r.Config = c.kind, c.config })
			b.Ended([]job.End{e})
			b.stop()
			spans := b.collector.Spans()
			raw, _, _, schemas := b.collector.Raw()
			require.NotContains(t, raw, "canary")
			require.Equal(t, map[string]bool{"https://opentelemetry.io/schemas/1.44.0": true}, schemas)
			require.Equal(t, map[string]string{
				"messaging.system": "belfry", "messaging.operation.name": "deliver", "messaging.operation.type": "process",
				"messaging.destination.name": "mail", "messaging.message.id": job.FormatRunID(e.Key),
				"belfry.attempt": "1", "belfry.outcome": "failed", "error.type": "attempts",
			}, tracingtest.Attributes(spans[1]))
			a := job.Attempt{Key: e.Key, Number: 1, Kind: c.kind}
			called := spans[len(spans)-1]
			require.Equal(t, trace.Parent(&a)[3:52],
				tracingtest.Hex(called.TraceId)+"-"+tracingtest.Hex(called.SpanId), "what the target receives")
			if c.name == "" {
				require.Len(t, spans, 2)
				return
			}
			require.Len(t, spans, 3)
			require.Equal(t, c.name, called.Name)
			require.Equal(t, c.span, called.Kind)
			require.Equal(t, c.attributes, tracingtest.Attributes(called))
		})
	}
}

// TestSpansOfARun: the attributes and times of the run itself, also after a redrive.
func TestSpansOfARun(t *testing.T) {
	t.Parallel()
	b := setup(t, 1, nil)
	e := b.ledger.add(func(r *job.Traced) { failed(r); r.RunAt, r.Origin = due.Add(-time.Hour), job.FromMissed })
	redriven := b.ledger.add(func(r *job.Traced) {
		r.Origin, r.Attempt = job.FromRedrive, 3
		r.RunAt, r.StartedAt, r.EndedAt = due.Add(48*time.Hour), due.Add(48*time.Hour), due.Add(49*time.Hour)
	})
	b.Ended([]job.End{e, redriven})
	b.stop()
	var runs []*tracepb.Span
	for _, s := range b.collector.Spans() {
		if s.Name == "run mail" {
			runs = append(runs, s)
		}
	}
	require.Len(t, runs, 2)
	require.Equal(t, map[string]string{
		"belfry.run.id": job.FormatRunID(e.Key), "belfry.job.id": job.FormatJobID(e.Key.Job), "belfry.job.name": "report",
		"belfry.namespace": "default", "belfry.queue": "mail", "belfry.run.due_at": "2026-03-29T01:30:00Z",
		"belfry.run.origin": "missed", "belfry.run.attempts": "1", "belfry.run.ended": "failed",
		"belfry.run.reason": "attempts", "belfry.run.lag_ms": "3600001", "error.type": "attempts",
	}, tracingtest.Attributes(runs[0]))
	require.Equal(t, tracepb.Status_STATUS_CODE_ERROR, runs[0].Status.Code)
	require.EqualValues(t, due.UnixNano(), runs[0].StartTimeUnixNano)
	require.EqualValues(t, due.Add(time.Second).UnixNano(), runs[0].EndTimeUnixNano)
	require.EqualValues(t, due.Add(48*time.Hour).UnixNano(), runs[1].StartTimeUnixNano, "not days ago")
}

// TestExportIsRetried: a collector or a database that is down for a moment costs no span.
func TestExportIsRetried(t *testing.T) {
	t.Parallel()
	b := setup(t, 1, nil)
	down := make(chan struct{}, 1)
	b.collector.Answer(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
		b.collector.Answer(nil)
		down <- struct{}{}
	})
	b.ledger.fails = 1
	b.Ended([]job.End{b.ledger.add(nil)})
	<-down
	b.collector.Await(t, func(spans []*tracepb.Span) bool { return len(spans) == 3 })
	b.stop()
	require.Zero(t, b.Dropped())
	require.EqualValues(t, 3, b.Exported())
}

// TestRefusedSpansAreCounted: a batch that the collector will never accept is dropped at once, and of one that it
// accepts in part, the rest.
func TestRefusedSpansAreCounted(t *testing.T) {
	t.Parallel()
	b := setup(t, 1, nil)
	b.collector.Answer(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadRequest) })
	b.Ended([]job.End{b.ledger.add(nil)})
	require.Eventually(t, func() bool { return b.Dropped() == 3 }, time.Minute, time.Millisecond)
	require.Equal(t, 1, b.collector.Requests())
	b.collector.Answer(func(w http.ResponseWriter, _ *http.Request) {
		body, err := proto.Marshal(&collectorpb.ExportTraceServiceResponse{
			PartialSuccess: &collectorpb.ExportTracePartialSuccess{RejectedSpans: 2},
		})
		if err != nil {
			t.Error(err)
		}
		_, _ = w.Write(body)
	})
	b.Ended([]job.End{b.ledger.add(nil)})
	require.Eventually(t, func() bool { return b.Exported() == 1 && b.Dropped() == 5 }, time.Minute, time.Millisecond)
}

// TestQueuesAreBounded: what a hanging collector does not take is dropped and counted, and every span is one or the
// other. Ends that come faster than they are read are dropped too.
func TestQueuesAreBounded(t *testing.T) {
	t.Parallel()
	hold := make(chan struct{})
	b := setup(t, 1, func(o *tracing.Options) {
		o.Queue, o.Flush = 10, time.Second
		o.Store.(*ledger).hold = hold
	})
	hang := make(chan struct{})
	b.collector.Answer(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-hang:
		case <-r.Context().Done():
		}
	})
	const runs = 20_000
	var ends []job.End
	for range runs {
		ends = append(ends, b.ledger.add(nil))
	}
	b.Ended(ends) // returns, although nothing is read and the queue takes half of them
	require.Positive(t, b.Dropped())
	close(hold)
	b.stop()
	close(hang)
	require.EqualValues(t, 3*runs, b.Dropped()+b.Exported(), "each span is counted once")
	require.Zero(t, b.Exported())
}

// TestKeptRunsAreLimited: if everything fails, only some of the runs are read, and the others are counted.
func TestKeptRunsAreLimited(t *testing.T) {
	t.Parallel()
	b := setup(t, 0, func(o *tracing.Options) { o.Queue = 100_000 })
	var ends []job.End
	for range 5000 {
		ends = append(ends, b.ledger.add(failed))
	}
	b.Ended(ends)
	b.stop()
	require.GreaterOrEqual(t, len(b.runs()), 100)
	require.Less(t, len(b.runs()), 5000)
	require.EqualValues(t, 15_000, b.Dropped()+b.Exported())
	require.EqualValues(t, 3*len(b.runs()), b.Exported(), fmt.Sprint(b.Dropped()))
}
