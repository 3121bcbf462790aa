package broker

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/target/gate"
	"github.com/belfry-dev/belfry/internal/target/guard"
	"github.com/belfry-dev/belfry/internal/target/secret"
	"github.com/belfry-dev/belfry/internal/target/settings"
)

// Settings is the parsed config of one kind of broker, with messages M and connections N.
type Settings[N, M any] interface {
	// Where names the broker in messages.
	Where() string
	// Uses returns the secrets of the config, and where it uses them.
	Uses() secret.Uses
	// NewMessage builds the message of an attempt. An error is a permanent failure.
	NewMessage(ctx context.Context, o *Options, a *job.Attempt) (M, error)
	// Connection returns how to open a connection, and the key of all that may share it.
	Connection(ctx context.Context, o *Options, namespace uuid.UUID) (key string, open OpenFunc[N], err error)
	// Publish sends a message and waits until the broker confirms it. broken says that the connection must
	// not be used any more.
	Publish(ctx context.Context, conn N, m M) (out job.Outcome, broken bool)
}

// How long a delivery waits if its namespace has no connection left.
const (
	fullPause    = 2 * time.Second
	maxFullPause = time.Minute
)

// OpenFunc opens a connection.
type OpenFunc[N any] func(ctx context.Context) (N, error)

// Target delivers to one kind of broker. Safe for concurrent use.
type Target[C Settings[N, M], N, M any] struct {
	opts    Options
	configs settings.Cache[C]
	pool    Pool[N]
}

// NewTarget creates a target with its own connections.
func NewTarget[C Settings[N, M], N, M any](
	opts Options, parse func(text string) (C, error), closeConn func(N),
) *Target[C, N, M] {
	if opts.Gate == nil {
		opts.Gate = gate.New(gate.Options{})
	}
	return &Target[C, N, M]{
		opts: opts, configs: settings.Cache[C]{Parse: parse}, pool: Pool[N]{CloseConn: closeConn},
	}
}

// Close closes all connections.
func (t *Target[C, N, M]) Close() { t.pool.Close() }

// Check reports what is wrong with a config: see target.Target.
func (t *Target[C, N, M]) Check(raw json.RawMessage) error {
	_, err := t.configs.Parse(string(raw))
	return err
}

// Uses returns the secrets of a config: see target.Target.
func (t *Target[C, N, M]) Uses(raw json.RawMessage) secret.Uses {
	c, err := t.configs.Parse(string(raw))
	if err != nil {
		return secret.Uses{}
	}
	return c.Uses()
}

// Deliver publishes one message and waits until the broker has confirmed it.
func (t *Target[C, N, M]) Deliver(ctx context.Context, a job.Attempt) job.Outcome {
	return Deliver(ctx, &a, &t.configs, func(ctx context.Context, c C) job.Outcome {
		m, err := c.NewMessage(ctx, &t.opts, &a)
		if err != nil {
			return Misconfigured(err)
		}
		opts := t.opts
		if g, ok := opts.Dialer.(*guard.Guard); ok {
			if opts.Dialer, err = g.For(ctx, a.Namespace); err != nil {
				return job.Outcome{Kind: job.Failed, Retryable: true, Message: Clean("not sent: " + err.Error())}
			}
		}
		key, open, err := c.Connection(ctx, &opts, a.Namespace)
		if err != nil {
			return Unconnected(ctx, c.Where(), err)
		}
		pass, deferred := t.opts.Gate.Enter(ctx, gate.Destination{Namespace: a.Namespace, Host: c.Where()})
		if deferred != nil {
			return *deferred
		}
		result := gate.Neutral // also if the client panics
		defer func() { pass.Leave(result) }()
		lease, err := t.pool.Get(ctx, a.Namespace, key, open)
		switch {
		case errors.Is(err, ErrFull):
			return noConnection(c.Where(), a.Number)
		case err != nil:
			out := Unconnected(ctx, c.Where(), err)
			if out.Down {
				result = gate.Bad
			}
			return out
		}
		broken := true // if the client panics
		defer func() { lease.Release(broken) }()
		var out job.Outcome
		out, broken = c.Publish(ctx, lease.Conn, m)
		result = hostResult(ctx, out)
		return out
	})
}

// noConnection defers a delivery because its namespace has no connection left. It waits longer each time.
func noConnection(where string, attempt int16) job.Outcome {
	wait := min(time.Duration(max(attempt, 1))*fullPause, maxFullPause)
	return job.Outcome{
		Kind: job.Deferred, RetryAfter: wait/2 + rand.N(wait/2), //nolint:gosec // to spread them
		Message: Clean(where + ": " + ErrFull.Error()),
	}
}

// hostResult returns what a message that was passed to a broker says about it.
func hostResult(ctx context.Context, out job.Outcome) gate.Result {
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return gate.Neutral
	case out.Down:
		return gate.Bad
	default:
		return gate.Good
	}
}

// Deliver parses the config of an attempt and calls send, with a context that ends with the attempt's
// timeout and that collects the secrets to redact.
func Deliver[C any](
	ctx context.Context, a *job.Attempt, configs *settings.Cache[C], send func(context.Context, C) job.Outcome,
) job.Outcome {
	if ctx.Err() != nil {
		return Stopping()
	}
	c, err := configs.Get(a.Config)
	if err != nil {
		return Misconfigured(err)
	}
	timeout := a.Timeout
	if timeout <= 0 {
		timeout = FallbackTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return send(collectSecrets(ctx), c)
}
