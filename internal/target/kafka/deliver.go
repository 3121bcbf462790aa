package kafka

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/target/broker"
	"github.com/belfry-dev/belfry/internal/target/guard"
)

// Target produces to topics. Safe for concurrent use.
type Target struct {
	opts    broker.Options
	configs broker.Cache[*config]
	pool    broker.Pool[*producer]
}

// New makes the target with connections of its own.
func New(opts broker.Options) *Target {
	return &Target{
		opts: opts, configs: broker.Cache[*config]{Make: parse},
		pool: broker.Pool[*producer]{Shut: func(p *producer) { p.client.Close() }},
	}
}

// Close lets go of connections.
func (t *Target) Close() { t.pool.Close() }

// Deliver produces one record and waits until the brokers have confirmed it.
func (t *Target) Deliver(ctx context.Context, a job.Attempt) job.Outcome {
	return broker.Deliver(ctx, &a, &t.configs, func(ctx context.Context, c *config) job.Outcome { return t.deliver(ctx, c, &a) })
}

func (t *Target) deliver(ctx context.Context, c *config, a *job.Attempt) job.Outcome {
	record, err := c.record(ctx, &t.opts, a)
	if err != nil {
		return broker.Mend(err)
	}
	access, err := c.Access(ctx, &t.opts, a.Namespace, c.sasl)
	if err != nil {
		return broker.Unconnected(ctx, c.Where(), err)
	}
	lease, err := t.pool.Get(ctx, access.Key, t.open(c, access))
	if err != nil {
		return broker.Unconnected(ctx, c.Where(), err)
	}
	out, broken := c.produce(ctx, lease.Conn, record)
	lease.Release(broken)
	return out
}

func (c *config) record(ctx context.Context, o *broker.Options, a *job.Attempt) (*kgo.Record, error) {
	m, err := c.Message(ctx, o, a)
	if err != nil {
		return nil, err
	}
	topic, err := c.topic.Text(m.Facts)
	if err != nil {
		return nil, err
	}
	if !topicForm.MatchString(topic) {
		return nil, errors.New("topic gave a text that is not the name of one: up to 249 letters, digits, '.', '_' and '-'")
	}
	key, err := c.key.Text(m.Facts)
	if err != nil {
		return nil, err
	}
	r := &kgo.Record{Topic: topic, Key: []byte(key), Value: []byte(a.Payload), Headers: make([]kgo.RecordHeader, len(m.Headers))}
	for i, h := range m.Headers {
		r.Headers[i] = kgo.RecordHeader{Key: h.Name, Value: []byte(h.Value)}
	}
	return r, nil
}

// produce hands a record over and waits for what becomes of it. broken: the
// client is of no more use.
func (c *config) produce(ctx context.Context, p *producer, record *kgo.Record) (out job.Outcome, broken bool) {
	done := make(chan error, 1)
	// With the end of ctx, so that a record which could not be sent by then is not sent later, when it was tried again long since; but
	// not cancelled with it: a record that is taken back takes those behind it along.
	deadline, _ := ctx.Deadline() // Deliver sees to it that there is one
	until, cancel := context.WithDeadline(context.WithoutCancel(ctx), deadline)
	since := p.now()
	p.client.TryProduce(until, record, func(_ *kgo.Record, err error) {
		cancel()
		done <- err
	})
	select {
	case err := <-done:
		return c.answered(ctx, err, p.whyNot(since))
	case <-p.down:
		select { // what came before counts
		case err := <-done:
			return c.answered(ctx, err, p.whyNot(since))
		default:
			return c.unreachable(ctx, p, since), true
		}
	case <-ctx.Done():
		return broker.Unconfirmed(ctx, c.Where(), ctx.Err()), false
	}
}

// unreachable is what it means that no broker can be connected to. Where none was
// written to since the record was handed over, that was not sent.
func (c *config) unreachable(ctx context.Context, p *producer, since moment) job.Outcome {
	err := p.why()
	if errors.Is(err, guard.ErrRefused) || p.now().writes == since.writes {
		return c.unconnected(ctx, err)
	}
	return broker.Unconfirmed(ctx, c.Where(), err)
}

func (c *config) unconnected(ctx context.Context, err error) job.Outcome {
	return broker.Unconnected(ctx, c.Where()+" or a broker that it leads to", err)
}

// answered is what it means that the client is done with a record. away is why
// brokers could not be connected to meanwhile.
func (c *config) answered(ctx context.Context, err, away error) (out job.Outcome, broken bool) {
	if err == nil {
		return c.Done(), false
	}
	out = job.Outcome{Kind: job.Failed}
	var (
		said *kerr.Error
		dial *dialError
	)
	switch {
	case errors.As(err, &dial):
		return c.unconnected(ctx, err), false
	case unsent(err) && away != nil:
		return c.unconnected(ctx, away), false
	case errors.Is(err, kgo.ErrRecordRetries), errors.Is(err, kgo.ErrRecordTimeout):
		out.Retryable = true
		out.Message = c.Where() + " led to no broker that took the record; see to the brokers"
	case errors.Is(err, context.DeadlineExceeded):
		out.Retryable = true
		out.Message = c.Where() + " did not take the records before this one in time; see whether it is overloaded"
	case errors.Is(err, kgo.ErrMaxBuffered):
		out.Retryable = true
		out.Message = c.Where() + " is behind with confirming records; see whether it is overloaded"
	case errors.Is(err, kerr.UnknownTopicOrPartition), errors.Is(err, kerr.UnknownTopicID):
		out.Retryable = true
		out.Message = "there is no such topic; make it, or check topic"
		// The client would not believe for long that a topic which it knew is another one now.
		broken = true
	case errors.Is(err, kerr.NotEnoughReplicas):
		out.Retryable = true
		out.Message = "too few replicas of the topic are in sync; see to the brokers"
	case errors.Is(err, kerr.MessageTooLarge), errors.Is(err, kerr.RecordListTooLarge):
		out.Message = "the record is larger than the topic takes (max.message.bytes); send less, or raise it there"
	case errors.Is(err, kerr.TopicAuthorizationFailed), errors.Is(err, kerr.ClusterAuthorizationFailed):
		out.Message = "the brokers do not allow this user to write to the topic; give it the right"
	case errors.As(err, &said) && !said.Retriable:
		out.Message = broker.Clean("the brokers refused the record: " + said.Message)
	default:
		// A client that was closed or gave up: whether it was sent is not known.
		return broker.Unconfirmed(ctx, c.Where(), err), errors.Is(err, kgo.ErrClientClosed)
	}
	return out, broken
}

// unsent says that a record was given up before it was sent. An idempotent producer
// does not let go so, nor for want of a connection, of one that may be there: it would
// not know how to go on counting.
func unsent(err error) bool {
	return errors.Is(err, kgo.ErrRecordRetries) || errors.Is(err, kgo.ErrRecordTimeout) || errors.Is(err, context.DeadlineExceeded)
}
