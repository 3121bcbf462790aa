package broker

import (
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

// errSpeaksTLS says that a server responded in TLS to a client that does not use it.
var errSpeaksTLS = errors.New("it speaks TLS")

// handshakeError says that a server closed the connection during the TLS handshake.
type handshakeError struct{ error }

func (e *handshakeError) Unwrap() error { return e.error }

// explainTLS explains an error of TLS; an empty text means that the error has another cause. It is final if
// the job's settings must be fixed. An expired certificate must be renewed at the server, and a server that
// closes the connection may just be stopping, so those are not final.
func explainTLS(err error, hide *secrets) (text string, final bool) {
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
		return explainUntrusted(cert.Err, hide)
	case errors.As(err, &op) && op.Op == "remote error": // that is what crypto/tls calls an alert
		if slices.Contains(clientAlerts, alert(op.Err)) {
			return "wants a certificate of the client, or another one (" + op.Err.Error() +
				"); fix tls.certificate and tls.key", true
		}
		return "broke off TLS (" + op.Err.Error() + "); check its TLS settings", false
	case errors.As(err, &handshake):
		return "closed the connection instead of answering in TLS; if it does not speak TLS there, " +
			"remove tls, or give the port for TLS", false
	default:
		return "", false
	}
}

func explainUntrusted(err error, hide *secrets) (text string, final bool) {
	var (
		unknown x509.UnknownAuthorityError
		host    x509.HostnameError
		invalid x509.CertificateInvalidError
	)
	switch {
	case errors.As(err, &unknown):
		return "has a TLS certificate of an authority that is not known; give the authority's own as tls.ca", true
	case errors.As(err, &host):
		return "has a TLS certificate for another name (" + hide.reason(host) +
			"); use that in servers, or give it as tls.server_name", true
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "has a TLS certificate that has expired, or is not valid yet (" + invalid.Detail +
			"); renew it there", false
	default:
		return "has a TLS certificate that is not trusted (" + hide.reason(err) + "); replace it there", false
	}
}

// clientAlerts are the alerts of RFC 8446, 6.2, with which a server rejects a client's certificate, or the
// lack of one.
var clientAlerts = []uint64{
	42,  // bad_certificate
	43,  // unsupported_certificate
	44,  // certificate_revoked
	45,  // certificate_expired
	46,  // certificate_unknown
	48,  // unknown_ca
	49,  // access_denied
	116, // certificate_required
}

// alert returns the number of an alert. Its type in crypto/tls is not exported.
func alert(err error) uint64 {
	if v := reflect.ValueOf(err); v.Kind() == reflect.Uint8 {
		return v.Uint()
	}
	return 0
}

// Conn remembers why it ended, because clients turn the error into text.
type Conn struct {
	net.Conn
	plain bool // without TLS

	mu      sync.Mutex
	hasRead bool
	err     error
}

// Read must be called by one goroutine at a time.
func (c *Conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.mu.Lock()
	defer c.mu.Unlock()
	// This is a TLS record with an alert. No broker's response begins like this.
	if c.plain && !c.hasRead && n > 1 && b[0] == 21 && b[1] == 3 {
		n, err = 0, errSpeaksTLS
	}
	c.hasRead = c.hasRead || n > 0
	if c.err == nil {
		c.err = err
	}
	return n, err
}

// Err returns why the connection ended, or nil.
func (c *Conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// readFirst hides from writers that the server has closed the connection, so that the client finds out by
// reading. With TLS 1.3, a server rejects a client's certificate after the client has completed the
// handshake: it sends an alert and closes the connection. A client that is just writing would fail without
// reading the alert. What it wrote is lost either way.
type readFirst struct{ net.Conn }

func (c readFirst) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	if closedByPeer(err) {
		return len(b), nil
	}
	return n, err
}

// closedByPeer reports whether the other side closed the connection.
func closedByPeer(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}
