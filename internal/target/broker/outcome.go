package broker

import (
	"context"
	"errors"
	"net"
	"syscall"
	"time"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/target/guard"
	"github.com/belfry-dev/belfry/internal/target/message"
	"github.com/belfry-dev/belfry/internal/target/secret"
)

const (
	maxMessage = 512 // bytes
	// FallbackTimeout is for attempts without a timeout.
	FallbackTimeout = 30 * time.Second
)

// FinalError is a permanent failure in Belfry's own words: waiting does not fix it.
type FinalError struct{ Err error }

func (f *FinalError) Error() string { return f.Err.Error() }
func (f *FinalError) Unwrap() error { return f.Err }

// secretError says that a secret could not be read, which may be temporary.
type secretError struct{ error }

// ReadSecret returns the value of a setting that may be a stored secret.
func (c *Config) ReadSecret(
	ctx context.Context, o *Options, namespace uuid.UUID, t secret.Text,
) (string, error) {
	return readSecret(ctx, o, namespace, t, c.use)
}

// readHeader returns the value of a secret in a header of a message.
func (c *Config) readHeader(
	ctx context.Context, o *Options, namespace uuid.UUID, t secret.Text,
) (string, error) {
	return readSecret(ctx, o, namespace, t, access.SecretUse{Kind: access.KindHeader, Hosts: c.use.Hosts})
}

func readSecret(
	ctx context.Context, o *Options, namespace uuid.UUID, t secret.Text, use access.SecretUse,
) (string, error) {
	text, err := t.Read(ctx, o.Secrets, namespace, use)
	if err != nil && !secret.Permanent(err) {
		err = &secretError{err}
	}
	if t.Secret != "" {
		record(ctx, text)
	}
	return text, err
}

// Misconfigured is the outcome if a config or an expression is invalid, or a secret could not be read.
// Nothing was sent.
func Misconfigured(err error) job.Outcome {
	var unread *secretError
	if errors.As(err, &unread) {
		return job.Outcome{
			Kind: job.Failed, Retryable: true,
			Message: "not sent: a secret could not be read just now; see the node's log",
		}
	}
	return job.Outcome{
		Kind:    job.Failed,
		Message: Clean("not sent: " + err.Error() + "; fix the job, then redrive the run"),
	}
}

// Stopping is the outcome if ctx was cancelled before anything was sent.
func Stopping() job.Outcome {
	return job.Outcome{
		Kind: job.Failed, Retryable: true, Message: "not sent: the node is stopping; another one retries",
	}
}

// Unconnected is the outcome if there is no connection, so nothing was sent. where names the broker.
func Unconnected(ctx context.Context, where string, err error) job.Outcome {
	out := job.Outcome{Kind: job.Failed, Retryable: true}
	var final *FinalError
	switch {
	case errors.Is(err, guard.ErrRefused):
		out.Retryable = false
		out.Message = where + ": " + guard.ErrRefused.Error()
	case secret.Permanent(err):
		return Misconfigured(err)
	case errors.As(err, &final):
		out.Retryable = false
		out.Message = Clean(where + ": " + err.Error())
	case errors.Is(ctx.Err(), context.Canceled):
		return Stopping()
	default:
		text, final := explain(err, secretsOf(ctx))
		var unread *secretError
		out.Retryable, out.Down = !final, !final && !errors.As(err, &unread)
		out.Message = Clean(where + " " + text)
	}
	return out
}

// Unconfirmed is the outcome if the message may have been sent and the broker did not confirm it.
func Unconfirmed(ctx context.Context, where string, err error) job.Outcome {
	out := job.Outcome{Kind: job.Failed, Retryable: true, Unknown: true, Down: true}
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		out.Message = where + " did not confirm the message within the timeout, and may have it; " +
			"see whether the broker is overloaded, or raise the job's timeout"
	case ctx.Err() != nil:
		out.Message = "not waited for: the node is stopping; another one retries"
	default:
		out.Message = Clean(where + " broke off before it confirmed the message, and may have it (" +
			secretsOf(ctx).reason(err) + ")")
	}
	return out
}

// explain says why there is no connection and what to do. final says that waiting does not fix it.
func explain(err error, hide *secrets) (text string, final bool) {
	var (
		dns     *net.DNSError
		timeout net.Error
		unread  *secretError
	)
	if text, final = explainTLS(err, hide); text != "" {
		return text, final
	}
	switch {
	case errors.As(err, &unread):
		return "was not connected to: a secret could not be read just now", false
	case errors.As(err, &dns) && dns.IsNotFound:
		return "has a name that does not resolve; check servers", false
	case errors.Is(err, syscall.ECONNREFUSED):
		return "refused the connection; check that it is running and listens there", false
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return "could not be connected to in time; check firewalls, the port, and that tls is set as there", false
	default:
		return "could not be connected to (" + hide.reason(err) + ")", false
	}
}

// PreferRetryable returns the error of two servers that may be temporary, if there is one. While one server
// is down, a permanent failure of another does not decide the outcome. Either may be nil.
func PreferRetryable(a, b error) error {
	if a == nil || b != nil && isFinal(a) {
		return b
	}
	return a
}

func isFinal(err error) bool {
	var final *FinalError
	if errors.Is(err, guard.ErrRefused) || errors.As(err, &final) {
		return true
	}
	_, yes := explain(err, nil)
	return yes
}

// Clean makes a message printable and limits its length.
func Clean(text string) string { return message.Clean(text, maxMessage) }
