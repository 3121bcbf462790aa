package cluster_test

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	tracepb "go.opentelemetry.io/proto/slim/otlp/trace/v1"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/schedule"
	"github.com/belfry-dev/belfry/internal/tracing/tracingtest"
)

// traceparents is a target whose first attempt does not end, whose second fails, and whose third succeeds.
type traceparents struct {
	mu     sync.Mutex
	got    []string
	called chan int // the number of an attempt
}

func (p *traceparents) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	p.got = append(p.got, r.Header.Get("Traceparent"))
	n := len(p.got)
	p.mu.Unlock()
	p.called <- n
	switch n {
	case 1:
		<-r.Context().Done() // until its caller dies
	case 2:
		w.WriteHeader(http.StatusServiceUnavailable)
	}
}

// TestOneTraceOverCrashes: three attempts of a run on three nodes, each killed before the next, are one trace. The node
// that completes the run creates the spans of all, with the ids that the target has received. The share of sampled runs
// is 0: the run is traced because it was rescued.
func TestOneTraceOverCrashes(t *testing.T) {
	t.Parallel()
	collector := tracingtest.New(t)
	target := &traceparents{called: make(chan int, 10)}
	server := httptest.NewServer(target)
	t.Cleanup(server.Close)
	c := newCluster(t, setup{nodes: 1, env: []string{
		"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=" + collector.URL, "OTEL_TRACES_SAMPLER_ARG=0",
		"OTEL_SERVICE_NAME=cluster-test", "BELFRY_TRACING_LATE=1d",
	}})
	c.create(1, time.Second, func(_ int, in *job.NewJob) {
		in.Definition.Schedule = schedule.Spec{At: c.now().UTC().Format(time.RFC3339)}
		in.Definition.Target.Config = []byte(`{"url":"` + server.URL + `/hook?token=canary"}`)
		in.Definition.Retry.Backoff, in.Definition.Retry.Base = job.BackoffFixed, job.Duration(20*time.Second)
		in.Definition.Timeout = job.Duration(10 * time.Minute)
	})
	for n := 1; n <= 3; n++ {
		select {
		case got := <-target.called:
			require.Equal(t, n, got)
		case <-time.After(3 * time.Minute):
			t.Fatalf("attempt %d does not come", n)
		}
		switch n {
		case 2: // its outcome is written before the node dies
			require.Eventually(t, func() bool {
				var recorded bool
				require.NoError(t, c.pool.QueryRow(t.Context(),
					`SELECT coalesce(bool_or(jsonb_array_length(attempts) = 2), false) FROM run`).Scan(&recorded))
				return recorded
			}, time.Minute, 10*time.Millisecond)
			fallthrough
		case 1:
			c.kill(syscall.SIGKILL)
		}
	}
	spans := collector.Await(t, func(spans []*tracepb.Span) bool { return len(spans) >= 7 })
	target.check(t, spans)
	raw, _, resource, _ := collector.Raw()
	require.Equal(t, "cluster-test", resource["service.name"])
	require.NotContains(t, raw, "canary")
}

// check compares the spans of the run with what the target received.
func (p *traceparents) check(t *testing.T, spans []*tracepb.Span) {
	t.Helper()
	require.Len(t, spans, 7)
	require.Len(t, p.got, 3)
	byID := map[string]*tracepb.Span{}
	var run *tracepb.Span
	for _, s := range spans {
		require.Equal(t, p.got[0][3:35], tracingtest.Hex(s.TraceId), "%s is in another trace", s.Name)
		byID[tracingtest.Hex(s.SpanId)] = s
		if len(s.ParentSpanId) == 0 {
			run = s
		}
	}
	require.Len(t, byID, 7)
	require.Equal(t, "run default", run.Name)
	require.Equal(t, "succeeded", tracingtest.Attributes(run)["belfry.run.ended"])
	previous := ""
	for i, outcome := range []string{"lost", "failed", "succeeded"} {
		require.Equal(t, p.got[0][:36], p.got[i][:36], "all attempts are in one trace")
		require.Equal(t, "00", p.got[i][53:], "the ratio is 0")
		call := byID[p.got[i][36:52]]
		require.NotNil(t, call, "the target received a span that is not in the trace")
		require.Equal(t, "POST", call.Name)
		require.Equal(t, tracepb.Span_SPAN_KIND_CLIENT, call.Kind)
		require.Equal(t, "127.0.0.1", tracingtest.Attributes(call)["server.address"])
		require.Equal(t, []string{"", "503", "200"}[i], tracingtest.Attributes(call)["http.response.status_code"])
		deliver := byID[tracingtest.Hex(call.ParentSpanId)]
		require.NotNil(t, deliver)
		require.Equal(t, "deliver default", deliver.Name)
		require.Equal(t, tracepb.Span_SPAN_KIND_CONSUMER, deliver.Kind)
		require.Equal(t, run.SpanId, deliver.ParentSpanId)
		require.Equal(t, outcome, tracingtest.Attributes(deliver)["belfry.outcome"])
		require.Equal(t, strconv.Itoa(i+1), tracingtest.Attributes(deliver)["belfry.attempt"])
		if previous == "" {
			require.Empty(t, deliver.Links)
		} else {
			require.Len(t, deliver.Links, 1)
			require.Equal(t, previous, tracingtest.Hex(deliver.Links[0].SpanId))
		}
		previous = tracingtest.Hex(deliver.SpanId)
	}
}
