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

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/expr"
	"github.com/belfry-dev/belfry/internal/target/secret"
	"github.com/belfry-dev/belfry/internal/target/settings"
)

// Limits of a config. job.MaxConfig limits its total size.
const (
	maxServers = 16
	maxHeaders = 32
	maxName    = 255 // bytes of a host, a user or the name of a header
)

// Config contains the settings that all brokers have.
type Config struct {
	Servers []string // host:port
	TLS     *TLS     // nil: none
	User    string
	// Password must be a stored secret, because everyone who may see the job sees its config.
	Password secret.Text
	Headers  map[string]Header
	Report   bool // wait_for: report

	use access.SecretUse
}

// Uses returns the secrets of the settings that all brokers have.
func (c *Config) Uses() secret.Uses {
	out := secret.Uses{SecretUse: c.use}
	out.Add(c.Password)
	if c.TLS != nil {
		out.Add(c.TLS.Key)
	}
	for _, h := range c.Headers {
		out.AddHeader(h.Secret)
	}
	out.Clear = c.Clear(c.Password)
	return out
}

// Clear reports whether secrets would be sent without encryption: those given, or those in headers.
func (c *Config) Clear(sent ...secret.Text) bool {
	for _, h := range c.Headers {
		sent = append(sent, h.Secret)
	}
	named := slices.ContainsFunc(sent, func(t secret.Text) bool { return t.Secret != "" })
	return named && c.TLS == nil && secret.Remote(c.use.Hosts)
}

// Header is a header of each message: a template, or a secret.
type Header struct {
	Template *expr.Template
	Secret   secret.Text // used if Template is nil
}

// Form describes the settings of one kind of broker.
type Form struct {
	Kind        string
	Port        string                 // the default
	Example     string                 // a valid config
	Settings    []string               // names of the settings in addition to the common ones
	ValidHeader func(name string) bool // reports whether a header can have that name
}

// common are the names of the settings that all brokers have.
var common = []string{"servers", "tls", "user", "password", "headers", "wait_for"}

// Reader reads the settings of a broker.
type Reader struct {
	*settings.Reader
	Form Form
}

// Read reads the settings that all brokers have. The caller reads the others from the reader and then calls
// Err.
func Read(raw []byte, form Form) (*Reader, Config) {
	r := &Reader{settings.Read(raw, form.Example), form}
	c := Config{use: access.SecretUse{Kind: form.Kind}}
	if !r.Readable() {
		return r, c
	}
	known := append(slices.Clone(common), form.Settings...)
	for _, name := range slices.Sorted(maps.Keys(r.Fields)) {
		if !slices.Contains(known, name) {
			r.Add(settings.ShowName(name), "there is no such setting", "use "+strings.Join(known, ", "))
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

// Stored reads a setting that must be a stored secret.
func (r *Reader) Stored(field string) (t secret.Text) {
	raw := r.Fields[field]
	if raw == nil {
		return t
	}
	if json.Unmarshal(raw, &t) != nil || t.Secret == "" {
		r.Add(field, "it does not name a stored secret",
			`store it (belfry secret set NAME) and write {"secret": "NAME"}`)
	}
	return t
}

func (r *Reader) servers(c *Config) {
	var list []string
	if json.Unmarshal(r.Fields["servers"], &list) != nil || len(list) == 0 {
		r.Add("servers", "it is missing or not a list of strings",
			`write for example ["broker.example.com:`+r.Form.Port+`"]`)
		return
	}
	if len(list) > maxServers {
		r.Add("servers", fmt.Sprintf("%d servers; at most %d are allowed", len(list), maxServers),
			"name a few: the others are found through them")
		return
	}
	for i, server := range list {
		host, port, err := net.SplitHostPort(server)
		if err != nil && !strings.Contains(server, ":") {
			host, port, err = server, r.Form.Port, nil
		}
		if err != nil || !validHost(host) || !validPort(port) {
			r.Add(fmt.Sprintf("servers.%d", i), "it is not host:port",
				"write for example broker.example.com:"+r.Form.Port+", without a scheme, user or path")
			continue
		}
		c.Servers = append(c.Servers, net.JoinHostPort(host, port))
		c.use.Hosts = append(c.use.Hosts, host)
	}
}

func validHost(host string) bool {
	return host != "" && len(host) <= maxName && !strings.ContainsAny(host, "/@") && settings.PlainHost(host)
}

func validPort(port string) bool {
	n, err := strconv.ParseUint(port, 10, 16)
	return err == nil && n != 0
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
