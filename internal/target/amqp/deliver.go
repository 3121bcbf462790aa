package amqp

import (
	"context"
	"errors"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/target/broker"
)

// Target publishes to exchanges. Safe for concurrent use.
type Target struct {
	*broker.Target[*config, *connection, *message]
}

// message is what is published, with its routing key.
type message struct {
	key string
	msg amqp091.Publishing
}

// New creates the target with its own connections.
func New(opts broker.Options) *Target {
	return &Target{broker.NewTarget(opts, broker.Kind[*config, *connection, *message]{
		Name: form.Kind, Parse: parse, Open: open, Close: (*connection).close,
	})}
}

// NewMessage implements broker.Settings.
func (c *config) NewMessage(ctx context.Context, o *broker.Options, a *job.Attempt) (*message, error) {
	m, err := c.Message(ctx, o, a)
	if err != nil {
		return nil, err
	}
	key, err := c.routingKey.Text(m.Facts)
	if err != nil {
		return nil, err
	}
	if len(key) > maxShort {
		return nil, errors.New("routing_key gave more than 255 bytes")
	}
	msg := amqp091.Publishing{
		DeliveryMode: amqp091.Persistent, MessageId: m.Facts.IdempotencyKey, AppId: "belfry", Timestamp: a.Key.DueAt,
		Body: []byte(a.Payload), Headers: make(amqp091.Table, len(m.Headers)),
	}
	if a.Payload != "" {
		msg.ContentType = "application/json"
	}
	for _, h := range m.Headers {
		msg.Headers[h.Name] = h.Value
	}
	return &message{key, msg}, nil
}

// Publish implements broker.Settings.
func (c *config) Publish(ctx context.Context, conn *connection, m *message) (out job.Outcome, broken bool) {
	out = c.publish(ctx, conn, m)
	broken = conn.conn.IsClosed()
	// A message to an exchange that does not exist ends its channel, but the broker works.
	out.Down = out.Down && (broken || ctx.Err() != nil)
	return out, broken
}

// publish sends a message and waits for the confirmation, both within ctx.
func (c *config) publish(ctx context.Context, conn *connection, m *message) (out job.Outcome) {
	select {
	case conn.slots <- struct{}{}:
	case <-ctx.Done():
		return broker.NotTaken(ctx, c.Where())
	}
	s, settled := conn.send(c.exchange, m), false //nolint:contextcheck // the client ignores contexts
	defer func() { conn.put(s, settled) }()
	select {
	case <-s.done:
	case <-ctx.Done():
		if s.giveUp() {
			return broker.Unconfirmed(ctx, c.Where(), ctx.Err())
		}
		return broker.NotTaken(ctx, c.Where())
	}
	switch {
	case s.ch == nil, errors.Is(s.err, amqp091.ErrClosed): // closed before the whole message was written
		return broker.Unconnected(ctx, c.Where(), s.err)
	case s.err != nil:
		return c.channelClosed(ctx, s.err)
	}
	out, settled = c.confirmed(ctx, s)
	return out
}

// confirmed waits for the confirmation of a message.
func (c *config) confirmed(ctx context.Context, s *sending) (out job.Outcome, settled bool) {
	select {
	case <-s.response.Done():
	case <-ctx.Done():
		return broker.Unconfirmed(ctx, c.Where(), ctx.Err()), false
	}
	if !s.response.Acked() && s.ch.IsClosed() { // then the client refuses everything, in the broker's name
		select {
		case e := <-s.ch.closing:
			if e == nil { // it was closed before
				e = amqp091.ErrClosed
			}
			return c.channelClosed(ctx, e), false
		case <-ctx.Done():
			return broker.Unconfirmed(ctx, c.Where(), ctx.Err()), false
		}
	}
	select {
	case r := <-s.ch.returns: // the client has passed it on before the confirmation
		return job.Outcome{
			Kind: job.Failed,
			Message: broker.Clean("no queue is bound to the exchange for this routing key (" +
				broker.Redact(ctx, r.ReplyText) + "); bind one, then redrive the run"),
		}, true
	default:
	}
	if !s.response.Acked() {
		return job.Outcome{
			Kind: job.Failed, Retryable: true,
			Message: "the broker refused the message (nack): a queue is full or cannot be written to",
		}, true
	}
	return c.Confirmed(), true
}

// channelClosed is the outcome if the channel ended before a confirmation.
func (c *config) channelClosed(ctx context.Context, err error) job.Outcome {
	var e *amqp091.Error
	if errors.As(err, &e) && e.Server {
		switch e.Code {
		case amqp091.NotFound, amqp091.AccessRefused, amqp091.PreconditionFailed:
			return job.Outcome{
				Kind: job.Failed, Status: e.Code,
				Message: broker.Clean("the broker refused the message: " + broker.Redact(ctx, e.Reason) +
					"; fix the exchange or its rights, then redrive the run"),
			}
		}
	}
	return broker.Unconfirmed(ctx, c.Where(), err)
}
