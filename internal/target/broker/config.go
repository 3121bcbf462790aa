package broker

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/belfry-dev/belfry/internal/expr"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/target/secret"
	"github.com/belfry-dev/belfry/internal/target/settings"
)

// Limits of a config. job.MaxConfig limits its total size.
const (
	maxHeaders = 32
	maxName    = 255 // bytes of the name of a header
)

// Config contains the settings that all brokers have.
type Config struct {
	Broker  string // its name
	Headers map[string]Header
	Report  bool // wait_for: report
}

// Common returns the settings that all brokers have.
func (c *Config) Common() *Config { return c }

// Where names the broker in messages.
func (c *Config) Where() string { return "the broker " + c.Broker }

// Uses returns the secrets that headers name. The broker itself is trusted, and its hosts are not known here: a secret
// that is bound to hosts cannot be in a header.
func (c *Config) Uses() (out secret.Uses) {
	for _, h := range c.Headers {
		out.AddHeader(h.Secret)
	}
	return out
}

// Header is a header of each message: a template, or a secret.
type Header struct {
	Template *expr.Template
	Secret   secret.Text // used if Template is nil
}

// Form describes the settings of one kind of broker.
type Form struct {
	Kind        string
	Example     string                 // a valid config
	Settings    []string               // names of the settings in addition to the common ones
	ValidHeader func(name string) bool // reports whether a header can have that name
}

// common are the names of the settings that all brokers have.
var common = []string{"broker", "headers", "wait_for"}

// Reader reads the settings of a broker.
type Reader struct {
	*settings.Reader
	Form Form
}

// Read reads the settings that all brokers have. The caller reads the others from the reader and then calls
// Err.
func Read(raw []byte, form Form) (*Reader, Config) {
	r := &Reader{settings.Read(raw, form.Example), form}
	c := Config{}
	if !r.Readable() {
		return r, c
	}
	known := append(slices.Clone(common), form.Settings...)
	for _, name := range slices.Sorted(maps.Keys(r.Fields)) {
		if !slices.Contains(known, name) {
			r.Add(settings.ShowName(name), "there is no such setting", "use "+strings.Join(known, ", "))
		}
	}
	if c.Broker = r.Text("broker", maxName); !job.ValidQueueName(c.Broker) {
		r.Add("broker", "it does not name a broker", "write for example "+form.Example)
	}
	r.headers(&c)
	r.waitFor(&c)
	return r, c
}

// Readable reports whether the config is an object.
func (r *Reader) Readable() bool { return r.Fields != nil }

// Text reads a string of at most limit bytes.
func (r *Reader) Text(field string, limit int) (text string) {
	raw := r.Fields[field]
	switch {
	case raw == nil:
	case json.Unmarshal(raw, &text) != nil:
		r.Add(field, "it is not a string", "quote it")
	case len(text) > limit:
		r.Add(field, fmt.Sprintf("%d bytes; at most %d are allowed", len(text), limit), "shorten it")
	}
	return text
}

// Template reads a string with expressions in ${…}. If the field is missing, it uses fallback. If that is
// empty too, it reports a problem.
func (r *Reader) Template(field, fallback string) *expr.Template {
	text := fallback
	if raw := r.Fields[field]; raw != nil {
		text = r.Text(field, expr.MaxText)
	}
	if text == "" {
		r.Add(field, "it is missing or empty", "say where messages go, for example "+r.Form.Example)
		return nil
	}
	return r.template(field, text)
}

func (r *Reader) template(field, text string) *expr.Template {
	t, err := expr.ParseTemplate(text)
	var e *expr.Error
	if errors.As(err, &e) {
		r.Add(field, e.Problem, e.Fix)
	}
	return t
}

// reserved reports whether Belfry sets a header itself.
func reserved(name string) bool {
	name = strings.ToLower(name)
	return strings.HasPrefix(name, "belfry-") || strings.HasPrefix(name, "nats-") ||
		slices.Contains([]string{"idempotency-key", "traceparent", "tracestate"}, name)
}

func (r *Reader) headers(c *Config) {
	raw := r.Fields["headers"]
	if raw == nil {
		return
	}
	var headers map[string]secret.Text
	if json.Unmarshal(raw, &headers) != nil {
		r.Add("headers", "it is not an object of strings",
			`write for example {"source": "belfry"}, or {"secret": "NAME"} in place of a string`)
		return
	}
	if len(headers) > maxHeaders {
		r.Add("headers", fmt.Sprintf("%d headers; at most %d are allowed", len(headers), maxHeaders),
			"send data in the payload")
		return
	}
	c.Headers = make(map[string]Header, len(headers))
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		field := "headers." + settings.ShowName(name)
		switch value := headers[name]; {
		case name == "" || len(name) > maxName || !r.Form.ValidHeader(name):
			r.Add(field, "it is not the name of a header", "use letters, digits and '-'")
		case reserved(name):
			r.Add(field, "Belfry sets it itself", "remove it")
		case value.Secret != "":
			c.Headers[name] = Header{Secret: value}
		default:
			c.Headers[name] = Header{Template: r.template(field, value.Plain)}
		}
	}
}

func (r *Reader) waitFor(c *Config) {
	switch text := r.Text("wait_for", 20); text {
	case "", "ack":
	case "report":
		c.Report = true
	default:
		r.Add("wait_for", "it is neither ack nor report",
			"use ack (the broker has it) or report (the consumer reports the outcome)")
	}
}
