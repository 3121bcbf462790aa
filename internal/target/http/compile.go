package http

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/belfry-dev/belfry/internal/job"
)

// compiled is a config made ready: what all its deliveries have in common. It is
// shared by them and never written.
type compiled struct {
	base    *http.Request
	headers http.Header
	body    string
	hasBody bool
	origin  string // how messages name the target: scheme and host
	secrets []string
}

func compile(text string) (*compiled, error) {
	c, err := parse([]byte(text))
	if err != nil {
		return nil, err
	}
	out := &compiled{
		// As http.NewRequest makes it, but once: parsing the URL is most of its work.
		base:    &http.Request{Method: c.method, URL: c.url, Host: c.url.Host, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1},
		headers: make(http.Header, len(c.headers)+1),
		body:    c.body, hasBody: c.hasBody || c.bodiless(),
		origin: c.url.Scheme + "://" + c.url.Host, secrets: secretsOf(&c),
	}
	for name, value := range c.headers {
		if name == "X-Idempotency-Key" {
			name = strings.ToLower(name) // net/http looks for this one too: see doc.go
		}
		out.headers[name] = []string{value}
	}
	if _, told := out.headers["User-Agent"]; !told {
		out.headers["User-Agent"] = userAgent
	}
	return out, nil
}

// request is the one of an attempt. It shares what is never written; the map of
// headers is its own and not used again, because net/http may still be writing
// it to the connection when the answer is already there.
func (c *compiled) request(ctx context.Context, a *job.Attempt) *http.Request {
	req := c.base.WithContext(ctx)
	values := []string{
		job.FormatRunID(a.Key), job.FormatJobID(a.Key.Job),
		a.Key.DueAt.UTC().Format(dueLayout), strconv.Itoa(int(a.Number)), a.Traceparent(), a.IdempotencyKey(),
	}
	h := make(http.Header, len(c.headers)+7)
	h[idempotencyKey], h[runID] = values[5:6:6], values[0:1:1]
	h[jobID], h[dueAt], h[attempt] = values[1:2:2], values[2:3:3], values[3:4:4]
	h[traceparent] = values[4:5:5]
	body := a.Payload
	if c.hasBody {
		body = c.body
	}
	if body != "" {
		h["Content-Type"] = jsonType
		// A strings.Reader in a NopCloser is what net/http knows to be in memory:
		// it then sends head and body in one write.
		req.Body = io.NopCloser(strings.NewReader(body))
		req.ContentLength = int64(len(body))
		// For connections that turn out to be closed before anything was sent.
		req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(body)), nil }
	}
	for name, value := range c.headers {
		h[name] = value
	}
	req.Header = h
	return req
}

// The bounds of the cache.
const (
	maxCached      = 10_000
	maxCachedBytes = 32 << 20 // of configs; what is made of them is about as much again
)

// cache keeps configs compiled, by their text: a changed config is another text,
// so nothing in it is ever out of date. When it is full it starts anew: that
// costs each config in use one parse, and needs no bookkeeping in each delivery.
type cache struct {
	most, mostBytes int

	mu    sync.RWMutex
	known map[string]*compiled
	bytes int
}

func (c *cache) get(text string) (*compiled, error) {
	c.mu.RLock()
	found := c.known[text]
	c.mu.RUnlock()
	if found != nil {
		return found, nil
	}
	made, err := compile(text)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == nil || len(c.known) >= c.most || c.bytes+len(text) > c.mostBytes {
		c.known, c.bytes = make(map[string]*compiled), 0
	}
	if _, raced := c.known[text]; !raced {
		c.known[text] = made
		c.bytes += len(text)
	}
	return made, nil
}
