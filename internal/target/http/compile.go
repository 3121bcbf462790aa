package http

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/trace"
)

// compiled is what all deliveries of a config have in common. They share it, and it is never written.
type compiled struct {
	base    *http.Request
	headers http.Header
	body    string
	hasBody bool
	origin  string // how messages name the target: scheme and host
	secrets []string
	use     access.SecretUse

	inURL    []string // names of secrets
	stored   []stored
	signing  string
	unsigned bool
	cert     string
	keep     bool
}

func compile(text string) (*compiled, error) {
	c, err := parse([]byte(text))
	if err != nil {
		return nil, err
	}
	out := &compiled{
		// Like http.NewRequest, but only once: parsing the URL is most of its work.
		base: &http.Request{
			Method: c.method, URL: c.url, Host: c.url.Host, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		},
		headers: make(http.Header, len(c.headers)+1),
		body:    c.body, hasBody: c.hasBody || c.bodiless(),
		origin: c.url.Scheme + "://" + c.url.Host, secrets: secretsOf(&c), use: c.use(),
		inURL: c.inURL, stored: c.stored, signing: c.signing, unsigned: c.unsigned, cert: c.cert, keep: c.keep,
	}
	for name, value := range c.headers {
		if name == "X-Idempotency-Key" {
			name = strings.ToLower(name) // net/http looks for this one too: see the package page
		}
		out.headers[name] = []string{value}
	}
	if _, set := out.headers["User-Agent"]; !set {
		out.headers["User-Agent"] = userAgent
	}
	return out, nil
}

// request returns the request of an attempt, and its body. It shares what is never written. The map of
// headers is not reused, because net/http may still be writing it to the connection when the response has
// already arrived.
func (c *compiled) request(ctx context.Context, a *job.Attempt) (*http.Request, string) {
	req := c.base.WithContext(ctx)
	values := []string{
		job.FormatRunID(a.Key), job.FormatJobID(a.Key.Job),
		a.Key.DueAt.UTC().Format(dueLayout), strconv.Itoa(int(a.Number)), trace.Parent(a), a.IdempotencyKey(),
	}
	h := make(http.Header, len(c.headers)+12)
	h[idempotencyKey], h[runID] = values[5:6:6], values[0:1:1]
	h[jobID], h[dueAt], h[attempt] = values[1:2:2], values[2:3:3], values[3:4:4]
	h[traceparent] = values[4:5:5]
	body := a.Payload
	if c.hasBody {
		body = c.body
	}
	req.Header = h
	if body != "" {
		setBody(req, body)
	}
	for name, value := range c.headers {
		h[name] = value
	}
	return req, body
}

func setBody(req *http.Request, body string) {
	req.Header["Content-Type"] = jsonType
	// net/http recognises a strings.Reader in a NopCloser and then sends headers and body in one write.
	req.Body = io.NopCloser(strings.NewReader(body))
	req.ContentLength = int64(len(body))
	// For connections that are closed before anything was sent.
	req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(body)), nil }
}
