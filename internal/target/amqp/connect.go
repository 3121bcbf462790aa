package amqp

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/google/uuid"
	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/target/broker"
	"github.com/belfry-dev/belfry/internal/target/throttle"
)

const (
	heartbeat  = 10 * time.Second
	closeLimit = 2 * time.Second
)

// connection to a broker. It does not reconnect.
type connection struct {
	*channels
	raw      net.Conn
	throttle *throttle.Dialer
	checked  *checked
}

// Retired implements broker.Retiring.
func (c *connection) Retired() bool { return c.checked.gap.Load() }

// Connection implements broker.Settings.
func (c *config) Connection(
	ctx context.Context, o *broker.Options, namespace uuid.UUID,
) (string, broker.OpenFunc[*connection], error) {
	access, err := c.Access(ctx, o, namespace, c.vhost)
	if err != nil {
		return "", nil, err
	}
	connect := &connector{vhost: c.vhost, access: access, dialer: o.Dialer}
	return access.Key, connect.open, nil
}

// connector opens connections.
type connector struct {
	vhost  string
	access broker.Access
	dialer broker.Dialer
}

// open connects to the first server that works.
func (o *connector) open(ctx context.Context) (conn *connection, err error) {
	err = o.access.Try(ctx, func(ctx context.Context, server string) (err error) {
		conn, err = o.openOne(ctx, server)
		return err
	})
	return conn, err
}

// writeLimit is how long a broker may not read what is written to it. RabbitMQ stops reading during a memory
// or disk alarm, and must not occupy slots meanwhile.
const writeLimit = 10 * time.Second

// limitedConn is a connection whose writes fail after writeLimit.
type limitedConn struct{ net.Conn }

func (c *limitedConn) Write(b []byte) (int, error) {
	if err := c.SetWriteDeadline(clock.Now().Add(writeLimit)); err != nil {
		return 0, err
	}
	return c.Conn.Write(b)
}

func (o *connector) openOne(ctx context.Context, server string) (*connection, error) {
	var (
		conn    *broker.Conn
		checks  *checked
		dialErr error // more precise than the client's own error
	)
	throttled := throttle.New(o.dialer, broker.Burst)
	stop := func() bool { return true }
	auth := &login{
		amqp091.PlainAuth{Username: o.access.User, Password: o.access.Password},
		amqp091.Table{"product": "belfry", "connection_name": "belfry"},
	}
	client, err := amqp091.DialConfig("amqp://"+server, amqp091.Config{
		Vhost: o.vhost, Heartbeat: heartbeat, Locale: "en_US", FrameSize: frameSize, ChannelMax: maxChannels,
		Properties: auth.properties, SASL: []amqp091.Authentication{auth},
		Dial: func(string, string) (net.Conn, error) {
			if conn, dialErr = o.access.Dial(ctx, throttled, server); dialErr != nil {
				return nil, dialErr
			}
			// A deadline would not work: the client sets its own, for heartbeats, during the login.
			stop = context.AfterFunc(ctx, func() { _ = conn.Close() })
			checks = newChecked(&limitedConn{conn})
			return checks, nil
		},
	})
	auth.Password = "" // the client keeps a reference
	inTime := stop()
	switch {
	case err == nil && inTime:
		return &connection{newChannels(client), conn, throttled, checks}, nil
	case dialErr != nil:
		return nil, dialErr
	case refused(err):
		return nil, errRefused
	case !inTime:
		return nil, ctx.Err()
	case conn != nil && conn.Err() != nil && !fromServer(err):
		return nil, fmt.Errorf("it hung up during the login: %w", conn.Err())
	default:
		return nil, err
	}
}

// close closes the connection. If the broker does not respond within closeLimit, it closes the socket.
func (c *connection) close() {
	timer := time.AfterFunc(closeLimit, func() { _ = c.raw.Close() }) // the client notices and ends
	defer timer.Stop()
	_ = c.conn.Close() // broken or idle: no delivery waits
}
