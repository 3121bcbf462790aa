package nats

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"

	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/target/broker"
)

// confirmLimit is how long the client waits for a confirmation. If there is a subscriber but no stream, none
// ever comes, and the client would keep the message forever.
const confirmLimit = 2 * time.Minute

// maxPending is the maximum number of messages that wait for their confirmation.
const maxPending = 10_000

// connection to a server. It does not reconnect.
type connection struct {
	conn   *nats.Conn
	js     jetstream.JetStream
	broken chan struct{} // closed when the connection breaks
}

// dialer connects for nats.go and keeps the error, which nats.go does not.
type dialer struct {
	ctx context.Context //nolint:containedctx // for one call of open: nats.go does not pass it on
	to  broker.Dialer
	mu  sync.Mutex
	err error
}

// Dial implements nats.CustomDialer.
func (d *dialer) Dial(_, address string) (net.Conn, error) {
	conn, err := broker.DialPlain(d.ctx, d.to, address)
	if err != nil {
		d.mu.Lock()
		d.err = err
		d.mu.Unlock()
	}
	return conn, err
}

// Connection implements broker.Settings.
func (c *config) Connection(
	ctx context.Context, o *broker.Options, namespace uuid.UUID,
) (string, broker.OpenFunc[*connection], error) {
	token, err := broker.ReadSecret(ctx, o, namespace, c.token)
	if err != nil {
		return "", nil, fmt.Errorf("token: %w", err)
	}
	credentials, err := broker.ReadSecret(ctx, o, namespace, c.credentials)
	if err != nil {
		return "", nil, fmt.Errorf("credentials: %w", err)
	}
	if _, err := nkeys.ParseDecoratedUserNKey([]byte(credentials)); credentials != "" && err != nil {
		return "", nil, &broker.FinalError{Err: errors.New("the secret that credentials names " +
			"is not the text of a .creds file of a user; store that")}
	}
	access, err := c.Access(ctx, o, namespace, token, credentials)
	if err != nil {
		return "", nil, err
	}
	return access.Key, func(ctx context.Context) (*connection, error) {
		return open(ctx, o.Dialer, access, login(&access, token, credentials))
	}, nil
}

// login returns the options for TLS and authentication. token and credentials may be empty.
func login(access *broker.Access, token, credentials string) (options []nats.Option) {
	if access.TLS != nil {
		options = append(options, nats.Secure(access.TLS))
	}
	if access.User != "" {
		options = append(options, nats.UserInfo(access.User, access.Password))
	}
	if token != "" {
		options = append(options, nats.Token(token))
	}
	if credentials != "" {
		options = append(options, nats.UserCredentialBytes([]byte(credentials)))
	}
	return options
}

// open connects to the servers in random order, like clients of NATS that spread over a cluster.
func open(
	ctx context.Context, d broker.Dialer, access broker.Access, login []nats.Option,
) (conn *connection, err error) {
	servers := slices.Clone(access.Servers)
	//nolint:gosec // the order is not a secret
	rand.Shuffle(len(servers), func(i, j int) { servers[i], servers[j] = servers[j], servers[i] })
	access.Servers = servers
	err = access.Try(ctx, func(ctx context.Context, server string) (err error) {
		conn, err = openOne(ctx, d, server, login)
		return err
	})
	return conn, err
}

func openOne(ctx context.Context, to broker.Dialer, server string, login []nats.Option) (*connection, error) {
	d := &dialer{ctx: ctx, to: to}
	n := &connection{broken: make(chan struct{})}
	options := []nats.Option{
		nats.Name("belfry"), nats.NoReconnect(), nats.IgnoreDiscoveredServers(),
		nats.SetCustomDialer(d), nats.SkipHostLookup(), nats.Timeout(openTimeout(ctx)),
		nats.ClosedHandler(func(*nats.Conn) { close(n.broken) }),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}), // the default handler prints
	}
	var err error
	if n.conn, err = nats.Connect("nats://"+server, append(options, login...)...); err != nil {
		return nil, d.reason(err)
	}
	n.js, err = jetstream.New(n.conn,
		jetstream.WithPublishAsyncMaxPending(maxPending), jetstream.WithPublishAsyncTimeout(confirmLimit))
	return n, err
}

// reason returns why there is no connection, in place of the client's "no servers available".
func (d *dialer) reason(err error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case errors.Is(err, nats.ErrNoServers) && d.err != nil:
		return d.err
	case errors.Is(err, nats.ErrAuthorization), errors.Is(err, nats.ErrAuthExpired),
		errors.Is(err, nats.ErrAuthRevoked), errors.Is(err, nats.ErrAccountAuthExpired):
		err = &broker.FinalError{Err: errors.New("the server does not take these credentials; " +
			"fix user and password, token or credentials")}
	case errors.Is(err, nats.ErrSecureConnWanted):
		err = &broker.FinalError{Err: errors.New("the server does not speak TLS, and tls is set; " +
			"remove it, or give the port for TLS")}
	}
	return broker.PreferRetryable(d.err, err)
}

// openTimeout returns the remaining time of ctx, for a client that takes no context.
func openTimeout(ctx context.Context) time.Duration {
	if until, ok := ctx.Deadline(); ok {
		return max(until.Sub(clock.Now()), time.Millisecond)
	}
	return broker.FallbackTimeout
}
