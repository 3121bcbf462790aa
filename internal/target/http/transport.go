package http

import (
	"crypto/sha256"
	"crypto/tls"
	"net/http"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/target/gate"
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
	// Report gives the address and the token by which a receiver reports on a run
	// that it has accepted. Nil: it cannot.
	Report func(a job.Attempt) (url, token string)
	// Gate keeps a slow host from taking all slots. Nil: one without limits.
	Gate *gate.Gate
	// Now is the time of signatures. Nil: the machine's.
	Now func() time.Time
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

// maxPersonal bounds the client certificates in use.
const maxPersonal = 200

// transports are connections with a client certificate: they belong to it, and so
// are never shared. When there are too many it starts anew.
type transports struct {
	mu  sync.Mutex
	all map[[sha256.Size]byte]*http.Transport
}

// get returns the connections of a certificate of a namespace.
func (p *transports) get(opts Options, namespace uuid.UUID, pem string) (*http.Transport, error) {
	key := sha256.Sum256(append(namespace[:], pem...))
	p.mu.Lock()
	defer p.mu.Unlock()
	if t := p.all[key]; t != nil {
		return t, nil
	}
	cert, err := tls.X509KeyPair([]byte(pem), []byte(pem))
	if err != nil {
		return nil, err
	}
	if opts.TLS == nil {
		opts.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	opts.TLS = opts.TLS.Clone()
	opts.TLS.Certificates = []tls.Certificate{cert}
	if len(p.all) >= maxPersonal {
		p.closeAll()
	}
	if p.all == nil {
		p.all = map[[sha256.Size]byte]*http.Transport{}
	}
	p.all[key] = newTransport(opts)
	return p.all[key], nil
}

func (p *transports) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closeAll()
}

func (p *transports) closeAll() {
	for _, t := range p.all {
		t.CloseIdleConnections()
	}
	p.all = nil
}
