package http

import (
	"crypto/tls"
	"net/http"
	"time"

	"github.com/belfry-dev/belfry/internal/target/guard"
	"github.com/belfry-dev/belfry/internal/target/secret"
)

// The limits of connections.
const (
	tlsTimeout = 10 * time.Second
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
	// Guard is what connects. Nil: one that allows the open internet alone.
	Guard *guard.Guard
	// Secrets are what users have stored. Nil: there are none.
	Secrets secret.Source
	// TLS is used for https. Nil: the system's roots.
	TLS *tls.Config
}

func newTransport(opts Options) *http.Transport {
	if opts.Guard == nil {
		opts.Guard = &guard.Guard{}
	}
	return &http.Transport{
		// No proxy, also not from the environment: it would connect to addresses
		// that the guard never sees.
		Proxy:               nil,
		DialContext:         opts.Guard.DialContext,
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
