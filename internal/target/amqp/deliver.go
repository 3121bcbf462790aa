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
		pool: broker.Pool[*connection]{Shut: func(c *connection) { _ = c.conn.Close() }}, // broken or idle: nothing waits
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

// publish hands a message over and waits for what becomes of it.
func (c *config) publish(ctx context.Context, conn *connection, key string, msg amqp091.Publishing) job.Outcome {
	ch, err := conn.channel(c.exchange)
	if err != nil {
		return broker.Unconnected(ctx, c.Where(), err)
	}
	p, tag, err := ch.publish(ctx, c.exchange, key, msg)
	if err != nil {
		return c.lost(ctx, err)
	}
	select {
	case kept := <-p.done:
		return c.answered(kept, p.returned)
	case <-ch.ended:
		select { // what came before it ended counts
		case kept := <-p.done:
			return c.answered(kept, p.returned)
		default:
			return c.lost(ctx, ch.reason)
		}
	case <-ctx.Done():
		ch.giveUp(tag, p)
		return broker.Unconfirmed(ctx, c.Where(), ctx.Err())
	}
}

// answered is what the broker's word means.
func (c *config) answered(kept bool, returned string) job.Outcome {
	switch {
	case returned != "":
		return job.Outcome{Kind: job.Failed, Message: broker.Clean("no queue is bound to the exchange for this routing key (" + returned + "); bind one, then redrive the run")}
	case !kept:
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
			return job.Outcome{Kind: job.Failed, Status: said.Code, Message: broker.Clean("the broker refused the message: " + said.Reason + "; mend the exchange or its rights, then redrive the run")}
		}
	}
	return broker.Unconfirmed(ctx, c.Where(), err)
}
