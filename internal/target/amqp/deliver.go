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
	opts    broker.Options
	configs broker.Cache[*config]
	pool    broker.Pool[*connection]
}

// New makes the target with connections of its own.
func New(opts broker.Options) *Target {
	return &Target{
		opts: opts, configs: broker.Cache[*config]{Make: parse},
		pool: broker.Pool[*connection]{Shut: (*connection).shut},
	}
}

// Close lets go of connections.
func (t *Target) Close() { t.pool.Close() }

// Deliver publishes one message and waits until the broker has confirmed it.
func (t *Target) Deliver(ctx context.Context, a job.Attempt) job.Outcome {
	return broker.Deliver(ctx, &a, &t.configs, func(ctx context.Context, c *config) job.Outcome { return t.deliver(ctx, c, &a) })
}

func (t *Target) deliver(ctx context.Context, c *config, a *job.Attempt) job.Outcome {
	key, msg, err := c.message(ctx, &t.opts, a)
	if err != nil {
		return broker.Mend(err)
	}
	access, err := c.Access(ctx, &t.opts, a.Namespace, c.vhost)
	if err != nil {
		return broker.Unconnected(ctx, c.Where(), err)
	}
	lease, err := t.pool.Get(ctx, access.Key, t.open(c, access))
	if err != nil {
		return broker.Unconnected(ctx, c.Where(), err)
	}
	out := c.publish(ctx, lease.Conn, key, msg)
	lease.Release(lease.Conn.conn.IsClosed())
	return out
}

func (c *config) message(ctx context.Context, o *broker.Options, a *job.Attempt) (key string, msg amqp091.Publishing, err error) {
	m, err := c.Message(ctx, o, a)
	if err != nil {
		return "", msg, err
	}
	if key, err = c.routingKey.Text(m.Facts); err != nil {
		return "", msg, err
	}
	if len(key) > maxShort {
		return "", msg, errors.New("routing_key gave more than 255 bytes")
	}
	msg = amqp091.Publishing{
		DeliveryMode: amqp091.Persistent, MessageId: m.Facts.IdempotencyKey, AppId: "belfry", Timestamp: a.Key.DueAt,
		Body: []byte(a.Payload), Headers: make(amqp091.Table, len(m.Headers)),
	}
	if a.Payload != "" {
		msg.ContentType = "application/json"
	}
	for _, h := range m.Headers {
		msg.Headers[h.Name] = h.Value
	}
	return key, msg, nil
}

// nameOf is what a return is known by: its run and attempt, of which there is one
// at a time.
func nameOf(headers amqp091.Table) string {
	return fmt.Sprint(headers[broker.RunID], "/", headers[broker.Attempt])
}

// publish hands a message over and waits for what becomes of it, both within ctx.
func (c *config) publish(ctx context.Context, conn *connection, key string, msg amqp091.Publishing) job.Outcome {
	ch, err := conn.channel(ctx, c.exchange)
	switch {
	case err != nil && ctx.Err() != nil:
		return c.untaken(ctx)
	case err != nil:
		return broker.Unconnected(ctx, c.Where(), err)
	}
	p := &published{exchange: c.exchange, key: key, msg: msg, name: nameOf(msg.Headers), done: make(chan answer, 1)}
	select {
	case ch.outbox <- p:
	case <-ch.ended:
		return broker.Unconnected(ctx, c.Where(), ch.reason)
	case <-ctx.Done():
		return c.untaken(ctx)
	}
	select {
	case a := <-p.done:
		return c.answered(ctx, a)
	case <-ch.ended:
		select { // what came before it ended counts
		case a := <-p.done:
			return c.answered(ctx, a)
		default:
			return c.lost(ctx, ch.reason)
		}
	case <-ctx.Done():
		if ch.giveUp(p) {
			return broker.Unconfirmed(ctx, c.Where(), ctx.Err())
		}
		return c.untaken(ctx)
	}
}

// untaken is the outcome where the broker did not take the message in time, so that
// nothing was sent.
func (c *config) untaken(ctx context.Context) job.Outcome {
	if errors.Is(ctx.Err(), context.Canceled) {
		return broker.Stopping()
	}
	return job.Outcome{
		Kind: job.Failed, Retryable: true,
		Message: broker.Clean(c.Where() + " is connected, but did not take the message within the timeout; see whether the broker is overloaded or has an alarm, or raise the job's timeout"),
	}
}

// answered is what the broker's word means.
func (c *config) answered(ctx context.Context, a answer) job.Outcome {
	switch {
	case a.err != nil:
		return c.lost(ctx, a.err)
	case a.returned != "":
		return job.Outcome{Kind: job.Failed, Message: broker.Clean("no queue is bound to the exchange for this routing key (" + broker.Said(ctx, a.returned) + "); bind one, then redrive the run")}
	case !a.kept:
		return job.Outcome{Kind: job.Failed, Retryable: true, Message: "the broker refused the message (nack): a queue is full or cannot be written to"}
	default:
		return c.Done()
	}
}

// lost is what it means that the channel ended.
func (c *config) lost(ctx context.Context, err error) job.Outcome {
	var said *amqp091.Error
	if errors.As(err, &said) && said.Server {
		switch said.Code {
		case amqp091.NotFound, amqp091.AccessRefused, amqp091.PreconditionFailed:
			return job.Outcome{Kind: job.Failed, Status: said.Code, Message: broker.Clean("the broker refused the message: " + broker.Said(ctx, said.Reason) + "; mend the exchange or its rights, then redrive the run")}
		}
	}
	return broker.Unconfirmed(ctx, c.Where(), err)
}
