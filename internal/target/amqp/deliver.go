package amqp

import (
	"context"
	"errors"
	"fmt"

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
	key  string
	msg  amqp091.Publishing
	size int // bytes, about
}

// New creates the target with its own connections.
func New(opts broker.Options) *Target {
	return &Target{broker.NewTarget(opts, parse, (*connection).close)}
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
	size := len(msg.Body)
	for _, h := range m.Headers {
		msg.Headers[h.Name] = h.Value
		size += len(h.Name) + len(h.Value)
	}
	return &message{key, msg, size}, nil
}

// nameOf returns the run and attempt of a message, which identify a returned message: there is one live
// attempt per run.
func nameOf(headers amqp091.Table) string {
	return fmt.Sprint(headers[broker.RunID], "/", headers[broker.Attempt])
}

// Publish implements broker.Settings.
func (c *config) Publish(ctx context.Context, conn *connection, m *message) (out job.Outcome, broken bool) {
	out = c.publish(ctx, conn, m)
	broken = conn.conn.IsClosed()
	// A message to an exchange that does not exist ends the channel of others, but the broker works.
	out.Down = out.Down && (broken || ctx.Err() != nil)
	return out, broken
}

// publish sends a message and waits for the confirmation, both within ctx.
func (c *config) publish(ctx context.Context, conn *connection, m *message) job.Outcome {
	ch, release, err := conn.get(ctx, c.exchange)
	switch {
	case err != nil && ctx.Err() != nil:
		return c.notAccepted(ctx)
	case err != nil:
		return broker.Unconnected(ctx, c.Where(), err)
	}
	defer release()
	conn.throttle.Allow(broker.ResponseSize + m.size) // it may be returned
	p := &published{
		exchange: c.exchange, key: m.key, msg: m.msg, name: nameOf(m.msg.Headers), written: make(chan written, 1),
	}
	select {
	case ch.outbox <- p:
	case <-ch.ended:
		return broker.Unconnected(ctx, c.Where(), ch.reason)
	case <-ctx.Done():
		return c.notAccepted(ctx)
	}
	defer ch.forget(p)
	var w written
	select {
	case w = <-p.written:
	case <-ch.ended:
		select {
		case w = <-p.written: // it came first, and its confirmation may have too
		default:
			return c.channelClosed(ctx, ch.reason)
		}
	case <-ctx.Done():
		if ch.giveUp(p) {
			return broker.Unconfirmed(ctx, c.Where(), ctx.Err())
		}
		return c.notAccepted(ctx)
	}
	switch {
	case errors.Is(w.err, amqp091.ErrClosed): // the channel was closed before the whole message was written
		return broker.Unconnected(ctx, c.Where(), w.err)
	case w.err != nil:
		return c.channelClosed(ctx, w.err)
	}
	return c.confirmed(ctx, ch, p, w.response)
}

// confirmed waits for the confirmation of a message. The client passes notifications of confirmations on in the order of
// the messages, so one message without a confirmation would hide those of all later ones. It has also forgotten the first
// response if a confirmation of several messages overwrote it. Deferred confirmations have neither fault.
func (c *config) confirmed(
	ctx context.Context, ch *channel, p *published, response *amqp091.DeferredConfirmation,
) job.Outcome {
	select {
	case <-response.Done():
	case <-ch.ended:
	case <-ctx.Done():
	}
	acked := response.Acked()
	if !acked && ctx.Err() != nil {
		return broker.Unconfirmed(ctx, c.Where(), ctx.Err())
	}
	if !acked && ch.closed() { // then the client refuses everything that was not confirmed, in the broker's name
		select {
		case <-ch.ended:
			return c.channelClosed(ctx, ch.reason)
		case <-ctx.Done():
			return broker.Unconfirmed(ctx, c.Where(), ctx.Err())
		}
	}
	returned := ch.whyReturned(p)
	switch {
	case returned != "":
		return job.Outcome{
			Kind: job.Failed,
			Message: broker.Clean("no queue is bound to the exchange for this routing key (" +
				broker.Redact(ctx, returned) + "); bind one, then redrive the run"),
		}
	case !acked:
		return job.Outcome{
			Kind: job.Failed, Retryable: true,
			Message: "the broker refused the message (nack): a queue is full or cannot be written to",
		}
	default:
		return c.Confirmed()
	}
}

// notAccepted is the outcome if the broker did not accept the message in time, so nothing was sent.
func (c *config) notAccepted(ctx context.Context) job.Outcome {
	if errors.Is(ctx.Err(), context.Canceled) {
		return broker.Stopping()
	}
	return job.Outcome{
		Kind: job.Failed, Retryable: true, Down: true,
		Message: broker.Clean(c.Where() + " is connected, but did not take the message within the timeout; " +
			"see whether the broker is overloaded or has an alarm, or raise the job's timeout"),
	}
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
