package nats

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/target/broker"
)

const (
	writeLimit   = 10 * time.Second
	pingInterval = 30 * time.Second
	maxPings     = 2 // without a response
)

// connection to a server. It does not reconnect: the client would send again what a delivery has given up.
type connection struct {
	jetstream.JetStream
	lameDuck atomic.Bool // the server is about to stop
}

// Retired implements broker.Retiring.
func (c *connection) Retired() bool { return c.lameDuck.Load() || c.Conn().IsClosed() }

// dialer keeps the error of the last try to connect, which the client does not return.
type dialer struct {
	net.Dialer
	err error
}

// Dial implements nats.CustomDialer.
func (d *dialer) Dial(network, address string) (conn net.Conn, err error) {
	conn, err = d.Dialer.Dial(network, address)
	d.err = err
	return conn, err
}

// open connects to one of the servers. The client tries them in random order.
func open(_ context.Context, b *access.Broker) (*connection, error) {
	c := &connection{}
	limit := broker.ShareTime(len(b.Config.Servers))
	dial := &dialer{Dialer: net.Dialer{Timeout: limit}}
	options := []nats.Option{
		nats.Name("belfry"), nats.NoReconnect(), nats.Timeout(limit), nats.SetCustomDialer(dial),
		nats.FlusherTimeout(writeLimit), nats.PingInterval(pingInterval), nats.MaxPingsOutstanding(maxPings),
		nats.LameDuckModeHandler(func(*nats.Conn) { c.lameDuck.Store(true) }),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}), // deliveries report what matters
	}
	secure, err := broker.TLSConfig(b)
	switch cred := b.Credentials; {
	case err != nil:
		return nil, err
	case cred.Creds != "":
		options = append(options, nats.UserCredentialBytes([]byte(cred.Creds)))
	case cred.Token != "":
		options = append(options, nats.Token(cred.Token))
	case b.Config.User != "":
		options = append(options, nats.UserInfo(b.Config.User, cred.Password))
	}
	if secure != nil {
		options = append(options, nats.Secure(secure))
	}
	urls := "nats://" + strings.Join(b.Config.Servers, ",nats://")
	conn, err := nats.Connect(urls, options...)
	switch {
	case errors.Is(err, nats.ErrNoServers) && dial.err != nil:
		return nil, dial.err
	case errors.Is(err, nats.ErrAuthorization), errors.Is(err, nats.ErrAuthExpired), errors.Is(err, nats.ErrAuthRevoked),
		errors.Is(err, nats.ErrAccountAuthExpired):
		return nil, fmt.Errorf("%w: %w", broker.ErrLogin, err)
	case err != nil:
		return nil, err
	}
	if c.JetStream, err = jetstream.New(conn); err != nil {
		conn.Close()
		return nil, err
	}
	return c, nil
}
