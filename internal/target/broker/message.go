package broker

import (
	"context"
	"fmt"
	"strconv"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/expr"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/target/gate"
	"github.com/belfry-dev/belfry/internal/target/secret"
	"github.com/belfry-dev/belfry/internal/trace"
)

// dueLayout is RFC 3339 with all six digits, so that strings sort like times.
const dueLayout = "2006-01-02T15:04:05.000000Z07:00"

// Names of the headers of each message.
const (
	IdempotencyKey = "Idempotency-Key"
	RunID          = "Belfry-Run-Id"
	JobID          = "Belfry-Job-Id"
	DueAt          = "Belfry-Due-At"
	Attempt        = "Belfry-Attempt"
	Traceparent    = "traceparent"
	RunURL         = "Belfry-Run-Url"
	RunToken       = "Belfry-Run-Token" //nolint:gosec // a name
)

// Pair is a header.
type Pair struct{ Name, Value string }

// Options of a target.
type Options struct {
	Brokers Source
	Secrets secret.Source // nil: there are none
	// Report returns the URL and the token with which a consumer reports on an attempt. Nil: consumers
	// cannot report.
	Report func(a job.Attempt) (url, token string)
	Gate   *gate.Gate // limits the deliveries per broker and per namespace; nil: there is only a breaker
	// Encrypted means that no secret is sent over a network without encryption.
	Encrypted bool
}

// Source returns the brokers that the operator has set, with their credentials. It caches them for a short time, so it
// can be called for each delivery.
type Source interface {
	// Broker returns access.ErrNoBroker if a namespace has no broker of that name.
	Broker(ctx context.Context, namespace uuid.UUID, name string) (*access.Broker, error)
}

// Message is the part of a message that is the same for all brokers.
type Message struct {
	Facts   *expr.Facts // for the templates of the config
	Headers []Pair
}

// Message builds the common part of the message of an attempt. An error is a permanent failure that the
// author of the job must fix.
func (c *Config) Message(ctx context.Context, o *Options, a *job.Attempt) (*Message, error) {
	m := &Message{Facts: a.Facts()}
	m.Headers = []Pair{
		{IdempotencyKey, m.Facts.IdempotencyKey},
		{RunID, m.Facts.RunID},
		{JobID, m.Facts.Job.ID},
		{DueAt, a.Key.DueAt.UTC().Format(dueLayout)},
		{Attempt, strconv.Itoa(int(a.Number))},
		{Traceparent, trace.Parent(a)},
	}
	for name, h := range c.Headers {
		var value string
		var err error
		if h.Template != nil {
			value, err = h.Template.Text(m.Facts)
		} else {
			value, err = readHeader(ctx, o, a.Namespace, h.Secret)
		}
		if err != nil {
			return nil, fmt.Errorf("header %s: %w", name, err)
		}
		m.Headers = append(m.Headers, Pair{name, value})
	}
	if c.Report && o.Report != nil {
		url, token := o.Report(*a)
		record(ctx, token)
		m.Headers = append(m.Headers, Pair{RunURL, url}, Pair{RunToken, token})
	}
	return m, nil
}

// Confirmed is the outcome of a message that the broker has confirmed.
func (c *Config) Confirmed() job.Outcome {
	if c.Report {
		return job.Outcome{Kind: job.Accepted}
	}
	return job.Outcome{Kind: job.Succeeded}
}
