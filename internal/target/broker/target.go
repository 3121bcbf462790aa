package broker

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/target/gate"
	"github.com/belfry-dev/belfry/internal/target/secret"
	"github.com/belfry-dev/belfry/internal/target/settings"
)

// Settings is the parsed config of one kind of broker, with messages M and connections N. It embeds [Config].
type Settings[N, M any] interface {
	// Common returns the settings that all brokers have.
	Common() *Config
	// NewMessage builds the message of an attempt. An error is a permanent failure.
	NewMessage(ctx context.Context, o *Options, a *job.Attempt) (M, error)
	// Publish sends a message and waits until the broker confirms it. broken says that the connection must
	// not be used any more.
	Publish(ctx context.Context, conn N, m M) (out job.Outcome, broken bool)
}

// Kind is a kind of broker.
type Kind[C Settings[N, M], N, M any] struct {
	Name  string
	Parse func(text string) (C, error)
	Open  func(ctx context.Context, b *access.Broker) (N, error)
	Close func(N)
}

// Target delivers to one kind of broker. Safe for concurrent use.
type Target[C Settings[N, M], N, M any] struct {
	kind    Kind[C, N, M]
	opts    Options
	configs settings.Cache[C]
	pool    Pool[N]
}

// NewTarget creates a target with its own connections.
func NewTarget[C Settings[N, M], N, M any](opts Options, kind Kind[C, N, M]) *Target[C, N, M] {
	if opts.Gate == nil {
		opts.Gate = gate.New(gate.Options{})
	}
	return &Target[C, N, M]{
		kind: kind, opts: opts, configs: settings.Cache[C]{Parse: kind.Parse}, pool: Pool[N]{CloseConn: kind.Close},
	}
}

// Close closes all connections.
func (t *Target[C, N, M]) Close() { t.pool.Close() }

// Check reports what is wrong with a config: see target.Target.
func (t *Target[C, N, M]) Check(raw json.RawMessage) error {
	_, err := t.configs.Parse(string(raw))
	return err
}

// Broker returns the name of the broker of a valid config.
func (t *Target[C, N, M]) Broker(raw json.RawMessage) string {
	c, err := t.configs.Parse(string(raw))
	if err != nil {
		return ""
	}
	return c.Common().Broker
}

// Uses returns the secrets of a config: see target.Target.
func (t *Target[C, N, M]) Uses(raw json.RawMessage) secret.Uses {
	c, err := t.configs.Parse(string(raw))
	if err != nil {
		return secret.Uses{}
	}
	return c.Common().Uses()
}

// Deliver publishes one message and waits until the broker has confirmed it.
func (t *Target[C, N, M]) Deliver(ctx context.Context, a job.Attempt) job.Outcome {
	if ctx.Err() != nil {
		return Stopping()
	}
	c, err := t.configs.Get(a.Config)
	if err != nil {
		return Misconfigured(err)
	}
	timeout := a.Timeout
	if timeout <= 0 {
		timeout = FallbackTimeout
	}
	ctx, cancel := context.WithTimeout(collectSecrets(ctx), timeout)
	defer cancel()
	m, err := c.NewMessage(ctx, &t.opts, &a)
	if err != nil {
		return Misconfigured(err)
	}
	b, refused := t.broker(ctx, c.Common(), &a)
	if refused != nil {
		return *refused
	}
	pass, deferred := t.opts.Gate.Enter(ctx, gate.Destination{Namespace: a.Namespace, Host: c.Common().Where()})
	if deferred != nil {
		return *deferred
	}
	result := gate.Neutral // also if the client panics
	defer func() { pass.Leave(result) }()
	out := t.publish(ctx, c, b, m)
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
	case out.Down:
		result = gate.Bad
	default: // a broker that rejects a message works
		result = gate.Good
	}
	return out
}

// broker returns the broker of an attempt, or why it cannot be used.
func (t *Target[C, N, M]) broker(ctx context.Context, c *Config, a *job.Attempt) (*access.Broker, *job.Outcome) {
	b, err := t.opts.Brokers.Broker(ctx, a.Namespace, c.Broker)
	var out job.Outcome
	switch uses := c.Uses(); {
	case err != nil:
		out = noBroker(c, err)
	case b.Kind != t.kind.Name:
		out = unsent(c.Where() + " is of kind " + b.Kind + "; name another one, or let the operator correct it: belfry broker set")
	case t.opts.Encrypted && (ClearLogin(b) || Clear(b) && len(uses.All()) > 0):
		out = unsent(c.Where() + " has no TLS, and a secret would be sent over the network without encryption, which this " +
			"server does not allow (setting targets.secrets_in_clear)")
	default:
		record(ctx, b.Credentials.Values()...)
		return b, nil
	}
	return nil, &out
}

// publish sends a message on a shared connection.
func (t *Target[C, N, M]) publish(ctx context.Context, c C, b *access.Broker, m M) (out job.Outcome) {
	where := c.Common().Where()
	key, err := keyOf(b)
	if err != nil {
		return Unconnected(ctx, where, err)
	}
	lease, err := t.pool.Get(ctx, key, func(ctx context.Context) (N, error) { return t.kind.Open(ctx, b) })
	if err != nil {
		return Unconnected(ctx, where, err)
	}
	broken := true // if the client panics
	defer func() { lease.Release(broken) }()
	out, broken = c.Publish(ctx, lease.Conn, m)
	return out
}

// ShareTime returns how long each of n servers may take.
func ShareTime(n int) time.Duration { return OpenTimeout / time.Duration(max(n, 1)) }
