package http

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/target/gate"
	"github.com/belfry-dev/belfry/internal/target/guard"
	"github.com/belfry-dev/belfry/internal/target/secret"
	"github.com/belfry-dev/belfry/internal/target/throttle"
)

// Limits of connections.
const (
	tlsTimeout = 10 * time.Second
	// idleTimeout is shorter than the 5 s after which Apache, Node and uvicorn close a connection, because
	// a request that meets a closing connection fails (see the package page).
	idleTimeout       = 4 * time.Second
	maxIdle           = 8192
	maxIdlePerHost    = 1024
	maxResponseHeader = 64 << 10
	maxStream         = 64 << 10         // what a server may send by HTTP/2 before it is read
	maxHandshake      = 128 << 10        // what a server may send by itself, such as its certificates
	pingAfter         = 15 * time.Second // for HTTP/2 connections without traffic
)

// Options of the target.
type Options struct {
	// Guard opens all connections. Nil: only the public internet can be reached.
	Guard *guard.Guard
	// Secrets are the stored secrets. Nil: there are none.
	Secrets secret.Source
	// Report returns the URL and the token with which a receiver reports on a run that it has accepted.
	// Nil: receivers cannot report.
	Report func(a job.Attempt) (url, token string)
	// Gate keeps a slow host from taking all slots. Nil: a gate without limits.
	Gate *gate.Gate
	// Now returns the time for signatures. Nil: the machine's clock.
	Now func() time.Time
	// TLS is used for https. Nil: the system's roots.
	TLS *tls.Config
}

func newTransport(opts Options) *http.Transport {
	if opts.Guard == nil {
		opts.Guard = &guard.Guard{}
	}
	return &http.Transport{
		// No proxy, not even from the environment: it would connect to addresses the guard never sees.
		Proxy:               nil,
		DialContext:         throttled(opts.Guard),
		TLSClientConfig:     opts.TLS.Clone(),
		TLSHandshakeTimeout: tlsTimeout,
		ForceAttemptHTTP2:   true,
		HTTP2: &http.HTTP2Config{
			SendPingTimeout: pingAfter, PingTimeout: pingAfter, MaxReceiveBufferPerStream: maxStream,
		},
		MaxIdleConns:        maxIdle,
		MaxIdleConnsPerHost: maxIdlePerHost,
		IdleConnTimeout:     idleTimeout,
		// The context limits how long a response may take.
		MaxResponseHeaderBytes: maxResponseHeader,
		// Only the beginning of a response is ever read. Without decompression, a zip bomb is harmless.
		DisableCompression: true,
	}
}

// throttled returns a dialer whose connections are each read at a limited rate, because a server can send frames
// of HTTP/2 without end, and a connection is read as long as a delivery waits on it.
func throttled(g *guard.Guard) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		return throttle.New(g, maxHandshake).DialContext(ctx, network, address)
	}
}

// maxExpected is what a server may send for one request.
const maxExpected = maxResponseHeader + maxDrain + maxStream

// expecting allows the server to respond to a request on its connection, until end is called.
type expecting struct{ conn *throttle.Conn }

func (e *expecting) begin(info httptrace.GotConnInfo) {
	e.end() // the transport may try another connection
	conn := info.Conn
	if secured, ok := conn.(*tls.Conn); ok {
		conn = secured.NetConn()
	}
	if c, ok := conn.(*throttle.Conn); ok {
		e.conn = c
		c.Begin(maxExpected)
	}
}

func (e *expecting) end() {
	if e.conn != nil {
		e.conn.End(maxExpected)
		e.conn = nil
	}
}

// maxCertificates limits the number of client certificates whose transports are kept.
const maxCertificates = 200

// ownTransports are the transports for client certificates, and of namespaces with their own guard. Connections belong
// to one certificate of one namespace and are never shared.
type ownTransports struct {
	mu           sync.Mutex
	guarded      map[uuid.UUID]*http.Transport // by namespace; the configuration limits them
	certificates map[[sha256.Size]byte]*certTransport
	uses         uint64
}

type certTransport struct {
	*http.Transport
	used uint64 // the number of the last use
}

// get returns the transport of a certificate of a namespace. Without pem, there is no certificate.
func (p *ownTransports) get(opts Options, namespace uuid.UUID, pem string) (*http.Transport, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.guarded == nil {
		p.guarded, p.certificates = map[uuid.UUID]*http.Transport{}, map[[sha256.Size]byte]*certTransport{}
	}
	if pem == "" {
		if p.guarded[namespace] == nil {
			p.guarded[namespace] = newTransport(opts)
		}
		return p.guarded[namespace], nil
	}
	p.uses++
	key := sha256.Sum256(append(namespace[:], pem...))
	if t := p.certificates[key]; t != nil {
		t.used = p.uses
		return t.Transport, nil
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
	if len(p.certificates) >= maxCertificates {
		p.closeOldest()
	}
	t := &certTransport{newTransport(opts), p.uses}
	p.certificates[key] = t
	return t.Transport, nil
}

// closeOldest closes the certificate's transport that was used least recently.
func (p *ownTransports) closeOldest() {
	var oldest [sha256.Size]byte
	least := p.uses
	for key, t := range p.certificates {
		if t.used < least {
			oldest, least = key, t.used
		}
	}
	p.certificates[oldest].CloseIdleConnections()
	delete(p.certificates, oldest)
}

func (p *ownTransports) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, t := range p.guarded {
		t.CloseIdleConnections()
	}
	for _, t := range p.certificates {
		t.CloseIdleConnections()
	}
	p.guarded, p.certificates = nil, nil
}
