package amqp

import (
	"context"
	"errors"
	"sync"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/belfry-dev/belfry/internal/target/broker"
)

const errNoChannel = broker.OwnError("the channel was lost")

// channel publishes messages and matches returns and confirmations to them.
type channel struct {
	ch     *amqp091.Channel
	outbox chan *published // to the goroutine that writes
	ended  chan struct{}   // closed when the channel ends
	reason error           // why it ended; set before ended is closed

	mu      sync.Mutex // guards the maps and the messages; not locked while the client is called
	pending map[uint64]*published
	byName  map[string]*published
}

// published is a message that waits to be written, or for its confirmation.
type published struct {
	exchange, key string
	msg           amqp091.Publishing
	name          string // run and attempt, which identify a returned message
	done          chan result

	tag       uint64 // 0: not passed to the client yet
	abandoned bool   // no delivery waits for it any more
	returned  string // why no queue got it
	confirmed bool   // the broker has responded; the response itself is in response
	response  *amqp091.DeferredConfirmation
}

// result is the broker's response to a message, or an error.
type result struct {
	ack      bool
	returned string
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
		ch: ch, outbox: make(chan *published), ended: make(chan struct{}),
		pending: map[uint64]*published{}, byName: map[string]*published{},
	}
	go c.read(ch.NotifyReturn(make(chan amqp091.Return)), ch.NotifyPublish(make(chan amqp091.Confirmation)),
		ch.NotifyClose(make(chan *amqp091.Error, 1)))
	go c.write()
	return c, nil
}

// read is the only goroutine that receives from the broker: see the package page. The client closes the Go
// channels when the channel ends.
func (c *channel) read(
	returns chan amqp091.Return, confirmations chan amqp091.Confirmation, closing chan *amqp091.Error,
) {
	for returns != nil || confirmations != nil {
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
		case n, ok := <-confirmations:
			if !ok {
				confirmations = nil
				continue
			}
			c.mu.Lock()
			if p := c.pending[n.DeliveryTag]; p != nil {
				p.confirmed = true
				c.finish(p)
			}
			c.mu.Unlock()
		}
	}
	c.reason = errNoChannel
	if e := <-closing; e != nil {
		c.reason = e
	}
	close(c.ended)
}

// finish ends a message that has its confirmation, once the client has returned from publishing it. n.Ack of
// the notification is not used: the client passes notifications on in the order of their tags, and one
// confirmation of several tags overwrites the responses that came earlier for some of them, so a refused
// message would count as accepted. The deferred confirmation keeps the first response.
func (c *channel) finish(p *published) {
	if p.confirmed && p.response != nil {
		c.forget(p)
		p.done <- result{ack: p.response.Acked(), returned: p.returned}
	}
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
	delete(c.pending, p.tag)
	if c.byName[p.name] == p {
		delete(c.byName, p.name)
	}
}

// write is the only goroutine that publishes, because delivery tags number the messages in order. The client
// ignores contexts while it writes, so only this goroutine waits for a broker that does not read. The reading
// goroutine must never wait for this one: the client locks a mutex while it passes on confirmations, and
// publishing needs the same mutex.
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
	tag := c.ch.GetNextPublishSeqNo()
	c.mu.Lock()
	if p.abandoned {
		c.mu.Unlock()
		return
	}
	p.tag = tag
	c.pending[tag], c.byName[p.name] = p, p
	c.mu.Unlock()
	const mandatory, immediate = true, false
	response, err := c.ch.PublishWithDeferredConfirmWithContext(
		context.Background(), p.exchange, p.key, mandatory, immediate, p.msg)
	p.msg.Body = nil // it may wait long for its confirmation
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pending[tag] != p { // given up
		return
	}
	if err != nil {
		c.forget(p)
		p.done <- result{err: err}
		return
	}
	p.response = response
	c.finish(p)
}

// giveUp abandons a message after its timeout and reports whether it may have been sent.
func (c *channel) giveUp(p *published) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	p.abandoned = true
	c.forget(p)
	return p.tag != 0
}
