package broker

import (
	"context"
	"fmt"
	"strconv"

	"github.com/belfry-dev/belfry/internal/expr"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/target/secret"
)

// dueLayout is RFC 3339 with all six digits, so that texts sort as times do.
const dueLayout = "2006-01-02T15:04:05.000000Z07:00"

// The names of what goes with each message.
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
	Dialer  Dialer        // how it connects: a guard
	Secrets secret.Source // nil: there are none
	// Report gives the address and the token by which a consumer reports on an
	// attempt. Nil: it cannot.
	Report func(a job.Attempt) (url, token string)
}

// Message is what goes with each message, whatever the broker.
type Message struct {
	Facts   *expr.Facts
	Headers []Pair
}

// Message of an attempt. An error is for the job's author: a failure for good.
func (c *Config) Message(ctx context.Context, o *Options, a *job.Attempt) (*Message, error) {
	m := &Message{Facts: a.Facts()}
	m.Headers = append(m.Headers,
		Pair{IdempotencyKey, m.Facts.IdempotencyKey}, Pair{RunID, m.Facts.RunID}, Pair{JobID, m.Facts.Job.ID},
		Pair{DueAt, a.Key.DueAt.UTC().Format(dueLayout)}, Pair{Attempt, strconv.Itoa(int(a.Number))}, Pair{Traceparent, a.Traceparent()})
	for name, h := range c.Headers {
		var value string
		var err error
		if h.Template != nil {
			value, err = h.Template.Text(m.Facts)
		} else {
			value, err = ReadSecret(ctx, o, a.Namespace, h.Secret)
		}
		if err != nil {
			return nil, fmt.Errorf("header %s: %w", name, err)
		}
		m.Headers = append(m.Headers, Pair{name, value})
	}
	if c.Report && o.Report != nil {
		url, token := o.Report(*a)
		note(ctx, token)
		m.Headers = append(m.Headers, Pair{RunURL, url}, Pair{RunToken, token})
	}
	return m, nil
}

// Done is the outcome of a message that the broker keeps.
func (c *Config) Done() job.Outcome {
	if c.Report {
		return job.Outcome{Kind: job.Accepted}
	}
	return job.Outcome{Kind: job.Succeeded}
}
