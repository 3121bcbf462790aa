package amqp

import (
	"context"
	"errors"
	"sync"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/belfry-dev/belfry/internal/target/broker"
)

const errNoChannel = broker.OwnError("the channel was lost")

// channel publishes messages, and matches returns and confirmations to them.
type channel struct {
	ch     *amqp091.Channel
	outbox chan *published // to the goroutine that writes
	idle   chan struct{}   // receives a value when the goroutine that reads has noted all returns so far
	ended  chan struct{}   // closed when the channel ends
	reason error           // why it ended; set before ended is closed

	mu     sync.Mutex // guards the map and the messages; not locked while the client is called
	byName map[string]*published
}

// published is a message that waits to be written, or for its confirmation.
type published struct {
	exchange, key string
	msg           amqp091.Publishing
	name          string // run and attempt, which identify a returned message
	written       chan written

	taken     bool   // passed to the client
	abandoned bool   // no delivery waits for it any more
	returned  string // why no queue got it
}

// written is the result of passing a message to the client: its confirmation, which comes later, or an error.
type written struct {
	response *amqp091.DeferredConfirmation
	err      error
}

func newChannel(conn *amqp091.Connection) (*channel, error) {
	ch, err := conn.Channel()
	if err != nil {
		return nil, err
	}
	if err := ch.Confirm(false); err != nil {
		return nil, errors.Join(err, ch.Close())
	}
	c := &channel{
		ch: ch, outbox: make(chan *published), idle: make(chan struct{}), ended: make(chan struct{}),
		byName: map[string]*published{},
	}
	go c.read(ch.NotifyReturn(make(chan amqp091.Return)), ch.NotifyClose(make(chan *amqp091.Error, 1)))
	go c.write()
	return c, nil
}

// read notes returned messages. The client closes the Go channels when the channel ends.
func (c *channel) read(returns chan amqp091.Return, closing chan *amqp091.Error) {
	for returns != nil {
		select {
		case r, ok := <-returns:
			if !ok {
				returns = nil
				continue
			}
			c.mu.Lock()
			if p := c.byName[nameOf(r.Headers)]; p != nil {
				p.returned = r.ReplyText
			}
			c.mu.Unlock()
		case c.idle <- struct{}{}:
		}
	}
	c.reason = errNoChannel
	if e := <-closing; e != nil {
		c.reason = e
	}
	close(c.ended)
}

// whyReturned returns why the broker returned a message that it has confirmed; empty: it did not. The broker sends the
// return first, so the client has passed it on already, and read has noted it when it is idle.
func (c *channel) whyReturned(p *published) string {
	select {
	case <-c.idle:
	case <-c.ended:
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return p.returned
}

func (c *channel) closed() bool {
	select {
	case <-c.ended:
		return true
	default:
		return c.ch.IsClosed()
	}
}

func (c *channel) forget(p *published) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byName[p.name] == p {
		delete(c.byName, p.name)
	}
}

// write is the only goroutine that publishes. The client ignores contexts while it writes, so only this goroutine waits
// for a broker that does not read.
func (c *channel) write() {
	for {
		select {
		case p := <-c.outbox:
			c.writeOne(p)
		case <-c.ended:
			return
		}
	}
}

func (c *channel) writeOne(p *published) {
	c.mu.Lock()
	if p.abandoned {
		c.mu.Unlock()
		return
	}
	p.taken = true
	c.byName[p.name] = p
	c.mu.Unlock()
	const mandatory, immediate = true, false
	response, err := c.ch.PublishWithDeferredConfirmWithContext(
		context.Background(), p.exchange, p.key, mandatory, immediate, p.msg)
	p.msg.Body = nil // it may wait long for its confirmation
	p.written <- written{response, err}
}

// giveUp abandons a message after its timeout and reports whether it may have been sent.
func (c *channel) giveUp(p *published) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	p.abandoned = true
	return p.taken
}
