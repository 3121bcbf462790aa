package nats

import (
	"context"
	"errors"
	"net/textproto"
	"strings"

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
	return &Target{broker.NewTarget(opts, broker.Kind[*config, *connection, *nats.Msg]{
		Name: form.Kind, Parse: parse, Open: open, Close: func(c *connection) { c.Conn().Close() },
	})}
}

// newLines must not be in a header, because it would end there.
var newLines = strings.NewReplacer("\r", " ", "\n", " ")

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
	msg := &nats.Msg{Subject: subject, Header: nats.Header{}, Data: []byte(a.Payload)}
	put := func(name, value string) {
		msg.Header[name] = append(msg.Header[name], newLines.Replace(textproto.TrimString(value)))
	}
	for _, h := range m.Headers {
		put(h.Name, h.Value)
	}
	put(jetstream.MsgIDHeader, m.Facts.IdempotencyKey)
	if c.stream != "" {
		put(jetstream.ExpectedStreamHeader, c.stream)
	}
	return msg, nil
}

// Publish implements broker.Settings.
func (c *config) Publish(ctx context.Context, conn *connection, m *nats.Msg) (out job.Outcome, broken bool) {
	const tooLarge, otherStream, sealed = 10054, 10060, 10109
	// The client must not repeat a message: the job's policy decides about that.
	_, err := conn.PublishMsg(ctx, m, jetstream.WithRetryAttempts(0))
	var refused *jetstream.APIError
	out = job.Outcome{Kind: job.Failed}
	switch {
	case err == nil:
		return c.Confirmed(), false
	case errors.Is(err, nats.ErrMaxPayload):
		out.Message = "the message is larger than the server takes (max_payload); send less, or raise it there"
	case errors.Is(err, jetstream.ErrNoStreamResponse):
		out.Retryable = true
		out.Message = "no stream takes this subject; create one that does, or check the subject"
	case errors.As(err, &refused):
		code := refused.ErrorCode
		out.Status = refused.Code
		out.Retryable = code != tooLarge && code != otherStream && code != sealed
		out.Message = broker.Clean("the stream refused the message: " + broker.Redact(ctx, refused.Description))
	default:
		return broker.Unconfirmed(ctx, c.Where(), err), conn.Conn().IsClosed()
	}
	return out, false
}
