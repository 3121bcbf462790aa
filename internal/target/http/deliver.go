package http

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/belfry-dev/belfry/internal/job"
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
	transport *http.Transport
	configs   cache
}

// New makes the target with connections of its own.
func New(opts Options) *Target {
	return &Target{transport: newTransport(opts), configs: cache{most: maxCached, mostBytes: maxCachedBytes}}
}

// Close lets go of idle connections.
func (t *Target) Close() { t.transport.CloseIdleConnections() }

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
	resp, err := t.transport.RoundTrip(c.request(ctx, &a))
	if err != nil {
		return c.unanswered(ctx, timeout, err)
	}
	defer func() { _ = resp.Body.Close() }() // reading it told all there is to know
	if resp.StatusCode/100 != 2 {
		return c.refused(resp)
	}
	if err := drain(resp); err != nil {
		out := c.unanswered(ctx, timeout, err)
		out.Status = resp.StatusCode
		return out
	}
	if resp.StatusCode == http.StatusAccepted {
		return job.Outcome{Kind: job.Accepted, Status: resp.StatusCode}
	}
	return job.Outcome{Kind: job.Succeeded, Status: resp.StatusCode}
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

// head reads the beginning of a failure's answer, and drains the rest. That it
// broke off does not matter: the status is known.
func (c *compiled) head(resp *http.Response) string {
	if resp.Body == http.NoBody || resp.StatusCode == http.StatusSwitchingProtocols {
		return ""
	}
	buf := buffers.Get().(*[headSize]byte)
	defer buffers.Put(buf)
	n, err := io.ReadFull(resp.Body, buf[:])
	text := c.show(buf[:n])
	if err == nil {
		_ = drain(resp)
	}
	return text
}
