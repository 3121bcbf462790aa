package amqp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/target/broker"
)

const (
	heartbeat  = 10 * time.Second
	closeLimit = 2 * time.Second
	// writeLimit is how long a broker may not read what is written to it. RabbitMQ stops reading during a memory
	// or disk alarm.
	writeLimit = 10 * time.Second
	// maxChannels is how many messages one connection sends at the same time. RabbitMQ allows 2,047 channels by default.
	maxChannels = 500
)

// connection to a broker. It does not reconnect.
type connection struct {
	conn  *amqp091.Connection
	raw   net.Conn
	slots chan struct{} // one value for each channel in use
	idle  chan *channel
}

// Retired implements broker.Retiring.
func (c *connection) Retired() bool { return c.conn.IsClosed() }

// limitedConn is a connection whose writes fail after writeLimit.
type limitedConn struct{ net.Conn }

func (c *limitedConn) Write(b []byte) (int, error) {
	if err := c.SetWriteDeadline(clock.Now().Add(writeLimit)); err != nil {
		return 0, err
	}
	return c.Conn.Write(b)
}

// open connects to the first server that works.
func open(ctx context.Context, b *access.Broker) (conn *connection, err error) {
	for _, server := range b.Config.Servers {
		limited, cancel := context.WithTimeout(ctx, broker.ShareTime(len(b.Config.Servers)))
		conn, err = openOne(limited, b, server)
		cancel()
		if err == nil || ctx.Err() != nil {
			break
		}
	}
	return conn, err
}

func openOne(ctx context.Context, b *access.Broker, server string) (*connection, error) {
	secure, err := broker.TLSConfig(b)
	if err != nil {
		return nil, err
	}
	scheme := "amqp://"
	if secure != nil {
		scheme = "amqps://"
	}
	c := &connection{}
	stop := func() bool { return true }
	c.conn, err = amqp091.DialConfig(scheme+server, amqp091.Config{
		Vhost: cmp.Or(b.Config.VHost, "/"), Heartbeat: heartbeat, Locale: "en_US", ChannelMax: maxChannels,
		Properties: amqp091.Table{"product": "belfry", "connection_name": "belfry"},
		SASL: []amqp091.Authentication{
			&amqp091.PlainAuth{Username: b.Config.User, Password: b.Credentials.Password},
		},
		TLSClientConfig: secure,
		Dial: func(network, address string) (net.Conn, error) {
			conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			c.raw = conn
			// A deadline would not work: the client sets its own, for heartbeats, during the login.
			stop = context.AfterFunc(ctx, func() { _ = conn.Close() })
			return &limitedConn{conn}, nil
		},
	})
	inTime := stop()
	var amqpErr *amqp091.Error
	switch {
	case !inTime:
		return nil, ctx.Err()
	case errors.Is(err, amqp091.ErrCredentials), errors.Is(err, amqp091.ErrSASL), errors.Is(err, amqp091.ErrVhost):
		return nil, fmt.Errorf("%w: %w", broker.ErrLogin, err)
	case errors.As(err, &amqpErr) && (amqpErr.Code == amqp091.AccessRefused || amqpErr.Code == amqp091.NotAllowed):
		return nil, fmt.Errorf("%w: %w", broker.ErrLogin, err)
	case err != nil:
		return nil, err
	}
	most := int(c.conn.Config.ChannelMax) // never 0: it was negotiated
	c.slots, c.idle = make(chan struct{}, most), make(chan *channel, most)
	return c, nil
}

// close closes the connection. If the broker does not respond within closeLimit, it closes the socket.
func (c *connection) close() {
	timer := time.AfterFunc(closeLimit, func() { _ = c.raw.Close() }) // the client notices and ends
	defer timer.Stop()
	_ = c.conn.Close() // broken or idle: no delivery waits
}
