package kafka

import (
	"cmp"
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/target/broker"
)

// Target produces to topics. Safe for concurrent use.
type Target struct {
	*broker.Target[*config, *producer, *kgo.Record]
}

// New creates the target with its own connections.
func New(opts broker.Options) *Target { return newTarget(opts, nil) }

func newTarget(opts broker.Options, dial dialFunc) *Target {
	return &Target{broker.NewTarget(opts, broker.Kind[*config, *producer, *kgo.Record]{
		Name: form.Kind, Parse: parse, Close: func(p *producer) { p.client.Close() },
		Open: func(ctx context.Context, b *access.Broker) (*producer, error) { return open(ctx, b, dial) },
	})}
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

// Publish implements broker.Settings. It passes a record to the client and waits for the confirmation.
func (c *config) Publish(ctx context.Context, p *producer, record *kgo.Record) (out job.Outcome, broken bool) {
	done := make(chan error, 1)
	// The record has the deadline of ctx, so that it is not sent after Belfry has retried it. It is not
	// cancelled with ctx, because withdrawing a record also withdraws those behind it.
	deadline, _ := ctx.Deadline() // broker.Target always sets one
	until, cancel := context.WithDeadline(context.WithoutCancel(ctx), deadline)
	p.client.TryProduce(until, record, func(_ *kgo.Record, err error) {
		cancel()
		done <- err
	})
	select {
	case err := <-done:
		return c.produced(ctx, p, err)
	case <-ctx.Done():
		return broker.Unconfirmed(ctx, c.Where(), ctx.Err()), p.down() != nil
	}
}

// produced returns the outcome once the client is done with a record.
func (c *config) produced(ctx context.Context, p *producer, err error) (out job.Outcome, broken bool) {
	if err == nil {
		return c.Confirmed(), false
	}
	out = job.Outcome{Kind: job.Failed}
	var kafkaErr *kerr.Error
	switch {
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
		out.Message = "the brokers do not allow their user to write to the topic; give it the right, then redrive the run"
	case errors.As(err, &kafkaErr) && !kafkaErr.Retriable:
		out.Message = broker.Clean("the brokers refused the record: " + kafkaErr.Message)
	default:
		// The client gave up, and it is unknown whether the record was sent. If it cannot connect, the next delivery gets
		// another one, which says so before it sends.
		return broker.Unconfirmed(ctx, c.Where(), cmp.Or(p.down(), err)), p.down() != nil || errors.Is(err, kgo.ErrClientClosed)
	}
	return out, broken
}
