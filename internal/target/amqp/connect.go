package amqp

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/target/broker"
)

const (
	heartbeat   = 10 * time.Second
	maxChannels = 100 // exchanges on one connection
)

// connection is one to a broker, with a channel for each exchange. It does not
// come back when it breaks.
type connection struct {
	conn *amqp091.Connection

	mu       sync.Mutex
	channels map[string]*channel
}

// open connects to the first server that can be connected to.
func (t *Target) open(c *config, access broker.Access) func(context.Context) (*connection, error) {
	return func(ctx context.Context) (*connection, error) {
		var failed error
		for _, server := range access.Servers {
			conn, err := t.openOne(ctx, c.vhost, access, server)
			if err == nil {
				return conn, nil
			}
			failed = broker.Kinder(failed, err)
		}
		return nil, failed
	}
}

// writeLimit is how long a broker may leave what is written to it unread: one that
// does, as under an alarm of memory or disk, must not keep slots.
const writeLimit = 10 * time.Second

// impatient is a connection whose writes end.
type impatient struct{ net.Conn }

func (c *impatient) Write(b []byte) (int, error) {
	if err := c.SetWriteDeadline(clock.Now().Add(writeLimit)); err != nil {
		return 0, err
	}
	return c.Conn.Write(b)
}

func (t *Target) openOne(ctx context.Context, vhost string, access broker.Access, server string) (*connection, error) {
	var (
		conn   *broker.Conn
		failed error // to dial: the client's own text for it says less
	)
	made, err := amqp091.DialConfig("amqp://"+server, amqp091.Config{
		Vhost: vhost, Heartbeat: heartbeat, Locale: "en_US", Properties: amqp091.Table{"product": "belfry", "connection_name": "belfry"},
		SASL: []amqp091.Authentication{&amqp091.PlainAuth{Username: access.User, Password: access.Password}},
		Dial: func(string, string) (net.Conn, error) {
			if conn, failed = access.Dial(ctx, t.opts.Dialer, server); failed != nil {
				return nil, failed
			}
			// For the handshake; the client takes it away after it.
			if until, ok := ctx.Deadline(); ok {
				failed = conn.SetDeadline(until)
			}
			return &impatient{conn}, failed
		},
	})
	var said *amqp091.Error
	switch {
	case err == nil:
		return &connection{conn: made, channels: map[string]*channel{}}, nil
	case failed != nil:
		return nil, failed
	case errors.As(err, &said) && (said.Code == amqp091.AccessRefused || said.Code == amqp091.NotAllowed):
		return nil, &broker.FinalError{Err: errors.New("the broker does not take these credentials, or not for this virtual host; mend user, password and vhost")}
	case conn != nil && conn.Err() != nil:
		return nil, conn.Err()
	default:
		return nil, err
	}
}

// channel of an exchange, made if there is none.
func (c *connection) channel(exchange string) (*channel, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if found := c.channels[exchange]; found != nil && !found.closed() {
		return found, nil
	}
	if len(c.channels) >= maxChannels {
		for name, ch := range c.channels {
			if ch.closed() || ch.idle() {
				_ = ch.ch.Close() // nothing waits on it
				delete(c.channels, name)
			}
		}
	}
	if len(c.channels) >= maxChannels {
		return nil, errors.New("too many exchanges are written to at once")
	}
	made, err := newChannel(c.conn)
	if err == nil {
		c.channels[exchange] = made
	}
	return made, err
}
