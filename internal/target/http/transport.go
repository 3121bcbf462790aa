package http

import (
	"crypto/tls"
	"net"
	"net/http"
	"syscall"
	"time"
)

// The limits of connections.
const (
	dialTimeout = 10 * time.Second
	tlsTimeout  = 10 * time.Second
	// idleTimeout is below the 5 s after which Apache, Node and uvicorn close: a
	// request that meets a closing connection is lost (see doc.go).
	idleTimeout       = 4 * time.Second
	maxIdle           = 8192
	maxIdlePerHost    = 1024
	maxResponseHeader = 64 << 10
	pingAfter         = 15 * time.Second // a quiet HTTP/2 connection is asked whether it lives
)

// Options of the target.
type Options struct {
	// DialControl is asked with each address before it is connected to, after
	// names were resolved: the place where addresses are refused. An error is a
	// failure for good. Nil: all addresses are taken.
	DialControl func(network, address string, c syscall.RawConn) error
	// TLS is used for https. Nil: the system's roots.
	TLS *tls.Config
}

// refusedError is DialControl's.
type refusedError struct{ err error }

func (e *refusedError) Error() string { return "address refused: " + e.err.Error() }
func (e *refusedError) Unwrap() error { return e.err }

func newTransport(opts Options) *http.Transport {
	dialer := &net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second}
	if ask := opts.DialControl; ask != nil {
		dialer.Control = func(network, address string, c syscall.RawConn) error {
			if err := ask(network, address, c); err != nil {
				return &refusedError{err}
			}
			return nil
		}
	}
	return &http.Transport{
		// No proxy, also not from the environment: it would connect to addresses
		// that DialControl never sees.
		Proxy:               nil,
		DialContext:         dialer.DialContext,
		TLSClientConfig:     opts.TLS.Clone(),
		TLSHandshakeTimeout: tlsTimeout,
		ForceAttemptHTTP2:   true,
		HTTP2:               &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingAfter},
		MaxIdleConns:        maxIdle,
		MaxIdleConnsPerHost: maxIdlePerHost,
		IdleConnTimeout:     idleTimeout,
		// How long the answer may take is the attempt's timeout, by the context.
		MaxResponseHeaderBytes: maxResponseHeader,
		// Nobody reads answers but for the first words of an error: no bomb unpacks.
		DisableCompression: true,
	}
}
