package nats

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/target/broker"
)

// Headers that a stream reads.
const (
	msgID          = "Nats-Msg-Id"
	expectedStream = "Nats-Expected-Stream"
)

// Target publishes to streams. Safe for concurrent use.
type Target struct {
	*broker.Target[*config, *connection, *message]
}

// New creates the target with its own connections.
func New(opts broker.Options) *Target {
	return &Target{broker.NewTarget(opts, parse, func(c *connection) { c.fail(errClosed) })}
}

// NewMessage implements broker.Settings.
func (c *config) NewMessage(ctx context.Context, o *broker.Options, a *job.Attempt) (*message, error) {
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
	headers := []byte("NATS/1.0\r\n")
	for _, h := range m.Headers {
		headers = appendHeader(headers, h.Name, h.Value)
	}
	headers = appendHeader(headers, msgID, m.Facts.IdempotencyKey)
	if c.stream != "" {
		headers = appendHeader(headers, expectedStream, c.stream)
	}
	return &message{subject: subject, headers: append(headers, "\r\n"...), payload: a.Payload}, nil
}

// Publish implements broker.Settings.
func (c *config) Publish(ctx context.Context, conn *connection, m *message) (out job.Outcome, broken bool) {
	if conn.tooLarge(m) {
		return job.Outcome{
			Kind:    job.Failed,
			Message: "the message is larger than the server takes (max_payload); send less, or raise it there",
		}, false
	}
	conn.throttle.Allow(broker.ResponseSize)
	number, response := conn.expect()
	defer conn.forget(number)
	select {
	case conn.outbox <- &outgoing{m, number}:
	case <-conn.broken:
		return broker.Unconnected(ctx, c.Where(), conn.lost()), true
	case <-ctx.Done():
		return c.notAccepted(ctx), false
	}
	select {
	case r := <-response:
		return c.answered(ctx, r)
	case <-conn.broken:
		select { // a confirmation that came first counts
		case r := <-response:
			out, _ = c.answered(ctx, r)
			return out, true
		default:
			return broker.Unconfirmed(ctx, c.Where(), conn.lost()), true
		}
	case <-ctx.Done():
		return broker.Unconfirmed(ctx, c.Where(), ctx.Err()), false
	}
}

// notAccepted is the outcome if the server did not read the messages before this one, so it was not sent.
func (c *config) notAccepted(ctx context.Context) job.Outcome {
	if errors.Is(ctx.Err(), context.Canceled) {
		return broker.Stopping()
	}
	return job.Outcome{
		Kind: job.Failed, Retryable: true, Down: true,
		Message: c.Where() + " did not take the messages before this one in time; see whether it is overloaded",
	}
}

// confirmation is the response of a stream.
type confirmation struct {
	Stream string `json:"stream"`
	Error  *struct {
		Code        int    `json:"code"`
		ErrCode     int    `json:"err_code"`
		Description string `json:"description"`
	} `json:"error"`
}

// answered is the outcome of a message that got a response.
func (c *config) answered(ctx context.Context, r received) (out job.Outcome, broken bool) {
	var confirmed confirmation
	const noResponders = "503"
	out = job.Outcome{Kind: job.Failed}
	switch {
	case r.status == noResponders && len(r.payload) == 0:
		out.Retryable = true
		out.Message = "no stream takes this subject; create one that does, or check the subject"
	case json.Unmarshal(r.payload, &confirmed) != nil, confirmed.Error == nil && confirmed.Stream == "":
		return broker.Unconfirmed(ctx, c.Where(), broker.OwnError("the response is not that of a stream")), true
	case confirmed.Error != nil:
		const tooLarge, otherStream, sealed = 10054, 10060, 10109
		code := confirmed.Error.ErrCode
		out.Status = confirmed.Error.Code
		out.Retryable = code != tooLarge && code != otherStream && code != sealed
		out.Message = broker.Clean("the stream refused the message: " +
			broker.Redact(ctx, confirmed.Error.Description))
	default:
		return c.Confirmed(), false
	}
	return out, false
}
