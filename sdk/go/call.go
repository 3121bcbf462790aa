package belfry

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Request is a request for Call.
type Request struct {
	Method string
	Path   string // below /api/v1; escape names in it with PathEscape
	Query  url.Values
	Body   any // sent as JSON; a []byte is sent unchanged
	Header map[string]string
}

// Call sends a request, for operations that the client has no method for. It decodes the response body into out, unless
// out is nil. A *[]byte receives the body unchanged.
func (c *Client) Call(ctx context.Context, q Request, out any) error {
	r, err := c.request(ctx, q)
	if err != nil {
		return fmt.Errorf("belfry: %w", err)
	}
	response, err := c.doer.do(r)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return fmt.Errorf("belfry: read the response: %w", err)
	}
	switch out := out.(type) {
	case nil:
		return nil
	case *[]byte:
		*out = text
		return nil
	}
	if err := json.Unmarshal(text, out); err != nil {
		return fmt.Errorf("belfry: the response to %s %s is not what this client expects; is %s a Belfry server? %w",
			q.Method, q.Path, c.base.Redacted(), err)
	}
	return nil
}

func (c *Client) request(ctx context.Context, q Request) (*http.Request, error) {
	body, raw := q.Body.([]byte)
	if q.Body != nil && !raw {
		var err error
		if body, err = json.Marshal(q.Body); err != nil {
			return nil, err
		}
	}
	to := c.base.String() + "/api/v1" + q.Path
	if len(q.Query) > 0 {
		to += "?" + q.Query.Encode()
	}
	r, err := http.NewRequestWithContext(ctx, q.Method, to, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if q.Body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	for name, value := range q.Header {
		r.Header.Set(name, value)
	}
	return r, nil
}

// PathEscape escapes a name for use in a path. It also escapes colons, because a colon separates a verb such
// as :pause.
func PathEscape(name string) string { return strings.ReplaceAll(url.PathEscape(name), ":", "%3A") }

// IfMatch returns the If-Match header for a version of a job. If the job has another version by then, the
// server rejects the change with the code precondition_failed.
func IfMatch(version int32) string { return fmt.Sprintf(`"%d"`, version) }

// CallOption changes a single call, for example IfVersion.
type CallOption func(*Request)

// IfVersion makes the server reject a change of a job with the code precondition_failed if the job has another version
// by then.
func IfVersion(version int32) CallOption { return header("If-Match", IfMatch(version)) }

// IdempotencyKey identifies a request. If the server receives a request with the same key again within 24 hours, it
// returns its first response and does nothing. Methods that create something generate a key for each call, so that the
// client can repeat the request. Set your own key to be able to repeat the call after your program was restarted.
func IdempotencyKey(key string) CallOption { return header(idempotencyKey, key) }

const idempotencyKey = "Idempotency-Key"

func header(name, value string) CallOption {
	return func(q *Request) {
		if q.Header == nil {
			q.Header = map[string]string{}
		}
		q.Header[name] = value
	}
}

// withKey puts a generated idempotency key before the options of a call, which may replace it.
func withKey(opts []CallOption) []CallOption {
	return append([]CallOption{IdempotencyKey(rand.Text())}, opts...)
}

// call sends a request with the options of a call.
func (c *Client) call(ctx context.Context, q Request, out any, opts []CallOption) error {
	for _, o := range opts {
		o(&q)
	}
	return c.Call(ctx, q, out)
}

// result sends a request, and returns the decoded response.
func result[T any](ctx context.Context, c *Client, q Request, opts []CallOption) (*T, error) {
	out := new(T)
	if err := c.call(ctx, q, out, opts); err != nil {
		return nil, err
	}
	return out, nil
}

// get reads what is at a path.
func get[T any](ctx context.Context, c *Client, path string, query url.Values, opts []CallOption) (*T, error) {
	return result[T](ctx, c, Request{Method: http.MethodGet, Path: path, Query: query}, opts)
}

// post sends a body, which may be nil, to a path.
func post[T any](ctx context.Context, c *Client, path string, body any, opts []CallOption) (*T, error) {
	return result[T](ctx, c, Request{Method: http.MethodPost, Path: path, Body: body}, opts)
}

// put replaces what is at a path.
func put[T any](ctx context.Context, c *Client, path string, body any, opts []CallOption) (*T, error) {
	return result[T](ctx, c, Request{Method: http.MethodPut, Path: path, Body: body}, opts)
}

// params returns parameters from pairs of names and values. Those with an empty value are not sent.
func params(pairs ...string) url.Values {
	out := url.Values{}
	for pair := range slices.Chunk(pairs, 2) {
		if pair[1] != "" {
			out.Set(pair[0], pair[1])
		}
	}
	return out
}

// instant writes a time as a parameter, which is empty for the zero time.
func instant(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}
