package broker

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/clock"
)

// Dialer opens the connections of a target: see guard.Guard.
type Dialer interface {
	DialContext(ctx context.Context, network, address string) (net.Conn, error)
}

// What a broker may send, in bytes: see package throttle.
const (
	Burst        = 1 << 20 // logins, metadata
	ResponseSize = 4 << 10 // for one message
)

// Access is what is needed to connect to a broker.
type Access struct {
	Servers  []string
	TLS      *tls.Config // nil: none
	User     string
	Password string
	// Key identifies what may share a connection. It is a hash, because it is made from credentials.
	Key string
}

// Access reads the secrets of a config. more is what else distinguishes connections of this kind.
func (c *Config) Access(ctx context.Context, o *Options, namespace uuid.UUID, more ...string) (a Access, err error) {
	a = Access{Servers: c.Servers, User: c.User}
	if a.Password, err = c.ReadSecret(ctx, o, namespace, c.Password); err != nil {
		return a, fmt.Errorf("password: %w", err)
	}
	parts := append([]string{namespace.String(), a.User, a.Password}, a.Servers...)
	if c.TLS != nil {
		var key string
		if a.TLS, key, err = c.tlsConfig(ctx, o, namespace); err != nil {
			return a, fmt.Errorf("tls: %w", err)
		}
		parts = append(parts, "tls", c.TLS.CA, c.TLS.ServerName, c.TLS.Certificate, key)
	}
	h := sha256.New()
	for _, part := range append(parts, more...) {
		_, _ = fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	a.Key = string(h.Sum(nil))
	return a, nil
}

// Where names a broker in messages.
func (c *Config) Where() string { return strings.Join(c.Servers, ",") }

// Dial connects to one address, with TLS if the config has it.
func (a *Access) Dial(ctx context.Context, d Dialer, address string) (*Conn, error) {
	conn, err := DialPlain(ctx, d, address)
	if err != nil || a.TLS == nil {
		return conn, err
	}
	return Secure(ctx, conn, a.TLS, address)
}

// DialPlain connects to one address without TLS.
func DialPlain(ctx context.Context, d Dialer, address string) (*Conn, error) {
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	return &Conn{Conn: readFirst{conn}, plain: true}, nil
}

// Secure begins TLS on a connection. If that fails, the connection is closed.
func Secure(ctx context.Context, plain *Conn, config *tls.Config, address string) (*Conn, error) {
	config = config.Clone()
	if config.ServerName == "" {
		config.ServerName, _, _ = net.SplitHostPort(address)
	}
	secured := tls.Client(plain.Conn, config)
	if err := secured.HandshakeContext(ctx); err != nil {
		_ = plain.Close() // the error of the handshake is the one that matters
		if closedByPeer(err) {
			err = &handshakeError{err}
		}
		return nil, err
	}
	return &Conn{Conn: secured}, nil
}

// Try calls open for one server after the other until one works. Each gets its share of the remaining time,
// so that a server that does not respond does not use up the time of the next.
func (a *Access) Try(ctx context.Context, open func(ctx context.Context, server string) error) error {
	var failed error
	for i, server := range a.Servers {
		share, cancel := shareTime(ctx, len(a.Servers)-i)
		err := open(share, server)
		cancel()
		if err == nil {
			return nil
		}
		failed = PreferRetryable(failed, err)
	}
	return failed
}

// shareTime returns a context with 1/n of the remaining time.
func shareTime(ctx context.Context, n int) (context.Context, context.CancelFunc) {
	if until, ok := ctx.Deadline(); ok {
		return context.WithTimeout(ctx, until.Sub(clock.Now())/time.Duration(n))
	}
	return context.WithCancel(ctx)
}
