package broker

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"reflect"
	"slices"
	"sync"
	"syscall"
)

// errSpeaksTLS says that a server answered in TLS though it was not spoken to so.
var errSpeaksTLS = errors.New("it speaks TLS")

// handshakeError says that a server hung up instead of answering in TLS.
type handshakeError struct{ error }

func (e *handshakeError) Unwrap() error { return e.error }

// whyInsecure is why of what concerns TLS; empty: nothing. Final is what the job's
// settings have to be mended for: a certificate that has expired is renewed at the
// server, and one that hangs up may be just stopping.
func whyInsecure(err error, hide *secrets) (text string, final bool) {
	var (
		record    tls.RecordHeaderError
		cert      *tls.CertificateVerificationError
		handshake *handshakeError
		op        *net.OpError
	)
	switch {
	case errors.Is(err, errSpeaksTLS):
		return `speaks TLS there, and tls is not set; set it to true, or to {"ca": …}`, true
	case errors.As(err, &record):
		return "does not speak TLS there, and tls is set; remove it, or give the port for TLS", true
	case errors.As(err, &cert):
		return whyUntrusted(cert.Err, hide)
	case errors.As(err, &op) && op.Op == "remote error": // crypto/tls names alerts so
		if slices.Contains(aboutClient, alert(op.Err)) {
			return "wants a certificate of the client, or another one (" + op.Err.Error() + "); mend tls.certificate and tls.key", true
		}
		return "broke off TLS (" + op.Err.Error() + "); check its TLS settings", false
	case errors.As(err, &handshake):
		return "closed the connection instead of answering in TLS; if it does not speak TLS there, remove tls, or give the port for TLS", false
	default:
		return "", false
	}
}

func whyUntrusted(err error, hide *secrets) (text string, final bool) {
	var (
		unknown x509.UnknownAuthorityError
		host    x509.HostnameError
		invalid x509.CertificateInvalidError
	)
	switch {
	case errors.As(err, &unknown):
		return "has a TLS certificate of an authority that is not known; give the authority's own as tls.ca", true
	case errors.As(err, &host):
		return "has a TLS certificate for another name (" + hide.reason(host) + "); use that in servers, or give it as tls.server_name", true
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "has a TLS certificate that has expired, or is not valid yet (" + invalid.Detail + "); renew it there", false
	default:
		return "has a TLS certificate that is not trusted (" + hide.reason(err) + "); replace it there", false
	}
}

// aboutClient are the alerts of RFC 8446, 6.2, by which servers say no to a client's
// certificate, or to its absence.
var aboutClient = []uint64{
	42, // bad_certificate
	43, // unsupported_certificate
	44, // certificate_revoked
	45, // certificate_expired
	46, // certificate_unknown
	48, // unknown_ca
	49, // access_denied
	116,
}

// alert is the number of one. Its type in crypto/tls has no name for others.
func alert(err error) uint64 {
	if v := reflect.ValueOf(err); v.Kind() == reflect.Uint8 {
		return v.Uint()
	}
	return 0
}

// Conn is a connection that knows why it ended: clients make a text of it.
type Conn struct {
	net.Conn
	plain bool // without TLS

	mu    sync.Mutex
	begun bool
	err   error
}

// Read is for clients; one goroutine at a time.
func (c *Conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.mu.Lock()
	defer c.mu.Unlock()
	// A record with an alert: no answer of any broker begins so.
	if c.plain && !c.begun && n > 1 && b[0] == 21 && b[1] == 3 {
		n, err = 0, errSpeaksTLS
	}
	c.begun = c.begun || n > 0
	if c.err == nil {
		c.err = err
	}
	return n, err
}

// Err is why nothing more can be read; nil: something can.
func (c *Conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// readFirst is a connection whose end is found out by reading. A server that does not
// like a client's certificate says so and hangs up, after the handshake as the client
// sees it (TLS 1.3): a client that is just writing would fail, and not hear why.
// What was written to one that hung up is lost either way.
type readFirst struct{ net.Conn }

func (c readFirst) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	if hungUp(err) {
		return len(b), nil
	}
	return n, err
}

// DialPlain connects to one address, for a client that speaks TLS itself.
func DialPlain(ctx context.Context, d Dialer, address string) (net.Conn, error) {
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	return readFirst{conn}, nil
}

// hungUp says that the other side closed the connection.
func hungUp(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}
