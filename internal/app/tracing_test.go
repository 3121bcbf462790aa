package app

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	tracepb "go.opentelemetry.io/proto/slim/otlp/trace/v1"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/pgtest"
	"github.com/belfry-dev/belfry/internal/tracing/tracingtest"
)

// traced starts a node that traces into a collector.
func traced(t *testing.T, change func(*Config)) (*serving, *walk, *tenant, *tracingtest.Collector) {
	t.Helper()
	server, pool := pgtest.ServerURL(t)
	collector := tracingtest.New(t)
	s, c := serveAPI(t, func(c *Config) {
		c.DatabaseURL, c.Tracing.Endpoint, c.Tracing.Late = server, collector.URL, 24*time.Hour
		change(c)
	})
	return s, &walk{t: t, base: c.base, pool: pool, log: s.log}, &tenant{id: access.DefaultNamespace, key: c.key}, collector
}

// httpJob creates a job that calls a URL and has one attempt.
func (w *walk) httpJob(n *tenant, name, url string) (id string) {
	w.t.Helper()
	return w.must(n.key, "POST", "/api/v1/jobs", fmt.Sprintf(`{"name":"%s","schedule":"every 24h",
		"retry":{"max_attempts":1},"target":{"kind":"http","config":{"url":"%s"}}}`, name, url), "id")
}

// named returns the spans with a name.
func named(spans []*tracepb.Span, name string) (out []*tracepb.Span) {
	for _, s := range spans {
		if s.Name == name {
			out = append(out, s)
		}
	}
	return out
}

// TestATriggersTraceGoesOn: a triggered run is a child of the request that triggered it, and its target of the call. A
// caller that samples has the run traced, and one that does not has not, unless the run fails.
func TestATriggersTraceGoesOn(t *testing.T) {
	t.Parallel()
	_, w, n, collector := traced(t, func(c *Config) {
		c.Tracing.Ratio, c.Tracing.URL = "0", "https://traces.example.com/trace/{trace_id}"
	})
	sink := newSink(t)
	good, bad := w.httpJob(n, "good", sink.url+"/ok"), w.httpJob(n, "bad", echo(t, 400))
	trigger := func(job, trace, flags string) (run string) {
		got := w.askWith(map[string]string{
			"Authorization": "Bearer " + n.key, "Traceparent": fmt.Sprintf("00-%s-b7ad6b7169203331-%s", trace, flags),
		}, operation{method: "POST"}, "/api/v1/jobs/"+job+":trigger", "")
		require.Less(t, got.status, 300, "%s", got.body)
		return regexp.MustCompile(`run_[0-9a-z]+`).FindString(string(got.body))
	}
	const unsampled, sampled, failed = "0af7651916cd43dd8448eb211c80319a", "0af7651916cd43dd8448eb211c80319b",
		"0af7651916cd43dd8448eb211c80319c"
	trigger(good, unsampled, "00")
	run := trigger(good, sampled, "01")
	w.eventually(`SELECT count(*) = 2 FROM run_history`)
	trigger(bad, failed, "00")
	w.eventually(`SELECT count(*) = 3 FROM run_history`)
	spans := collector.Await(t, func(spans []*tracepb.Span) bool { return len(named(spans, "run default")) == 2 })
	traces := map[string]int{}
	for _, s := range spans {
		traces[tracingtest.Hex(s.TraceId)]++
	}
	require.Equal(t, map[string]int{sampled: 3, failed: 3}, traces, "of the other nothing comes, as ends are in order")
	for _, run := range named(spans, "run default") {
		require.Equal(t, "b7ad6b7169203331", tracingtest.Hex(run.ParentSpanId))
	}
	require.Equal(t, sampled, w.must(n.key, "GET", "/api/v1/runs/"+run, "", "trace_id"), "also after its end")
	require.Equal(t, "https://traces.example.com/trace/"+sampled,
		w.must(n.key, "GET", "/api/v1/runs/"+run, "", "trace_url"))
	_, _, resource, schemas := collector.Raw()
	require.Equal(t, "belfry", resource["service.name"])
	require.Equal(t, "one", resource["service.instance.id"])
	require.Len(t, schemas, 1)
}

// TestAHangingCollectorChangesNothing: every run ends, spans wait in a bounded queue, and the others are dropped and
// counted.
func TestAHangingCollectorChangesNothing(t *testing.T) {
	t.Parallel()
	hang := make(chan struct{})
	s, w, n, collector := traced(t, func(c *Config) { c.Tracing.Ratio, c.Tracing.Queue = "1", 100 })
	t.Cleanup(func() { close(hang) })
	collector.Answer(func(http.ResponseWriter, *http.Request) { <-hang })
	const jobs = 400
	var lines strings.Builder
	for i := range jobs {
		fmt.Fprintf(&lines, `{"name":"j%d","schedule":"2026-01-01T00:00:00Z","target":{"kind":"noop"}}`+"\n", i)
	}
	got := w.ask(n.key, operation{method: "POST", media: "application/x-ndjson"}, "/api/v1/jobs:bulk", lines.String())
	require.Less(t, got.status, 300, "%s", got.body)
	w.eventually(`SELECT count(*) = $1 FROM run_history`, jobs)
	require.Eventually(t, func() bool {
		_, metrics := get(t, w.base+"/metrics")
		return !strings.Contains(metrics, "belfry_spans_dropped_total 0\n") && collector.Requests() > 0
	}, time.Minute, 10*time.Millisecond)
	_, metrics := get(t, w.base+"/metrics")
	require.Contains(t, metrics, "belfry_spans_exported_total 0\n")
	require.NoError(t, s.end(t), "and the node stops")
}
