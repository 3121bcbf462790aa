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

// Dialer is how a target connects: see guard.Guard.
type Dialer interface {
	DialContext(ctx context.Context, network, address string) (net.Conn, error)
}

// Access is all that a connection is made of.
type Access struct {
	Servers  []string
	TLS      *tls.Config // nil: none
	User     string
	Password string
	// Key is the same for what may share a connection. It is a hash: credentials are
	// part of it.
	Key string
}

// Access to the broker of a config, for a namespace. More is what else tells
// connections of this kind apart.
func (c *Config) Access(ctx context.Context, o *Options, namespace uuid.UUID, more ...string) (a Access, err error) {
	a = Access{Servers: c.Servers, User: c.User}
	if a.Password, err = ReadSecret(ctx, o, namespace, c.Password); err != nil {
		return a, fmt.Errorf("password: %w", err)
	}
	parts := append([]string{namespace.String(), a.User, a.Password}, a.Servers...)
	if c.TLS != nil {
		var key string
		if a.TLS, key, err = c.TLS.config(ctx, o, namespace); err != nil {
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

// Dial connects to one address, with TLS if the access has it.
func (a *Access) Dial(ctx context.Context, d Dialer, address string) (*Conn, error) {
	conn, err := DialPlain(ctx, d, address)
	if err != nil {
		return nil, err
	}
	if a.TLS == nil {
		return &Conn{Conn: conn, plain: true}, nil
	}
	config := a.TLS.Clone()
	if config.ServerName == "" {
		config.ServerName, _, _ = net.SplitHostPort(address)
	}
	secured := tls.Client(conn, config)
	if err := secured.HandshakeContext(ctx); err != nil {
		_ = conn.Close() // the handshake's error says it all
		if hungUp(err) {
			err = &handshakeError{err}
		}
		return nil, err
	}
	return &Conn{Conn: secured}, nil
}

// Try the servers one after the other, until one works. Each has its share of the
// time that is left: one whose answers do not come, as behind a firewall that drops
// all, must not hide those after it.
func (a *Access) Try(ctx context.Context, open func(ctx context.Context, server string) error) error {
	var failed error
	for i, server := range a.Servers {
		share, cancel := share(ctx, len(a.Servers)-i)
		err := open(share, server)
		cancel()
		if err == nil {
			return nil
		}
		failed = Kinder(failed, err)
	}
	return failed
}

// share is a part of the time that is left.
func share(ctx context.Context, among int) (context.Context, context.CancelFunc) {
	if until, ok := ctx.Deadline(); ok {
		return context.WithTimeout(ctx, until.Sub(clock.Now())/time.Duration(among))
	}
	return context.WithCancel(ctx)
}
