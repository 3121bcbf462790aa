package nats

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/target/broker"
)

// Target publishes to streams. Safe for concurrent use.
type Target struct {
	*broker.Target[*config, *connection, *nats.Msg]
}

// New creates the target with its own connections.
func New(opts broker.Options) *Target {
	return &Target{broker.NewTarget(opts, parse, func(c *connection) { c.conn.Close() })}
}

// NewMessage implements broker.Settings.
func (c *config) NewMessage(ctx context.Context, o *broker.Options, a *job.Attempt) (*nats.Msg, error) {
	m, err := c.Message(ctx, o, a)
	if err != nil {
		return nil, err
	}
	subject, err := c.subject.Text(m.Facts)
	if err != nil {
		return nil, err
	}
	if !validSubject(subject) {
		return nil, errors.New("the result of subject cannot be published to: " +
			"words separated by dots, without spaces, * and >")
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

// Publish implements broker.Settings.
func (c *config) Publish(ctx context.Context, conn *connection, msg *nats.Msg) (out job.Outcome, broken bool) {
	// The client must not retry by itself: attempts are counted.
	future, err := conn.js.PublishMsgAsync(msg, jetstream.WithRetryAttempts(0), jetstream.WithStallWait(time.Second))
	if err != nil {
		return c.unsent(ctx, err)
	}
	select {
	case <-future.Ok():
		return c.Confirmed(), false
	case err := <-future.Err():
		return c.refused(ctx, err)
	case <-conn.broken:
		select { // a confirmation that came first counts
		case <-future.Ok():
			return c.Confirmed(), true
		default:
			return broker.Unconfirmed(ctx, c.Where(), broker.OwnError("the connection was lost")), true
		}
	case <-ctx.Done():
		return broker.Unconfirmed(ctx, c.Where(), ctx.Err()), false
	}
}

// unsent is the outcome if the message was not written.
func (c *config) unsent(ctx context.Context, err error) (out job.Outcome, broken bool) {
	out = job.Outcome{Kind: job.Failed}
	switch {
	case errors.Is(err, nats.ErrMaxPayload):
		out.Message = "the message is larger than the server takes (max_payload); send less, or raise it there"
	case errors.Is(err, jetstream.ErrTooManyStalledMsgs):
		out.Retryable = true
		out.Message = c.Where() + " is behind with confirming messages; see whether it is overloaded"
	default:
		return broker.Unconnected(ctx, c.Where(), err), true
	}
	return out, false
}

// refused is the outcome if the stream rejected the message.
func (c *config) refused(ctx context.Context, err error) (job.Outcome, bool) {
	var api *jetstream.APIError
	out := job.Outcome{Kind: job.Failed}
	switch {
	case errors.Is(err, nats.ErrNoResponders), errors.Is(err, jetstream.ErrNoStreamResponse):
		out.Retryable = true
		out.Message = "no stream takes this subject; create one that does, or check the subject"
	case errors.As(err, &api):
		const tooLarge, otherStream, sealed = 10054, 10060, 10109
		out.Status = api.Code
		out.Retryable = api.ErrorCode != tooLarge && api.ErrorCode != otherStream && api.ErrorCode != sealed
		out.Message = broker.Clean("the stream refused the message: " + broker.Redact(ctx, api.Description))
	default:
		return broker.Unconfirmed(ctx, c.Where(), err), true
	}
	return out, false
}
