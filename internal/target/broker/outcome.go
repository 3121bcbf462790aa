package broker

import (
	"context"
	"errors"
	"net"
	"strings"
	"syscall"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/target/guard"
	"github.com/belfry-dev/belfry/internal/target/secret"
)

const (
	maxMessage = 512 // bytes of what a broker said
	more       = "…" // after what was cut
	// FallbackTimeout is for attempts that come without one.
	FallbackTimeout = 30 * time.Second
)

// FinalError is one that waiting does not mend, in our own words.
type FinalError struct{ Err error }

func (f *FinalError) Error() string { return f.Err.Error() }
func (f *FinalError) Unwrap() error { return f.Err }

// unreadError says that a secret could not be read, which may pass.
type unreadError struct{ error }

// ReadSecret reads a setting that may be stored.
func ReadSecret(ctx context.Context, o *Options, namespace uuid.UUID, t secret.Text) (string, error) {
	text, err := t.Read(ctx, o.Secrets, namespace)
	if err != nil && !errors.Is(err, secret.ErrNone) {
		err = &unreadError{err}
	}
	if t.Secret != "" {
		note(ctx, text)
	}
	return text, err
}

// Mend is the outcome of a config or an expression that does not do, or of a
// secret that could not be read.
func Mend(err error) job.Outcome {
	var unread *unreadError
	if errors.As(err, &unread) {
		return job.Outcome{Kind: job.Failed, Retryable: true, Message: "not sent: a secret could not be read just now; see the node's log"}
	}
	return job.Outcome{Kind: job.Failed, Message: Clean("not sent: " + err.Error() + "; mend the job, then redrive the run")}
}

// Stopping is the outcome where ctx was cancelled before anything was sent.
func Stopping() job.Outcome {
	return job.Outcome{Kind: job.Failed, Retryable: true, Message: "not sent: the node is stopping; another one tries again"}
}

// Unconnected is the outcome where there is no connection, so that nothing was
// sent. where names the broker.
func Unconnected(ctx context.Context, where string, err error) job.Outcome {
	out := job.Outcome{Kind: job.Failed, Retryable: true}
	var final *FinalError
	switch {
	case errors.Is(err, guard.ErrRefused):
		out.Retryable = false
		out.Message = where + ": " + guard.ErrRefused.Error()
	case errors.Is(err, secret.ErrNone):
		return Mend(err)
	case errors.As(err, &final):
		out.Retryable = false
		out.Message = Clean(where + ": " + err.Error())
	case errors.Is(ctx.Err(), context.Canceled):
		return Stopping()
	default:
		text, final := why(err, secretsOf(ctx))
		out.Retryable = !final
		out.Message = Clean(where + " " + text)
	}
	return out
}

// Unconfirmed is the outcome where the message was handed over and the broker did
// not say what became of it.
func Unconfirmed(ctx context.Context, where string, err error) job.Outcome {
	out := job.Outcome{Kind: job.Failed, Retryable: true, Unknown: true}
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		out.Message = where + " did not confirm the message within the timeout, and may have it; see whether the broker is overloaded, or raise the job's timeout"
	case ctx.Err() != nil:
		out.Message = "not waited for: the node is stopping; another one tries again"
	default:
		out.Message = Clean(where + " broke off before it confirmed the message, and may have it (" + secretsOf(ctx).reason(err) + ")")
	}
	return out
}

// why there is no connection, and what to do. final: waiting does not mend it.
func why(err error, hide *secrets) (text string, final bool) {
	var (
		dns     *net.DNSError
		timeout net.Error
		unread  *unreadError
	)
	if text, final = whyInsecure(err, hide); text != "" {
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

// Kinder is of the errors of two servers the one that waiting may mend: where one
// is away for a while, the settings of another one decide nothing. Either may be nil.
func Kinder(a, b error) error {
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
	_, yes := why(err, nil)
	return yes
}

// Clean makes a text printable, valid UTF-8 and bounded.
func Clean(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, strings.ToValidUTF8(text, "\uFFFD"))
	return cut(strings.TrimSpace(text), maxMessage)
}

// Shorten keeps a name that a user wrote fit to be shown.
func Shorten(name string) string { return cut(Clean(name), 60) }

func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	end := most - len(more)
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + more
}

// within puts a problem's field below another.
func within(field string, err error) error {
	var p *job.Problem
	if !errors.As(err, &p) {
		return err
	}
	return &job.Problem{Field: strings.Replace(p.Field, "target.config", "target.config."+field, 1), Problem: p.Problem, Fix: p.Fix}
}
