package broker

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"net"
	"strings"

	"github.com/google/uuid"
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

// Reach finds out whether one of the servers can be connected to at all: clients
// of clusters go on trying for long, and do not say why.
func (a *Access) Reach(ctx context.Context, d Dialer) error {
	var failed error
	for _, server := range a.Servers {
		conn, err := a.Dial(ctx, d, server)
		if err == nil {
			return conn.Close()
		}
		failed = Kinder(failed, err)
	}
	return failed
}
