package belfry

import (
	"context"
	"errors"
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

	base *url.URL
	doer *doer
}

// Self returns what the key of the client is: its name, namespace and role.
func (c *Client) Self(ctx context.Context, opts ...CallOption) (*Self, error) {
	return get[Self](ctx, c, "/self", nil, opts)
}

// Quotas returns what the operator of the cluster limits for the namespace, and how much of it is used. A request that
// would exceed a quota fails with the code quota_exceeded: see [CodeOf].
func (c *Client) Quotas(ctx context.Context, opts ...CallOption) ([]Quota, error) {
	return items[Quota](ctx, c, "/quotas", nil, opts)
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
	c := &Client{base: base, doer: d}
	c.Jobs, c.Runs, c.Queues, c.DeadLetters = Jobs{c}, Runs{c}, Queues{c}, DeadLetters{c}
	c.Operations, c.Secrets, c.Keys, c.Sessions = Operations{c}, Secrets{c}, Keys{c}, Sessions{c}
	return c, nil
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
