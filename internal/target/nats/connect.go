package nats

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/belfry-dev/belfry/internal/target/broker"
)

// confirmLimit is how long a message may wait for its confirmation. Where there
// is no stream but a subscriber, none ever comes, and it would be kept for ever.
const confirmLimit = 2 * time.Minute

// maxPending is how many messages may wait for their confirmation at once.
const maxPending = 10_000

// connection is one to a server. It does not come back when it breaks.
type connection struct {
	conn   *nats.Conn
	js     jetstream.JetStream
	broken chan struct{} // closed when it broke
}

// dialer connects for nats.go, which keeps no error of it.
type dialer struct {
	ctx context.Context //nolint:containedctx // of one opening, which nats.go does not hand on
	to  broker.Dialer
	mu  sync.Mutex
	err error
}

// Dial is for nats.go.
func (d *dialer) Dial(_, address string) (net.Conn, error) {
	conn, err := broker.DialPlain(d.ctx, d.to, address)
	if err != nil {
		d.mu.Lock()
		d.err = err
		d.mu.Unlock()
	}
	return conn, err
}

// open connects to one of the servers, by chance, as clients of NATS do to spread
// over a cluster. token and credentials may be empty.
func (t *Target) open(access broker.Access, token, credentials string) func(context.Context) (*connection, error) {
	return func(ctx context.Context) (n *connection, err error) {
		var login []nats.Option
		if access.TLS != nil {
			login = append(login, nats.Secure(access.TLS))
		}
		if access.User != "" {
			login = append(login, nats.UserInfo(access.User, access.Password))
		}
		if token != "" {
			login = append(login, nats.Token(token))
		}
		if credentials != "" {
			login = append(login, nats.UserCredentialBytes([]byte(credentials)))
		}
		mixed := access
		mixed.Servers = slices.Clone(access.Servers)
		rand.Shuffle(len(mixed.Servers), func(i, j int) { mixed.Servers[i], mixed.Servers[j] = mixed.Servers[j], mixed.Servers[i] }) //nolint:gosec // no secret
		err = mixed.Try(ctx, func(ctx context.Context, server string) (err error) {
			n, err = t.openOne(ctx, server, login)
			return err
		})
		return n, err
	}
}

func (t *Target) openOne(ctx context.Context, server string, login []nats.Option) (*connection, error) {
	d := &dialer{ctx: ctx, to: t.opts.Dialer}
	n := &connection{broken: make(chan struct{})}
	options := []nats.Option{
		nats.Name("belfry"), nats.NoReconnect(), nats.IgnoreDiscoveredServers(), nats.SetCustomDialer(d), nats.SkipHostLookup(),
		nats.ClosedHandler(func(*nats.Conn) { close(n.broken) }), nats.Timeout(openTimeout(ctx)),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}), // else it prints
	}
	var err error
	if n.conn, err = nats.Connect("nats://"+server, append(options, login...)...); err != nil {
		return nil, d.reason(err)
	}
	n.js, err = jetstream.New(n.conn, jetstream.WithPublishAsyncMaxPending(maxPending), jetstream.WithPublishAsyncTimeout(confirmLimit))
	return n, err
}

// reason is why there is no connection, in place of "no servers available".
func (d *dialer) reason(err error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case errors.Is(err, nats.ErrNoServers) && d.err != nil:
		return d.err
	case errors.Is(err, nats.ErrAuthorization), errors.Is(err, nats.ErrAuthExpired), errors.Is(err, nats.ErrAuthRevoked), errors.Is(err, nats.ErrAccountAuthExpired):
		err = &broker.FinalError{Err: errors.New("the server does not take these credentials; mend user and password, token or credentials")}
	case errors.Is(err, nats.ErrSecureConnWanted):
		err = &broker.FinalError{Err: errors.New("the server does not speak TLS, and tls is set; remove it, or give the port for TLS")}
	}
	return broker.Kinder(d.err, err)
}
