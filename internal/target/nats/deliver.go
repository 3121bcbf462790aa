package nats

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/target/broker"
)

// Target publishes to streams. Safe for concurrent use.
type Target struct {
	opts    broker.Options
	configs broker.Cache[*config]
	pool    broker.Pool[*connection]
}

// New makes the target with connections of its own.
func New(opts broker.Options) *Target {
	return &Target{
		opts: opts, configs: broker.Cache[*config]{Make: parse},
		pool: broker.Pool[*connection]{Shut: func(c *connection) { c.conn.Close() }},
	}
}

// Close lets go of connections.
func (t *Target) Close() { t.pool.Close() }

// Deliver publishes one message and waits until the stream has confirmed it.
func (t *Target) Deliver(ctx context.Context, a job.Attempt) job.Outcome {
	return broker.Deliver(ctx, &a, &t.configs, func(ctx context.Context, c *config) job.Outcome { return t.deliver(ctx, c, &a) })
}

func (t *Target) deliver(ctx context.Context, c *config, a *job.Attempt) job.Outcome {
	m, err := c.message(ctx, &t.opts, a)
	if err != nil {
		return broker.Mend(err)
	}
	lease, err := t.lease(ctx, c, a)
	if err != nil {
		return broker.Unconnected(ctx, c.Where(), err)
	}
	out, broken := c.publish(ctx, lease.Conn, m)
	lease.Release(broken)
	return out
}

// lease a connection with what the config names.
func (t *Target) lease(ctx context.Context, c *config, a *job.Attempt) (*broker.Lease[*connection], error) {
	token, err := broker.ReadSecret(ctx, &t.opts, a.Namespace, c.token)
	if err != nil {
		return nil, fmt.Errorf("token: %w", err)
	}
	credentials, err := broker.ReadSecret(ctx, &t.opts, a.Namespace, c.credentials)
	if err != nil {
		return nil, fmt.Errorf("credentials: %w", err)
	}
	if _, err := nkeys.ParseDecoratedUserNKey([]byte(credentials)); credentials != "" && err != nil {
		return nil, &broker.FinalError{Err: errors.New("the secret that credentials names is not the text of a .creds file of a user; store that")}
	}
	access, err := c.Access(ctx, &t.opts, a.Namespace, token, credentials)
	if err != nil {
		return nil, err
	}
	return t.pool.Get(ctx, access.Key, t.open(access, token, credentials))
}

func (c *config) message(ctx context.Context, o *broker.Options, a *job.Attempt) (*nats.Msg, error) {
	m, err := c.Message(ctx, o, a)
	if err != nil {
		return nil, err
	}
	subject, err := c.subject.Text(m.Facts)
	if err != nil {
		return nil, err
	}
	if !validSubject(subject) {
		return nil, errors.New("subject gave a text that cannot be published to: texts separated by dots, without spaces, * and >")
	}
	msg := &nats.Msg{Subject: subject, Data: []byte(a.Payload), Header: make(nats.Header, len(m.Headers)+2)}
	for _, h := range m.Headers {
		msg.Header[h.Name] = []string{h.Value}
	}
	msg.Header[jetstream.MsgIDHeader] = []string{m.Facts.IdempotencyKey}
	if c.stream != "" {
		msg.Header[jetstream.ExpectedStreamHeader] = []string{c.stream}
	}
	return msg, nil
}

// publish hands a message over and waits for what becomes of it. broken: the
// connection is of no more use.
func (c *config) publish(ctx context.Context, conn *connection, msg *nats.Msg) (out job.Outcome, broken bool) {
	// Without tries of its own: they are Belfry's, and counted.
	future, err := conn.js.PublishMsgAsync(msg, jetstream.WithRetryAttempts(0), jetstream.WithStallWait(time.Second))
	if err != nil {
		return c.unsent(ctx, err)
	}
	select {
	case <-future.Ok():
		return c.Done(), false
	case err := <-future.Err():
		return c.refused(ctx, err)
	case <-conn.broken:
		select { // what came before it broke counts
		case <-future.Ok():
			return c.Done(), true
		default:
			return broker.Unconfirmed(ctx, c.Where(), broker.OwnError("the connection was lost")), true
		}
	case <-ctx.Done():
		return broker.Unconfirmed(ctx, c.Where(), ctx.Err()), false
	}
}

// unsent is what it means that a message was not even written.
func (c *config) unsent(ctx context.Context, err error) (job.Outcome, bool) {
	switch {
	case errors.Is(err, nats.ErrMaxPayload):
		return job.Outcome{Kind: job.Failed, Message: "the message is larger than the server takes (max_payload); send less, or raise it there"}, false
	case errors.Is(err, jetstream.ErrTooManyStalledMsgs):
		return job.Outcome{Kind: job.Failed, Retryable: true, Message: c.Where() + " is behind with confirming messages; see whether it is overloaded"}, false
	default:
		return broker.Unconnected(ctx, c.Where(), err), true
	}
}

// refused is what it means that the stream said no.
func (c *config) refused(ctx context.Context, err error) (job.Outcome, bool) {
	var api *jetstream.APIError
	out := job.Outcome{Kind: job.Failed}
	switch {
	case errors.Is(err, nats.ErrNoResponders), errors.Is(err, jetstream.ErrNoStreamResponse):
		out.Retryable = true
		out.Message = "no stream takes this subject; make one that does, or check the subject"
	case errors.As(err, &api):
		const tooLarge, otherStream, sealed = 10054, 10060, 10109
		out.Status = api.Code
		out.Retryable = api.ErrorCode != tooLarge && api.ErrorCode != otherStream && api.ErrorCode != sealed
		out.Message = broker.Clean("the stream refused the message: " + broker.Said(ctx, api.Description))
	default:
		return broker.Unconfirmed(ctx, c.Where(), err), true
	}
	return out, false
}

// openTimeout is what is left of the pool's.
func openTimeout(ctx context.Context) time.Duration {
	if until, ok := ctx.Deadline(); ok {
		return max(time.Until(until), time.Millisecond) //nolint:forbidigo // it bounds a client that takes no context
	}
	return broker.FallbackTimeout
}
