package amqp

import (
	"context"
	"fmt"
	"net"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/target/broker"
)

const (
	heartbeat = 10 * time.Second
	shutLimit = 2 * time.Second
)

// connection is one to a broker. It does not come back when it breaks.
type connection struct {
	*channels
	raw net.Conn
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
		return &connection{newChannels(made), conn}, nil
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
