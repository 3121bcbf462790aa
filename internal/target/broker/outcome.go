package broker

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"syscall"
	"time"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/target/message"
	"github.com/belfry-dev/belfry/internal/target/secret"
)

const (
	maxMessage = 512 // bytes
	// FallbackTimeout is for attempts without a timeout.
	FallbackTimeout = 30 * time.Second
)

// ErrLogin says that a broker rejects the credentials.
var ErrLogin = errors.New("the broker rejects the login")

// secretError says that a secret could not be read, which may be temporary.
type secretError struct{ error }

// readHeader returns the value of a secret in a header of a message.
func readHeader(ctx context.Context, o *Options, namespace uuid.UUID, t secret.Text) (string, error) {
	text, err := t.Read(ctx, o.Secrets, namespace, access.SecretUse{Kind: access.KindHeader})
	if err != nil && !secret.Permanent(err) {
		err = &secretError{err}
	}
	record(ctx, text)
	return text, err
}

// Misconfigured is the outcome if a config or an expression is invalid, or a secret could not be read.
// Nothing was sent.
func Misconfigured(err error) job.Outcome {
	if _, unread := errors.AsType[*secretError](err); unread {
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

// unsent is the outcome if nothing was sent because of what the operator has set, or the node could not read.
func unsent(why string) job.Outcome {
	return job.Outcome{Kind: job.Failed, Retryable: true, Message: Clean("not sent: " + why)}
}

// noBroker is the outcome if the settings of the broker could not be read. Its error is not part of the message.
func noBroker(c *Config, err error) job.Outcome {
	if errors.Is(err, access.ErrNoBroker) {
		return unsent("there is no broker " + c.Broker + " that this namespace may use; " +
			"the operator of the cluster sets brokers: belfry broker set")
	}
	return unsent("the settings of " + c.Where() + " could not be read just now; see the node's log")
}

// Stopping is the outcome if ctx was cancelled before anything was sent.
func Stopping() job.Outcome { return unsent("the node is stopping; another one retries") }

// Unconnected is the outcome if there is no connection, so nothing was sent. where names the broker. All of it may be
// retried: the settings are not the job's, and the operator can correct them meanwhile.
func Unconnected(ctx context.Context, where string, err error) job.Outcome {
	if errors.Is(ctx.Err(), context.Canceled) || errors.Is(err, ErrClosed) {
		return Stopping()
	}
	return job.Outcome{Kind: job.Failed, Retryable: true, Down: true, Message: Clean(where + " " + explain(ctx, err))}
}

// NotTaken is the outcome if the broker did not take the message in time, so nothing was sent.
func NotTaken(ctx context.Context, where string) job.Outcome {
	if errors.Is(ctx.Err(), context.Canceled) {
		return Stopping()
	}
	return job.Outcome{
		Kind: job.Failed, Retryable: true, Down: true,
		Message: Clean(where + " is connected, but did not take the message within the timeout; " +
			"see whether it is overloaded or has an alarm, or raise the job's timeout"),
	}
}

// Unconfirmed is the outcome if the message may have been sent and the broker did not confirm it.
func Unconfirmed(ctx context.Context, where string, err error) job.Outcome {
	out := job.Outcome{Kind: job.Failed, Retryable: true, Unknown: true, Down: true}
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		out.Message = where + " did not confirm the message within the timeout, and may have it; " +
			"see whether it is overloaded, or raise the job's timeout"
	case ctx.Err() != nil:
		out.Message = "not waited for: the node is stopping; another one retries"
	default:
		out.Message = Clean(where + " broke off before it confirmed the message, and may have it (" +
			Redact(ctx, err.Error()) + ")")
	}
	return out
}

// explain says why there is no connection and what to do.
func explain(ctx context.Context, err error) string {
	var (
		dns       *net.DNSError
		timeout   net.Error
		authority x509.UnknownAuthorityError
		host      x509.HostnameError
		record    tls.RecordHeaderError
	)
	switch {
	case errors.Is(err, ErrLogin):
		return "does not take the login; the operator corrects it: belfry broker set"
	case errors.As(err, &authority):
		return "has a TLS certificate of an authority that is not known; the operator sets it: belfry broker set --tls-ca"
	case errors.As(err, &host):
		return "has a TLS certificate for another name; the operator sets it: belfry broker set --tls-server-name"
	case errors.As(err, &record):
		return "does not speak TLS there; the operator corrects it: belfry broker set"
	case errors.As(err, &dns) && dns.IsNotFound:
		return "has a server whose name does not resolve"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "refused the connection; check that it is running"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return "could not be connected to in time; check firewalls, ports, and whether it wants TLS"
	default:
		return "could not be connected to (" + Redact(ctx, err.Error()) + ")"
	}
}

// Clean makes a message printable and limits its length.
func Clean(text string) string { return message.Clean(text, maxMessage) }
