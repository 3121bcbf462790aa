package tracing

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	commonpb "go.opentelemetry.io/proto/slim/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/slim/otlp/trace/v1"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/trace"
)

// callConfig is what spans show of the config of a target. Everything else may be secret: paths, queries, headers,
// bodies, arguments and environments are not even read.
type callConfig struct {
	URL        string `json:"url"`
	Method     string `json:"method"`
	Topic      string `json:"topic"`
	Subject    string `json:"subject"`
	Exchange   string `json:"exchange"`
	RoutingKey string `json:"routing_key"`
}

// systems are the brokers by kind of target, as the semantic conventions name them.
var systems = map[string]string{"kafka": "kafka", "nats": "nats", "amqp": "rabbitmq"}

// callSpan is the span of the call to the target. The target received its id.
func (b *builder) callSpan(a *job.AttemptEnd) *tracepb.Span {
	var c callConfig
	_ = json.Unmarshal([]byte(b.r.Config), &c) // a config that cannot be read has nothing to show
	name, kind, attrs := "call", tracepb.Span_SPAN_KIND_INTERNAL, []*commonpb.KeyValue(nil)
	switch b.r.Kind {
	case "http":
		name, attrs = c.http(a)
		kind = tracepb.Span_SPAN_KIND_CLIENT
	case "kafka", "nats", "amqp":
		name, attrs = c.send(b.r.Kind)
		kind = tracepb.Span_SPAN_KIND_PRODUCER
	case "command":
		name = "exec"
		if a.Outcome == job.Succeeded || a.Code != 0 {
			attrs = append(attrs, attribute("process.exit.code", a.Code))
		}
	}
	s := b.span(trace.CallSpan(b.r.Key, a.Number), trace.DeliverSpan(b.r.Key, a.Number), name, kind)
	spanTimes(s, a.StartedAt, a.EndedAt)
	s.Attributes = attrs
	switch {
	case b.r.Kind == "http" && a.Code >= 400:
		fail(s, strconv.Itoa(a.Code))
	case a.Outcome == job.Failed || a.Outcome == job.Lost:
		fail(s, outcomes[a.Outcome])
	}
	return s
}

// http returns the name and the attributes of a request.
func (c *callConfig) http(a *job.AttemptEnd) (name string, attrs []*commonpb.KeyValue) {
	name = c.Method
	if name == "" {
		name = http.MethodPost
	}
	attrs = attributes(attribute("http.request.method", name))
	if u, err := url.Parse(c.URL); err == nil {
		attrs = append(attrs, attributes(attribute("server.address", u.Hostname()))...)
		if port, err := strconv.Atoi(u.Port()); err == nil {
			attrs = append(attrs, attribute("server.port", port))
		}
	}
	if a.Code != 0 {
		attrs = append(attrs, attribute("http.response.status_code", a.Code))
	}
	if a.Number > 1 {
		attrs = append(attrs, attribute("http.request.resend_count", int(a.Number)-1))
	}
	return name, attrs
}

// send returns the name and the attributes of a message. A destination with an expression in it is left out: its
// values are those of payloads, and many.
func (c *callConfig) send(kind string) (name string, attrs []*commonpb.KeyValue) {
	name = "send"
	destination := c.Topic + c.Subject
	if kind == "amqp" {
		destination = c.Exchange
		if destination == "" { // the default exchange, where the routing key is the name of a queue
			destination = c.RoutingKey
		}
	}
	if strings.Contains(destination, "${") {
		destination = ""
	}
	if destination != "" {
		name += " " + destination
	}
	return name, attributes(
		attribute("messaging.system", systems[kind]), attribute("messaging.operation.name", "send"),
		attribute("messaging.operation.type", "send"), attribute("messaging.destination.name", destination),
	)
}
