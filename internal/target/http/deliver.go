package http

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"sync"
	"time"

	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/target/gate"
	"github.com/belfry-dev/belfry/internal/target/guard"
	"github.com/belfry-dev/belfry/internal/target/message"
	"github.com/belfry-dev/belfry/internal/target/settings"
)

const (
	// headSize is how much of a failed response is read. It is more than is shown, because redacting
	// secrets shortens it.
	headSize = 4 << 10
	// maxDrain is how much of a response is read so that its connection can be reused. Beyond that a new
	// connection is cheaper.
	maxDrain = 256 << 10
	// fallbackTimeout is for attempts without a timeout.
	fallbackTimeout = 30 * time.Second
)

// Target sends requests to URLs. Safe for concurrent use.
type Target struct {
	opts      Options
	transport *http.Transport
	own       ownTransports // for requests that share no connection with others
	configs   settings.Cache[*compiled]
}

// New creates the target with its own connections.
func New(opts Options) *Target {
	if opts.Now == nil {
		opts.Now = clock.Now
	}
	if opts.Gate == nil {
		opts.Gate = gate.New(gate.Options{})
	}
	return &Target{opts: opts, transport: newTransport(opts), configs: settings.Cache[*compiled]{Parse: compile}}
}

// Close closes idle connections.
func (t *Target) Close() {
	t.transport.CloseIdleConnections()
	t.own.close()
}

// Deliver sends one request and returns what its response means: see the package page. It calls the
// transport without an http.Client, which would add redirects and cookies.
func (t *Target) Deliver(ctx context.Context, a job.Attempt) job.Outcome {
	c, err := t.configs.Get(a.Config)
	if err != nil {
		// The config was valid when the job was saved: the version that checked it had other rules.
		return job.Outcome{
			Kind:    job.Failed,
			Message: message.Clean("the target's config is not valid, fix the job: "+err.Error(), maxSnippet),
		}
	}
	timeout := a.Timeout
	if timeout <= 0 {
		timeout = fallbackTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	d, failed := t.prepare(ctx, c, &a)
	if failed != nil {
		return *failed
	}
	pass, deferred := t.opts.Gate.Enter(ctx, gate.Destination{Namespace: a.Namespace, Host: c.origin})
	if deferred != nil {
		return *deferred
	}
	result := gate.Neutral // if the client panics
	defer func() { pass.Leave(result) }()
	out, err := d.send(ctx, timeout)
	result = hostResult(ctx, out, err)
	return out
}

// hostResult returns what a delivery says about its host. Any response means that the host works, except
// those of a proxy in front of a host that does not.
func hostResult(ctx context.Context, out job.Outcome, err error) gate.Result {
	if errors.Is(ctx.Err(), context.Canceled) || errors.Is(err, guard.ErrRefused) {
		return gate.Neutral
	}
	if err != nil {
		return gate.Bad
	}
	switch out.Status {
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return gate.Bad
	default:
		return gate.Good
	}
}

// send sends the request. It returns an error if the connection failed; the outcome reflects it too.
func (d *delivery) send(ctx context.Context, timeout time.Duration) (job.Outcome, error) {
	var expected expecting
	defer expected.end()
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: expected.begin})
	resp, err := d.transport.RoundTrip(d.req.WithContext(traced))
	if err != nil {
		return d.unanswered(ctx, timeout, err), err
	}
	defer func() { _ = resp.Body.Close() }() // reading it has reported any error
	if resp.StatusCode/100 != 2 {
		return d.refused(resp), nil
	}
	out := job.Outcome{Kind: job.Succeeded, Status: resp.StatusCode}
	if resp.StatusCode == http.StatusAccepted {
		out.Kind = job.Accepted
	}
	if d.keep {
		out.Message, err = d.head(resp)
	} else {
		err = drain(resp)
	}
	if err != nil {
		out = d.unanswered(ctx, timeout, err)
		out.Status = resp.StatusCode
	}
	return out, err
}

// buffers are for reading responses, most of which are small and all of which are discarded.
var buffers = sync.Pool{New: func() any { return new([headSize]byte) }}

// drain reads a response to its end, or up to maxDrain. It returns an error if the response broke off.
func drain(resp *http.Response) error {
	if resp.Body == http.NoBody || resp.ContentLength > maxDrain {
		return nil
	}
	buf := buffers.Get().(*[headSize]byte)
	defer buffers.Put(buf)
	for total := 0; total < maxDrain; {
		n, err := resp.Body.Read(buf[:])
		total += n
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// head returns the beginning of a response and drains the rest. It returns an error if the response
// broke off.
func (d *delivery) head(resp *http.Response) (string, error) {
	if resp.Body == http.NoBody || resp.StatusCode == http.StatusSwitchingProtocols {
		return "", nil
	}
	buf := buffers.Get().(*[headSize]byte)
	defer buffers.Put(buf)
	n, err := 0, error(nil)
	for n < len(buf) && err == nil {
		var more int
		more, err = resp.Body.Read(buf[n:])
		n += more
	}
	text := d.show(buf[:n], !errors.Is(err, io.EOF))
	switch {
	case err == nil:
		err = drain(resp)
	case errors.Is(err, io.EOF):
		err = nil
	}
	return text, err
}
