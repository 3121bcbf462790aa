package belfry

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"
)

// timeout of one request, unless the context ends before. The server's own limit is 60 s.
const timeout = 90 * time.Second

// Client calls the API. Safe for concurrent use.
type Client struct {
	Jobs        Jobs
	Runs        Runs
	Queues      Queues
	DeadLetters DeadLetters
	Operations  Operations
	Secrets     Secrets
	Keys        Keys
	Sessions    Sessions

	api  *ClientWithResponses
	base *url.URL
	doer *doer
}

// Generated returns the generated client, which has a method for each operation of the API.
func (c *Client) Generated() *ClientWithResponses { return c.api }

// Self returns what the key of the client is: its name, namespace and role.
func (c *Client) Self(ctx context.Context, opts ...CallOption) (*Self, error) {
	r, err := c.api.GetSelfWithResponse(ctx, opts...)
	if err != nil {
		return nil, err
	}
	return result(r.JSON200, r)
}

// Quotas returns what the operator of the cluster limits for the namespace, and how much of it is used. A request that
// would exceed a quota fails with the code quota_exceeded: see [CodeOf].
func (c *Client) Quotas(ctx context.Context, opts ...CallOption) ([]Quota, error) {
	r, err := c.api.ListQuotasWithResponse(ctx, opts...)
	if err != nil {
		return nil, err
	}
	list, err := result(r.JSON200, r)
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// Option changes how a Client works.
type Option func(*doer)

// HTTPClient sets the client that sends requests, for your own proxies and certificates.
func HTTPClient(c *http.Client) Option { return func(d *doer) { d.http = c } }

// UserAgent names your program in the server's log.
func UserAgent(name string) Option { return func(d *doer) { d.agent = name } }

// Tries sets how often a request is sent at most, including the first time, if it is safe to repeat.
// Default 4.
func Tries(n int) Option { return func(d *doer) { d.tries = max(n, 1) } }

// Insecure allows a server on another machine without TLS, for use where something else protects the connection.
func Insecure() Option { return func(d *doer) { d.insecure = true } }

// ErrInsecure means that the key would cross a network in clear text.
var ErrInsecure = errors.New("belfry: the server is on another machine, and http would send the key to it in clear text; " +
	"use https, or the option Insecure if something else protects the connection")

// onThisMachine reports whether requests to a host do not cross a network.
func onThisMachine(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// noRedirect refuses to follow a redirect, which would send the key to another address. Belfry sends none.
func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// New creates a Client for a server, such as https://belfry.example.com, and an API key (bfk_…). A server on another
// machine needs https: see [Insecure].
func New(server, key string, opts ...Option) (*Client, error) {
	server = strings.TrimSuffix(strings.TrimRight(server, "/"), "/api/v1")
	base, err := url.Parse(strings.TrimRight(server, "/"))
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
		return nil, errors.New("belfry: the server must be a URL, " +
			"such as https://belfry.example.com or http://localhost:8420")
	}
	if key == "" || strings.ContainsAny(key, " \r\n") {
		return nil, errors.New("belfry: the key is missing or not valid; create one with belfry key create")
	}
	d := &doer{
		http: &http.Client{Timeout: timeout, Transport: transport(), CheckRedirect: noRedirect},
		key:  key, agent: "belfry-go", tries: 4,
	}
	for _, o := range opts {
		o(d)
	}
	if base.Scheme == "http" && !d.insecure && !onThisMachine(base.Hostname()) {
		return nil, ErrInsecure
	}
	api, err := NewClientWithResponses(base.String(), WithHTTPClient(d))
	if err != nil {
		return nil, fmt.Errorf("belfry: %w", err)
	}
	return &Client{
		Jobs: Jobs{api}, Runs: Runs{api}, Queues: Queues{api}, DeadLetters: DeadLetters{api},
		Operations: Operations{api}, Secrets: Secrets{api}, Keys: Keys{api}, Sessions: Sessions{api},
		api: api, base: base, doer: d,
	}, nil
}

// transport returns the default transport, with more idle connections: a worker polls, reports and sends
// heartbeats at the same time.
func transport() http.RoundTripper {
	t, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return http.DefaultTransport
	}
	t = t.Clone()
	t.MaxIdleConnsPerHost = 16
	// Without pings, requests would use a connection to a machine that is gone for many minutes.
	t.HTTP2 = &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 5 * time.Second}
	return t
}

// Request is a request for Call.
type Request struct {
	Method string
	Path   string // below /api/v1; escape names in it with PathEscape
	Query  url.Values
	Body   any // sent as JSON; a []byte is sent unchanged
	Header map[string]string
}

// Call sends a request, for operations that this version of the client has no method for. It decodes the
// response body into out, unless out is nil. A *[]byte receives the body unchanged.
func (c *Client) Call(ctx context.Context, q Request, out any) error {
	r, err := c.request(ctx, q)
	if err != nil {
		return fmt.Errorf("belfry: %w", err)
	}
	response, err := c.doer.Do(r)
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
