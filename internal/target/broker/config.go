package broker

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/belfry-dev/belfry/internal/expr"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/target/secret"
)

// The limits of a config; its size is limited by job.MaxConfig.
const (
	maxServers = 16
	maxHeaders = 32
	maxName    = 255 // bytes of a host, a user or the name of a header
)

// Config is the part of a config that all brokers have.
type Config struct {
	Servers []string // host:port
	TLS     *TLS     // nil: none
	User    string
	// Password is always stored: configs are shown to whoever may see the job.
	Password secret.Text
	Headers  map[string]Header
	Report   bool // wait_for: report
}

// Header is a value that goes with each message.
type Header struct {
	Template *expr.Template
	Secret   secret.Text // in place of it
}

// Form is what a kind of broker takes.
type Form struct {
	Port    string            // the usual one
	Example string            // a config
	Names   []string          // of settings beside the common ones
	Header  func(string) bool // is that the name of a header?
}

// Common are the names of the settings that all have.
var common = []string{"servers", "tls", "user", "password", "headers", "wait_for"}

// Reader goes through a config field by field and collects problems. They never
// repeat what was written: an API answer or a log would carry a secret further.
type Reader struct {
	Form     Form
	Fields   map[string]json.RawMessage
	problems []error
}

// Read the part that all brokers have. Err says what is wrong.
func Read(raw []byte, form Form) (*Reader, Config) {
	r := &Reader{Form: form}
	var c Config
	if len(raw) == 0 || json.Unmarshal(raw, &r.Fields) != nil || r.Fields == nil {
		r.Add("", "it is not a JSON object", "write for example "+form.Example)
		return r, c
	}
	known := append(slices.Clone(common), form.Names...)
	for _, name := range slices.Sorted(maps.Keys(r.Fields)) {
		if !slices.Contains(known, name) {
			r.Add(Shorten(name), "there is no such setting", "use "+strings.Join(known, ", "))
		}
	}
	r.servers(&c)
	r.tls(&c)
	c.User = r.Text("user", maxName)
	c.Password = r.Stored("password")
	r.headers(&c)
	r.waitFor(&c)
	return r, c
}

// Add a problem of a field.
func (r *Reader) Add(field, problem, fix string) {
	if field != "" {
		field = "." + field
	}
	r.problems = append(r.problems, &job.Problem{Field: "target.config" + field, Problem: problem, Fix: fix})
}

// Err is what is wrong; nil: nothing.
func (r *Reader) Err() error { return errors.Join(r.problems...) }

// Readable says whether there is anything to read.
func (r *Reader) Readable() bool { return r.Fields != nil }

// Text reads a text of at most so many bytes.
func (r *Reader) Text(field string, most int) (text string) {
	raw := r.Fields[field]
	switch {
	case raw == nil:
	case json.Unmarshal(raw, &text) != nil:
		r.Add(field, "it is not a text", "quote it")
	case len(text) > most:
		r.Add(field, fmt.Sprintf("%d bytes; at most %d are allowed", len(text), most), "shorten it")
	}
	return text
}

// Template reads a text with expressions in ${…}. One that is missing is that of
// fallback; without a fallback it is a problem.
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

// Stored reads the name of a stored secret.
func (r *Reader) Stored(field string) (t secret.Text) {
	raw := r.Fields[field]
	if raw == nil {
		return t
	}
	if json.Unmarshal(raw, &t) != nil || t.Secret == "" {
		r.Add(field, "it does not name a stored secret", `store it (belfry secret set NAME) and write {"secret": "NAME"}`)
	}
	return t
}

func (r *Reader) servers(c *Config) {
	var list []string
	if json.Unmarshal(r.Fields["servers"], &list) != nil || len(list) == 0 {
		r.Add("servers", "it is missing or not a list of texts", `write for example ["broker.example.com:`+r.Form.Port+`"]`)
		return
	}
	if len(list) > maxServers {
		r.Add("servers", fmt.Sprintf("%d servers; at most %d are allowed", len(list), maxServers), "name a few: the others are found through them")
		return
	}
	for i, server := range list {
		host, port, err := net.SplitHostPort(server)
		if err != nil && !strings.Contains(server, ":") {
			host, port, err = server, r.Form.Port, nil
		}
		if n, bad := strconv.ParseUint(port, 10, 16); err != nil || bad != nil || n == 0 || host == "" || len(host) > maxName || strings.ContainsAny(host, "/@ \t\r\n") {
			r.Add(fmt.Sprintf("servers.%d", i), "it is not host:port", "write for example broker.example.com:"+r.Form.Port+", without a scheme, user or path")
			continue
		}
		c.Servers = append(c.Servers, net.JoinHostPort(host, port))
	}
}

// reserved are the names of headers that Belfry sets itself.
func reserved(name string) bool {
	name = strings.ToLower(name)
	return strings.HasPrefix(name, "belfry-") || strings.HasPrefix(name, "nats-") || slices.Contains([]string{"idempotency-key", "traceparent", "tracestate"}, name)
}

func (r *Reader) headers(c *Config) {
	raw := r.Fields["headers"]
	if raw == nil {
		return
	}
	var headers map[string]secret.Text
	if json.Unmarshal(raw, &headers) != nil {
		r.Add("headers", "it is not an object of texts", `write for example {"source": "belfry"}, or {"secret": "NAME"} in place of a text`)
		return
	}
	if len(headers) > maxHeaders {
		r.Add("headers", fmt.Sprintf("%d headers; at most %d are allowed", len(headers), maxHeaders), "send data in the payload")
		return
	}
	c.Headers = make(map[string]Header, len(headers))
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		field := "headers." + Shorten(name)
		switch value := headers[name]; {
		case name == "" || len(name) > maxName || !r.Form.Header(name):
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
		r.Add("wait_for", "it is neither ack nor report", "use ack (the broker has it) or report (the consumer tells what it came to)")
	}
}
