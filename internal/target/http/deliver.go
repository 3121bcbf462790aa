package http

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/target/gate"
	"github.com/belfry-dev/belfry/internal/target/guard"
)

const (
	// headSize is how much of a failure's answer is looked at. It is more than is
	// shown, as blotting out secrets shortens it.
	headSize = 4 << 10
	// maxDrain is how much of an answer is read so that its connection can be used
	// again. Beyond it a new connection is cheaper.
	maxDrain = 256 << 10
	// fallbackTimeout is for attempts that come without one.
	fallbackTimeout = 30 * time.Second
)

// Target calls URLs. Safe for concurrent use.
type Target struct {
	opts      Options
	transport *http.Transport
	personal  transports // with client certificates
	configs   cache
}

// New makes the target with connections of its own.
func New(opts Options) *Target {
	if opts.Now == nil {
		opts.Now = clock.Now
	}
	if opts.Gate == nil {
		opts.Gate = gate.New(gate.Options{})
	}
	return &Target{opts: opts, transport: newTransport(opts), configs: cache{most: maxCached, mostBytes: maxCachedBytes}}
}

// Close lets go of idle connections.
func (t *Target) Close() {
	t.transport.CloseIdleConnections()
	t.personal.close()
}

// Deliver sends one request and says what its answer means: see doc.go. The
// transport is called without an http.Client: redirects and cookies are what the
// client would add.
func (t *Target) Deliver(ctx context.Context, a job.Attempt) job.Outcome {
	c, err := t.configs.get(a.Config)
	if err != nil {
		// It was checked when the job was saved: by a version with other rules.
		return job.Outcome{Kind: job.Failed, Message: clean("the target's config is not valid, mend the job: "+err.Error(), maxSnippet)}
	}
	timeout := a.Timeout
	if timeout <= 0 {
		timeout = fallbackTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	do, failed := t.prepare(ctx, c, &a)
	if failed != nil {
		return *failed
	}
	pass, deferred := t.opts.Gate.Enter(ctx, gate.Destination{Namespace: a.Namespace, Host: c.origin})
	if deferred != nil {
		return *deferred
	}
	out, err := do.send(ctx, timeout)
	pass.Leave(verdict(ctx, out, err))
	return out
}

// verdict is what a delivery says about its host: an answer means that it works,
// unless what answered is a proxy in front of one that does not.
func verdict(ctx context.Context, out job.Outcome, err error) gate.Result {
	switch {
	case errors.Is(ctx.Err(), context.Canceled), errors.Is(err, guard.ErrRefused):
		return gate.Neutral
	case err != nil, out.Status == http.StatusBadGateway, out.Status == http.StatusServiceUnavailable, out.Status == http.StatusGatewayTimeout:
		return gate.Bad
	default:
		return gate.Good
	}
}

// send makes the request. An error is one of the connection; the outcome has it too.
func (d *delivery) send(ctx context.Context, timeout time.Duration) (job.Outcome, error) {
	resp, err := d.via.RoundTrip(d.req)
	if err != nil {
		return d.unanswered(ctx, timeout, err), err
	}
	defer func() { _ = resp.Body.Close() }() // reading it told all there is to know
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

// buffers are for reading answers: most are small, and all are thrown away.
var buffers = sync.Pool{New: func() any { return new([headSize]byte) }}

// drain reads an answer to its end or to maxDrain. An error is one of the
// connection: the answer broke off.
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

// head reads the beginning of an answer, and drains the rest. An error is one of
// the connection: the answer broke off.
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
	text := d.show(buf[:n])
	switch {
	case err == nil:
		err = drain(resp)
	case errors.Is(err, io.EOF):
		err = nil
	}
	return text, err
}
