package http

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"syscall"
	"time"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/target/guard"
)

// unanswered returns the outcome if there was no response, or only a part of one.
func (d *delivery) unanswered(ctx context.Context, timeout time.Duration, err error) job.Outcome {
	out := job.Outcome{Kind: job.Failed, Retryable: true, Unknown: !neverSent(err)}
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		out.Message = d.origin + " did not answer within " + timeout.String() +
			", and may have received the request; make it answer sooner, let it answer 202 and report later, " +
			"or raise the job's timeout"
	case ctx.Err() != nil:
		out.Message = "not waited for: the node is stopping; another one retries"
	case errors.Is(err, guard.ErrRefused):
		// Not retryable: waiting does not change the rule that refuses the address.
		out.Retryable = false
		out.Message = d.origin + ": " + guard.ErrRefused.Error()
	default:
		out.Message = d.origin + " " + d.why(err)
	}
	return out
}

// neverSent reports whether an error certainly occurred before the request was sent. Only then is it
// known that the receiver did nothing.
func neverSent(err error) bool {
	var (
		dns    *net.DNSError
		op     *net.OpError
		record tls.RecordHeaderError
		cert   *tls.CertificateVerificationError
	)
	return errors.As(err, &dns) || errors.As(err, &record) || errors.As(err, &cert) ||
		errors.As(err, &op) && op.Op == "dial"
}

// why explains an error of the transport and says what to do. Errors that may quote the receiver are
// redacted.
func (d *delivery) why(err error) string {
	var (
		dns     *net.DNSError
		op      *net.OpError
		record  tls.RecordHeaderError
		cert    *tls.CertificateVerificationError
		timeout net.Error
	)
	switch {
	case errors.As(err, &dns) && dns.IsNotFound:
		return "has a name that does not resolve; check the url's host"
	case errors.As(err, &dns):
		return "has a name that could not be resolved just now; check the node's DNS"
	case errors.As(err, &record):
		return "does not speak TLS there; check the url's port, or begin it with http://"
	case errors.As(err, &cert):
		return "has a TLS certificate that is not trusted (" + d.show([]byte(cert.Err.Error()), false) +
			"); renew it, or use the host name that it is for"
	case errors.As(err, &op) && op.Op == "remote error": // that is what crypto/tls calls an alert
		return "broke off TLS (" + d.show([]byte(op.Err.Error()), false) + "); check its TLS settings"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "refused the connection; check that it is running and listens on the url's port"
	case errors.As(err, &timeout) && timeout.Timeout():
		return "could not be connected to in time; check firewalls and the url's port"
	case errors.As(err, &op) && op.Op == "dial":
		return "could not be connected to (" + d.show([]byte(err.Error()), false) + "); check the route from the node to it"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF),
		errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "closed the connection before its answer ended, and may have worked on the request; look into its log"
	default:
		return "gave no answer that can be read (" + d.show([]byte(err.Error()), false) +
			"); check that it speaks HTTP, with headers of at most 64 KiB"
	}
}
