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
	*broker.Target[*config, *producer, *kgo.Record]
}

// New creates the target with its own connections.
func New(opts broker.Options) *Target {
	return &Target{broker.NewTarget(opts, parse, func(p *producer) { p.client.Close() })}
}

// NewMessage implements broker.Settings.
func (c *config) NewMessage(ctx context.Context, o *broker.Options, a *job.Attempt) (*kgo.Record, error) {
	m, err := c.Message(ctx, o, a)
	if err != nil {
		return nil, err
	}
	topic, err := c.topic.Text(m.Facts)
	if err != nil {
		return nil, err
	}
	if !topicForm.MatchString(topic) {
		return nil, errors.New("the result of topic is not a valid name: " +
			"up to 249 letters, digits, '.', '_' and '-'")
	}
	key, err := c.key.Text(m.Facts)
	if err != nil {
		return nil, err
	}
	r := &kgo.Record{
		Topic: topic, Key: []byte(key), Value: []byte(a.Payload), Headers: make([]kgo.RecordHeader, len(m.Headers)),
	}
	for i, h := range m.Headers {
		r.Headers[i] = kgo.RecordHeader{Key: h.Name, Value: []byte(h.Value)}
	}
	return r, nil
}

// Publish implements broker.Settings. A client that knows many topics is replaced by another.
func (c *config) Publish(ctx context.Context, p *producer, record *kgo.Record) (out job.Outcome, broken bool) {
	out, broken = c.produce(ctx, p, record)
	return out, broken || p.cluster.full()
}

// produce passes a record to the client and waits for the confirmation.
func (c *config) produce(ctx context.Context, p *producer, record *kgo.Record) (out job.Outcome, broken bool) {
	p.throttle.Allow(broker.ResponseSize)
	done := make(chan error, 1)
	// The record has the deadline of ctx, so that it is not sent after Belfry has retried it. It is not
	// cancelled with ctx, because withdrawing a record also withdraws those behind it.
	deadline, _ := ctx.Deadline() // broker.Deliver always sets one
	until, cancel := context.WithDeadline(context.WithoutCancel(ctx), deadline)
	since := p.now()
	p.client.TryProduce(until, record, func(_ *kgo.Record, err error) {
		cancel()
		done <- err
	})
	select {
	case err := <-done:
		return c.produced(ctx, err, p.connectError(since))
	case <-p.down:
		select { // a confirmation that came first counts
		case err := <-done:
			return c.produced(ctx, err, p.connectError(since))
		default:
			return c.unreachable(ctx, p, since), true
		}
	case <-ctx.Done():
		return broker.Unconfirmed(ctx, c.Where(), ctx.Err()), false
	}
}

// unreachable is the outcome if no broker can be connected to. The record was not sent if nothing was
// written to any broker since the client got it.
func (c *config) unreachable(ctx context.Context, p *producer, since progress) job.Outcome {
	err := p.lastError()
	if errors.Is(err, guard.ErrRefused) || p.now().writes == since.writes {
		return c.unconnected(ctx, err)
	}
	return broker.Unconfirmed(ctx, c.Where(), err)
}

func (c *config) unconnected(ctx context.Context, err error) job.Outcome {
	return broker.Unconnected(ctx, c.Where()+" or a broker that it leads to", err)
}

// produced returns the outcome once the client is done with a record. connectErr is why advertised brokers
// could not be connected to in the meantime.
func (c *config) produced(ctx context.Context, err, connectErr error) (out job.Outcome, broken bool) {
	if err == nil {
		return c.Confirmed(), false
	}
	out = job.Outcome{Kind: job.Failed}
	var (
		kafkaErr *kerr.Error
		dial     *dialError
	)
	switch {
	case errors.As(err, &dial):
		return c.unconnected(ctx, err), false
	case unsent(err) && connectErr != nil:
		return c.unconnected(ctx, connectErr), false
	case errors.Is(err, kgo.ErrRecordRetries), errors.Is(err, kgo.ErrRecordTimeout):
		out.Retryable, out.Down = true, true
		out.Message = c.Where() + " led to no broker that took the record; check the brokers"
	case errors.Is(err, context.DeadlineExceeded):
		out.Retryable, out.Down = true, true
		out.Message = c.Where() + " did not take the records before this one in time; see whether it is overloaded"
	case errors.Is(err, kgo.ErrMaxBuffered):
		out.Retryable, out.Down = true, true
		out.Message = c.Where() + " is behind with confirming records; see whether it is overloaded"
	case errors.Is(err, kerr.UnknownTopicOrPartition), errors.Is(err, kerr.UnknownTopicID):
		out.Retryable = true
		out.Message = "there is no such topic; create it, or check topic"
		// The client would keep its old metadata for a while if the topic was deleted and created again.
		broken = true
	case errors.Is(err, kerr.NotEnoughReplicas):
		out.Retryable = true
		out.Message = "too few replicas of the topic are in sync; check the brokers"
	case errors.Is(err, kerr.MessageTooLarge), errors.Is(err, kerr.RecordListTooLarge):
		out.Message = "the record is larger than the topic takes (max.message.bytes); send less, or raise it there"
	case errors.Is(err, kerr.TopicAuthorizationFailed), errors.Is(err, kerr.ClusterAuthorizationFailed):
		out.Message = "the brokers do not allow this user to write to the topic; give it the right"
	case errors.As(err, &kafkaErr) && !kafkaErr.Retriable:
		out.Message = broker.Clean("the brokers refused the record: " + kafkaErr.Message)
	default:
		// The client was closed or gave up. It is unknown whether the record was sent.
		return broker.Unconfirmed(ctx, c.Where(), err), errors.Is(err, kgo.ErrClientClosed)
	}
	return out, broken
}

// unsent reports whether the client gave up a record before it was sent. An idempotent producer does not
// give up a record that may have been stored, not even without a connection, because it would not know with
// which sequence number to continue.
func unsent(err error) bool {
	return errors.Is(err, kgo.ErrRecordRetries) || errors.Is(err, kgo.ErrRecordTimeout) ||
		errors.Is(err, context.DeadlineExceeded)
}
