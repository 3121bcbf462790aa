package http

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/belfry-dev/belfry/internal/job"
)

// The limits of a config; its size is limited by job.MaxConfig.
const (
	maxURL     = 2048 // bytes
	maxHeaders = 64
)

// config is what a user writes, checked.
type config struct {
	url     *url.URL
	method  string
	headers map[string]string // by canonical name
	body    string
	hasBody bool // the config says what the body is, be it nothing

	stored   []stored // headers whose values are secrets of the namespace
	signing  string   // the secret that requests are signed with; empty: the namespace's, if it has one
	unsigned bool
	cert     string // the secret with the client certificate; empty: none
	keep     bool   // what a success answers
}

// Check says what is wrong with a config: see target.Target.
func (*Target) Check(raw json.RawMessage) error {
	_, err := parse(raw)
	return err
}

// reader collects problems. They never repeat what was written: an API answer
// or a log would carry a secret further.
type reader struct {
	problems []error
}

func (r *reader) add(field, problem, fix string) {
	if field != "" {
		field = "." + field
	}
	r.problems = append(r.problems, &job.Problem{Field: "target.config" + field, Problem: problem, Fix: fix})
}

// parse goes field by field, which encoding/json does not: so each problem has
// its field, and names count as they are written, with case.
func parse(raw []byte) (config, error) {
	var fields map[string]json.RawMessage
	r := &reader{}
	c := config{method: http.MethodPost}
	if len(raw) == 0 || json.Unmarshal(raw, &fields) != nil || fields == nil {
		r.add("", "it is not a JSON object", `write for example {"url": "https://example.com/hook"}`)
		return c, errors.Join(r.problems...)
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		value := fields[name]
		switch name {
		case "url", "body": // below: also when missing, and when the method is known
		case "method":
			r.method(&c, value)
		case "headers":
			r.headers(&c, value)
		case "signing":
			r.signing(&c, value)
		case "client_certificate":
			c.cert = r.stored(name, value)
		case "keep_response":
			if json.Unmarshal(value, &c.keep) != nil {
				r.add(name, "it is neither true nor false", "true keeps the beginning of what the target answers, also when it succeeds")
			}
		case "auth": // below, when the headers are known
		default:
			r.add(shorten(name), "there is no such setting", "use url, method, headers, body, auth, signing, client_certificate and keep_response")
		}
	}
	r.auth(&c, fields["auth"])
	r.url(&c, fields["url"])
	if c.cert != "" && c.url != nil && c.url.Scheme != "https" {
		r.add("client_certificate", "it is for https alone", "begin the url with https://, or remove it")
	}
	r.body(&c, fields["body"])
	return c, errors.Join(r.problems...)
}

func (r *reader) url(c *config, raw json.RawMessage) {
	var text string
	if raw == nil || json.Unmarshal(raw, &text) != nil || text == "" {
		r.add("url", "it is missing or not a text", "say where runs go, for example https://example.com/hook")
		return
	}
	if len(text) > maxURL {
		r.add("url", fmt.Sprintf("%d bytes; at most %d are taken", len(text), maxURL), "send long data in the payload")
		return
	}
	u, err := url.Parse(text)
	switch {
	case err != nil:
		r.add("url", "it is not a URL", "write for example https://example.com/hook, with special characters escaped")
	case u.Scheme != "http" && u.Scheme != "https":
		r.add("url", "only http and https are spoken", "begin it with https://")
	case u.User != nil:
		r.add("url", "it has a user or password", "store the password as a secret and use auth.basic")
	case u.Hostname() == "":
		r.add("url", "it names no host", "write for example https://example.com/hook")
	case !validPort(u.Port()):
		r.add("url", "its port is not one", "use 1 to 65535, or leave it out")
	default:
		c.url = u
	}
}

func validPort(p string) bool {
	n, err := strconv.ParseUint(p, 10, 16)
	return p == "" || err == nil && n > 0
}

var methods = []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodGet, http.MethodHead}

func (r *reader) method(c *config, raw json.RawMessage) {
	var text string
	if json.Unmarshal(raw, &text) != nil || !slices.Contains(methods, text) {
		r.add("method", "it is not a method that is taken", "use one of "+strings.Join(methods, ", ")+", or leave it out: POST")
		return
	}
	c.method = text
}

// body: a text goes out as it is, so that forms and XML can be sent; any other
// value as JSON.
func (r *reader) body(c *config, raw json.RawMessage) {
	if raw == nil || string(raw) == "null" {
		return
	}
	if c.bodiless() {
		r.add("body", c.method+" has no body", "use POST, or remove it")
		return
	}
	c.hasBody, c.body = true, string(raw)
	if raw[0] != '"' {
		return
	}
	if json.Unmarshal(raw, &c.body) != nil {
		r.add("body", "it is not a valid text", "write a text or any JSON")
		return
	}
	if _, told := c.headers["Content-Type"]; !told && c.body != "" && !json.Valid([]byte(c.body)) {
		r.add("body", "it is not JSON, and nothing says what it is", "add a header Content-Type, for example text/plain")
	}
}

func (c *config) bodiless() bool { return c.method == http.MethodGet || c.method == http.MethodHead }

// shorten keeps a name that a user wrote fit to be shown.
func shorten(name string) string { return clean(name, 60) }
