package archive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// Limits are how long one call of a store may take: Call, and the time for its bytes at the rate Slowest.
type Limits struct {
	Call    time.Duration
	Slowest int64 // bytes per second
}

// DefaultLimits let an object of 128 MB take some nine minutes.
var DefaultLimits = Limits{Call: time.Minute, Slowest: 256 << 10}

// Timed returns a store whose calls fail when they take too long. A server that accepts a connection and does not answer
// must not hold a day, or a command, without end.
func Timed(s Store, l Limits) Store { return &timed{s, l} }

type timed struct {
	store  Store
	limits Limits
}

// during returns a context for a call that moves this number of bytes.
func (t *timed) during(ctx context.Context, bytes int64) (context.Context, context.CancelFunc) {
	limit := t.limits.Call + time.Duration(bytes/t.limits.Slowest)*time.Second
	slow := fmt.Errorf("the object store did not answer within %s", limit)
	return context.WithTimeoutCause(ctx, limit, slow)
}

// explain adds the cause to the error of a call that took too long.
func explain(ctx context.Context, err error) error {
	if err == nil || !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return err
	}
	return fmt.Errorf("%w: %w", context.Cause(ctx), err)
}

func (t *timed) Put(ctx context.Context, name string, body io.ReadSeeker, size int64) error {
	ctx, cancel := t.during(ctx, size)
	defer cancel()
	return explain(ctx, t.store.Put(ctx, name, body, size))
}

// Get limits the call and the time until its body is read. Close ends both.
func (t *timed) Get(ctx context.Context, name string, offset, n int64) (io.ReadCloser, error) {
	ctx, cancel := t.during(ctx, n)
	body, err := t.store.Get(ctx, name, offset, n)
	if err != nil {
		defer cancel()
		return nil, explain(ctx, err)
	}
	return &timedBody{body, ctx, cancel}, nil
}

func (t *timed) Size(ctx context.Context, name string) (int64, error) {
	ctx, cancel := t.during(ctx, 0)
	defer cancel()
	n, err := t.store.Size(ctx, name)
	return n, explain(ctx, err)
}

func (t *timed) List(ctx context.Context, prefix, after string, limit int) ([]string, error) {
	ctx, cancel := t.during(ctx, 0)
	defer cancel()
	names, err := t.store.List(ctx, prefix, after, limit)
	return names, explain(ctx, err)
}

func (t *timed) Delete(ctx context.Context, name string) error {
	ctx, cancel := t.during(ctx, 0)
	defer cancel()
	return explain(ctx, t.store.Delete(ctx, name))
}

type timedBody struct {
	io.ReadCloser
	ctx    context.Context // of the call that opened it
	cancel context.CancelFunc
}

func (b *timedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		return n, io.EOF
	}
	return n, explain(b.ctx, err)
}

func (b *timedBody) Close() error {
	defer b.cancel()
	return b.ReadCloser.Close()
}
