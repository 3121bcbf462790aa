package http

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/target/secret"
	"github.com/belfry-dev/belfry/internal/target/settings"
)

// maxHeaders of a config. job.MaxConfig limits its total size.
const maxHeaders = 64

// config is a valid config.
type config struct {
	url     *url.URL
	inURL   []string // names of the secrets in the path and the query of the URL
	method  string
	headers map[string]string // by canonical name
	body    string
	hasBody bool // the config sets the body, which may be empty

	stored   []stored // headers whose values are secrets of the namespace
	signing  string   // the secret that signs requests; empty: DefaultSigning, if it exists
	unsigned bool
	cert     string // the secret with the client certificate; empty: none
	keep     bool   // store the response of a success too
}

// Check reports what is wrong with a config: see target.Target.
func (*Target) Check(raw json.RawMessage) error {
	_, err := parse(raw)
	return err
}

// Uses returns the secrets of a config: see target.Target. The secret that signs all requests of a namespace is not
// among them, because no config names it.
func (*Target) Uses(raw json.RawMessage) (out secret.Uses) {
	c, err := parse(raw)
	if err != nil {
		return out
	}
	out.SecretUse, out.InURL = c.use(), c.inURL
	for _, s := range c.stored {
		out.Add(secret.Text{Secret: s.secret})
	}
	out.Clear = len(out.Names)+len(out.InURL) > 0 && c.url.Scheme == "http" && secret.Remote(out.Hosts)
	// A signature and a client certificate do not send the value.
	out.Add(secret.Text{Secret: c.signing}, secret.Text{Secret: c.cert})
	return out
}

func (c *config) use() access.SecretUse {
	return access.SecretUse{Kind: "http", Hosts: []string{c.url.Hostname()}}
}

// reader reads the settings of this target.
type reader struct{ *settings.Reader }

func parse(raw []byte) (config, error) {
	r := &reader{settings.Read(raw, `{"url": "https://example.com/hook"}`)}
	c := config{method: http.MethodPost}
	if r.Fields == nil {
		return c, r.Err()
	}
	for _, name := range slices.Sorted(maps.Keys(r.Fields)) {
		value := r.Fields[name]
		switch name {
		case "url", "body", "auth": // read below, once the method and the headers are known
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
				r.Add(name, "it is neither true nor false",
					"true keeps the beginning of what the target answers, also when it succeeds")
			}
		default:
			r.Add(settings.ShowName(name), "there is no such setting",
				"use url, method, headers, body, auth, signing, client_certificate and keep_response")
		}
	}
	r.auth(&c, r.Fields["auth"])
	r.url(&c, r.Fields["url"])
	if c.cert != "" && c.url != nil && c.url.Scheme != "https" {
		r.Add("client_certificate", "it needs https", "begin the url with https://, or remove it")
	}
	r.body(&c, r.Fields["body"])
	return c, r.Err()
}

var methods = []string{
	http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodGet, http.MethodHead,
}

func (r *reader) method(c *config, raw json.RawMessage) {
	var text string
	if json.Unmarshal(raw, &text) != nil || !slices.Contains(methods, text) {
		r.Add("method", "it is not a supported method",
			"use one of "+strings.Join(methods, ", ")+", or leave it out: POST")
		return
	}
	c.method = text
}

// body reads the body. A string is sent as it is, so that users can send forms and XML. Any other value
// is sent as JSON.
func (r *reader) body(c *config, raw json.RawMessage) {
	if raw == nil || string(raw) == "null" {
		return
	}
	if c.bodiless() {
		r.Add("body", c.method+" has no body", "use POST, or remove it")
		return
	}
	c.hasBody, c.body = true, string(raw)
	if raw[0] != '"' {
		return
	}
	if json.Unmarshal(raw, &c.body) != nil {
		r.Add("body", "it is not a valid string", "write a string or any JSON")
		return
	}
	if _, typed := c.headers["Content-Type"]; !typed && c.body != "" && !json.Valid([]byte(c.body)) {
		r.Add("body", "it is not JSON, and nothing says what it is",
			"add a header Content-Type, for example text/plain")
	}
}

func (c *config) bodiless() bool { return c.method == http.MethodGet || c.method == http.MethodHead }
