package tracing

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"google.golang.org/protobuf/proto"

	collectorpb "go.opentelemetry.io/proto/slim/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/slim/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/slim/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/slim/otlp/trace/v1"
)

const (
	exportBatch = 512                    // spans, and those of one more run
	exportPause = 200 * time.Millisecond // in which a batch gathers
	exportTries = 5                      // of one batch
	maxReply    = 64 << 10
)

// Export says where spans go.
type Export struct {
	Endpoint string        // URL of OTLP over HTTP
	Headers  http.Header   // of each request
	Timeout  time.Duration // of one request
	Gzip     bool
	RootCAs  *x509.CertPool    // of the collector; nil: those of the system
	Resource map[string]string // what the spans are about, such as service.name
	Version  string            // of this binary

	client *http.Client
}

// ReadRoots reads the file of tracing.ca_file: certificates that the collector's may be signed by. No file, or nil: those
// of the system.
func ReadRoots(file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil
	}
	data, err := os.ReadFile(file) //nolint:gosec // the operator names it
	if err != nil {
		return nil, fmt.Errorf("tracing.ca_file: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(data) {
		return nil, errors.New("tracing.ca_file: it has no certificate in PEM format")
	}
	return roots, nil
}

// errRejected says that the collector will never accept a batch.
var errRejected = errors.New("the collector rejected the spans")

// open prepares the connection.
func (x *Export) open() {
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, MaxIdleConns: 1, IdleConnTimeout: time.Minute, ForceAttemptHTTP2: true,
		TLSClientConfig: &tls.Config{RootCAs: x.RootCAs, MinVersion: tls.VersionTLS12},
	}
	x.client = &http.Client{
		Transport: transport, Timeout: x.Timeout,
		// A redirect would carry the headers, which may have a token, to another place.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// request is a batch as OTLP has it.
func (x *Export) request(spans []*tracepb.Span) *collectorpb.ExportTraceServiceRequest {
	resource := &resourcepb.Resource{}
	for key, value := range x.Resource {
		resource.Attributes = append(resource.Attributes, attributes(attribute(key, value))...)
	}
	return &collectorpb.ExportTraceServiceRequest{ResourceSpans: []*tracepb.ResourceSpans{{
		Resource: resource, SchemaUrl: schema,
		ScopeSpans: []*tracepb.ScopeSpans{{
			Scope: &commonpb.InstrumentationScope{Name: "github.com/belfry-dev/belfry", Version: x.Version},
			Spans: spans, SchemaUrl: schema,
		}},
	}}}
}

// send sends a batch. It returns how many spans the collector refused, and errRejected if trying again is useless.
func (x *Export) send(ctx context.Context, spans []*tracepb.Span) (refused int64, err error) {
	body, err := proto.Marshal(x.request(spans))
	if err != nil {
		return 0, errors.Join(errRejected, err)
	}
	if x.Gzip {
		body = compress(body)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, x.Endpoint, bytes.NewReader(body))
	if err != nil {
		return 0, errors.Join(errRejected, err)
	}
	for name, values := range x.Headers {
		r.Header[name] = values
	}
	r.Header.Set("Content-Type", "application/x-protobuf")
	if x.Gzip {
		r.Header.Set("Content-Encoding", "gzip")
	}
	reply, err := x.client.Do(r)
	if err != nil {
		return 0, err
	}
	defer func() { _ = reply.Body.Close() }()
	data, err := io.ReadAll(io.LimitReader(reply.Body, maxReply))
	switch status := reply.StatusCode; {
	case status/100 == 2:
		var result collectorpb.ExportTraceServiceResponse
		if err == nil && proto.Unmarshal(data, &result) == nil {
			refused = min(max(result.GetPartialSuccess().GetRejectedSpans(), 0), int64(len(spans)))
		}
		return refused, nil
	case status == http.StatusTooManyRequests || status >= 502 && status <= 504:
		return 0, fmt.Errorf("the collector answered %d", status)
	default:
		return 0, fmt.Errorf("%w: it answered %d", errRejected, status)
	}
}

func compress(body []byte) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, _ = w.Write(body) // a buffer does not fail
	_ = w.Close()
	return out.Bytes()
}

// exportOnce waits for spans and exports a batch, also if ctx ends meanwhile.
func (t *Tracer) exportOnce(ctx, last context.Context) error {
	if len(t.exporting) == 0 {
		select {
		case spans := <-t.spans:
			t.take(spans)
		case <-ctx.Done():
			return nil
		}
		select { // more may come in a moment
		case <-time.After(exportPause):
		case <-ctx.Done():
			return nil
		}
	}
	return t.export(last)
}

func (t *Tracer) take(spans []*tracepb.Span) {
	t.queued.Add(-int64(len(spans)))
	t.exporting = append(t.exporting, spans...)
}

// export exports one batch. A batch that fails is kept for another try, up to exportTries.
func (t *Tracer) export(ctx context.Context) error {
	for len(t.exporting) < exportBatch && len(t.spans) > 0 {
		t.take(<-t.spans)
	}
	refused, err := t.Export.send(ctx, t.exporting)
	if err != nil && ctx.Err() != nil {
		return err // the node stops
	}
	t.tries++
	n := int64(len(t.exporting))
	switch {
	case err == nil:
		t.exported.Add(n - refused)
		t.dropped.Add(refused)
		if refused > 0 {
			err = fmt.Errorf("the collector refused %d of %d spans", refused, n)
		}
	case errors.Is(err, errRejected) || t.tries >= exportTries:
		t.dropped.Add(n)
	default:
		return err
	}
	t.exporting, t.tries = nil, 0
	return err
}
