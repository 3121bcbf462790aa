package amqp

import (
	"context"
	"errors"
	"sync/atomic"

	amqp091 "github.com/rabbitmq/amqp091-go"
)

// channel sends one message at a time, so that what the broker says about it belongs to no other.
type channel struct {
	*amqp091.Channel
	returns chan amqp091.Return // the broker's reason, before the confirmation of a message that no queue gets
	closing chan *amqp091.Error
}

// take returns an idle channel, or opens one.
func (c *connection) take() (*channel, error) {
	for {
		select {
		case ch := <-c.idle:
			if !ch.IsClosed() {
				return ch, nil
			}
			continue
		default:
		}
		raw, err := c.conn.Channel()
		if err != nil {
			return nil, err
		}
		if err := raw.Confirm(false); err != nil {
			return nil, errors.Join(err, raw.Close())
		}
		return &channel{
			raw, raw.NotifyReturn(make(chan amqp091.Return, 1)), raw.NotifyClose(make(chan *amqp091.Error, 1)),
		}, nil
	}
}

// sending is a message on its way to the socket.
type sending struct {
	ch       *channel
	response *amqp091.DeferredConfirmation
	err      error
	done     chan struct{} // closed when the fields above are set
	begun    atomic.Bool   // part of the message may have been written
	given    atomic.Bool   // the delivery has given it up
}

// send publishes a message in a goroutine, because the client ignores contexts while it opens channels and writes.
// writeLimit and heartbeats end it.
func (c *connection) send(exchange string, m *message) *sending {
	s := &sending{done: make(chan struct{})}
	go func() {
		defer close(s.done)
		if s.ch, s.err = c.take(); s.err != nil {
			return
		}
		s.begun.Store(true)
		if s.given.Load() {
			s.err = context.Canceled
			return
		}
		const mandatory, immediate = true, false
		s.response, s.err = s.ch.PublishWithDeferredConfirmWithContext(
			context.Background(), exchange, m.key, mandatory, immediate, m.msg)
	}()
	return s
}

// giveUp abandons a message after its timeout and reports whether it may have been sent.
func (s *sending) giveUp() bool {
	s.given.Store(true)
	return s.begun.Load()
}

// put makes a channel available again. One that still waits for a confirmation is closed.
func (c *connection) put(s *sending, settled bool) {
	if settled && !s.ch.IsClosed() {
		c.idle <- s.ch // it has capacity for all channels
		<-c.slots
		return
	}
	go func() {
		<-s.done
		if s.ch != nil {
			_ = s.ch.Close()
		}
		<-c.slots
	}()
}
