// Package tracingtest is for tests only: a collector that keeps the spans it receives.
package tracingtest

import (
	"compress/gzip"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	collectorpb "go.opentelemetry.io/proto/slim/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/slim/otlp/trace/v1"
)

// Collector receives OTLP over HTTP.
type Collector struct {
	URL string // its endpoint

	mu       sync.Mutex
	spans    []*tracepb.Span
	raw      []byte // all bodies
	headers  http.Header
	resource map[string]string
	schemas  map[string]bool
	requests int
	answer   http.HandlerFunc // nil: accept
}

// New starts a collector that ends with the test.
func New(t testing.TB) *Collector {
	t.Helper()
	c := &Collector{resource: map[string]string{}, schemas: map[string]bool{}}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { c.serve(t, w, r) }))
	t.Cleanup(s.Close)
	c.URL = s.URL + "/v1/traces"
	return c
}

// Answer replaces what the collector does with requests; nil: it accepts them.
func (c *Collector) Answer(h http.HandlerFunc) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answer = h
}

func (c *Collector) serve(t testing.TB, w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	c.requests++
	answer := c.answer
	c.mu.Unlock()
	if answer != nil {
		answer(w, r)
		return
	}
	body := io.Reader(r.Body)
	if r.Header.Get("Content-Encoding") == "gzip" {
		unpacked, err := gzip.NewReader(body)
		if err != nil {
			t.Error(err)
			return
		}
		body = unpacked
	}
	data, err := io.ReadAll(body)
	if err != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	var in collectorpb.ExportTraceServiceRequest
	if err := proto.Unmarshal(data, &in); err != nil || r.Method != http.MethodPost || r.URL.Path != "/v1/traces" ||
		r.Header.Get("Content-Type") != "application/x-protobuf" {
		t.Errorf("%s %s is not a request of OTLP: %v", r.Method, r.URL, err)
	}
	c.keep(&in, data, r.Header)
	w.Header().Set("Content-Type", "application/x-protobuf")
}

func (c *Collector) keep(in *collectorpb.ExportTraceServiceRequest, data []byte, headers http.Header) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.raw, c.headers = append(c.raw, data...), headers
	for _, r := range in.ResourceSpans {
		c.schemas[r.SchemaUrl] = true
		for _, kv := range r.Resource.Attributes {
			c.resource[kv.Key] = kv.Value.GetStringValue()
		}
		for _, s := range r.ScopeSpans {
			c.spans = append(c.spans, s.Spans...)
		}
	}
}

// Spans returns what was received so far.
func (c *Collector) Spans() []*tracepb.Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]*tracepb.Span(nil), c.spans...)
}

// Requests returns how many requests have come.
func (c *Collector) Requests() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.requests
}

// Raw returns all that was received, the last headers, the attributes of the resources, and the schemas.
func (c *Collector) Raw() (body string, headers http.Header, resource map[string]string, schemas map[string]bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return string(c.raw), c.headers, c.resource, c.schemas
}

// Await waits until the collector has the spans that enough asks for, and returns them.
func (c *Collector) Await(t testing.TB, enough func([]*tracepb.Span) bool) []*tracepb.Span {
	t.Helper()
	require.Eventually(t, func() bool { return enough(c.Spans()) }, 2*time.Minute, 20*time.Millisecond,
		"the collector did not receive the spans")
	return c.Spans()
}

// Attributes returns the attributes of a span as text.
func Attributes(s *tracepb.Span) map[string]string {
	out := map[string]string{}
	for _, kv := range s.Attributes {
		if out[kv.Key] = kv.Value.GetStringValue(); out[kv.Key] == "" { // strings that are not set are left out
			out[kv.Key] = strconv.FormatInt(kv.Value.GetIntValue(), 10)
		}
	}
	return out
}

// Hex is an id as traceparent has it.
func Hex(id []byte) string { return hex.EncodeToString(id) }
