package amqp

import (
	"context"
	"errors"
	"fmt"
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
	shutLimit   = 2 * time.Second
)

// connection is one to a broker, with a channel for each exchange. It does not
// come back when it breaks.
type connection struct {
	conn *amqp091.Connection
	raw  net.Conn

	mu       sync.Mutex // never held while the client is called
	channels map[string]*opening
}

// opening is a channel that is, will be, or could not be made.
type opening struct {
	ready chan struct{} // closed when opening has ended
	ch    *channel
	err   error
}

// open connects to the first server that can be connected to.
func (t *Target) open(c *config, access broker.Access) func(context.Context) (*connection, error) {
	return func(ctx context.Context) (conn *connection, err error) {
		err = access.Try(ctx, func(ctx context.Context, server string) (err error) {
			conn, err = t.openOne(ctx, c.vhost, access, server)
			return err
		})
		return conn, err
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
	over := func() bool { return true }
	as := &login{amqp091.PlainAuth{Username: access.User, Password: access.Password}, amqp091.Table{"product": "belfry", "connection_name": "belfry"}}
	made, err := amqp091.DialConfig("amqp://"+server, amqp091.Config{
		Vhost: vhost, Heartbeat: heartbeat, Locale: "en_US", Properties: as.properties, SASL: []amqp091.Authentication{as},
		Dial: func(string, string) (net.Conn, error) {
			if conn, failed = access.Dial(ctx, t.opts.Dialer, server); failed != nil {
				return nil, failed
			}
			// Not by a deadline: the client sets its own, for heartbeats, in the midst of the login.
			over = context.AfterFunc(ctx, func() { _ = conn.Close() })
			return &impatient{conn}, nil
		},
	})
	as.Password = "" // the client keeps it
	inTime := over()
	switch {
	case err == nil && inTime:
		return &connection{conn: made, raw: conn, channels: map[string]*opening{}}, nil
	case failed != nil:
		return nil, failed
	case refused(err):
		return nil, errRefused
	case !inTime:
		return nil, ctx.Err()
	case conn != nil && conn.Err() != nil && !said(err):
		return nil, fmt.Errorf("it hung up during the login: %w", conn.Err())
	default:
		return nil, err
	}
}

// shut says farewell, and does not wait for the answer of a broker that gives none.
func (c *connection) shut() {
	timer := time.AfterFunc(shutLimit, func() { _ = c.raw.Close() }) // the client sees it and ends
	defer timer.Stop()
	_ = c.conn.Close() // broken or idle: nothing waits
}

// channel of an exchange, made if there is none, and waited for as long as ctx
// allows.
func (c *connection) channel(ctx context.Context, exchange string) (*channel, error) {
	at, err := c.find(exchange) //nolint:contextcheck // others wait for the channel too
	if err != nil {
		return nil, err
	}
	select {
	case <-at.ready:
		return at.ch, at.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// find where the channel of an exchange is or will be. One is opened at a time for
// an exchange, by a goroutine of its own: the client waits for the broker's answer
// without a limit. It ends with the connection at the latest.
func (c *connection) find(exchange string) (*opening, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if found := c.channels[exchange]; found != nil && !found.over() {
		return found, nil
	}
	delete(c.channels, exchange)
	if len(c.channels) >= maxChannels {
		for name, at := range c.channels {
			if at.idle() {
				delete(c.channels, name)
			}
		}
	}
	if len(c.channels) >= maxChannels {
		return nil, errors.New("too many exchanges are written to at once")
	}
	made := &opening{ready: make(chan struct{})}
	c.channels[exchange] = made
	go func() {
		defer close(made.ready)
		made.ch, made.err = newChannel(c.conn)
	}()
	return made, nil
}

func (o *opening) opened() bool {
	select {
	case <-o.ready:
		return true
	default:
		return false
	}
}

// over says that it is of no use, or not any more.
func (o *opening) over() bool {
	return o.opened() && (o.err != nil || o.ch.closed())
}

// idle says that nothing waits on it; it is then closed.
func (o *opening) idle() bool {
	switch {
	case !o.opened():
		return false
	case o.over():
		return true
	case o.ch.idle():
		go func() { _ = o.ch.ch.Close() }() // it waits for the broker's answer
		return true
	default:
		return false
	}
}
