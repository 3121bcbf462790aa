package amqp

import (
	"context"
	"errors"
	"sync"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/belfry-dev/belfry/internal/target/broker"
)

const errNoChannel = broker.OwnError("the channel was lost")

// channel publishes and joins returns and confirmations to what was published.
type channel struct {
	ch     *amqp091.Channel
	outbox chan *published // to the goroutine that writes
	ended  chan struct{}   // closed when the channel is
	reason error           // then

	mu      sync.Mutex // of the maps and of what is published; never held while the client is called
	pending map[uint64]*published
	byName  map[string]*published
}

// published is a message that is to be written, or waits for its confirmation.
type published struct {
	exchange, key string
	msg           amqp091.Publishing
	name          string // run and attempt: what a return is known by
	done          chan answer

	tag      uint64 // 0: not handed to the client yet
	gone     bool   // nobody waits for it any more
	returned string // why no queue got it
}

// answer is what became of a message.
type answer struct {
	kept     bool
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
	c := &channel{ch: ch, outbox: make(chan *published), ended: make(chan struct{}), pending: map[uint64]*published{}, byName: map[string]*published{}}
	go c.read(ch.NotifyReturn(make(chan amqp091.Return)), ch.NotifyPublish(make(chan amqp091.Confirmation)), ch.NotifyClose(make(chan *amqp091.Error, 1)))
	go c.write()
	return c, nil
}

// read is the one goroutine that hears the broker: see doc.go. The channels are
// closed with the channel.
func (c *channel) read(returns chan amqp091.Return, confirmations chan amqp091.Confirmation, closing chan *amqp091.Error) {
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
				c.forget(p)
				p.done <- answer{kept: n.Ack, returned: p.returned}
			}
			c.mu.Unlock()
		}
	}
	c.reason = errNoChannel
	if said := <-closing; said != nil {
		c.reason = said
	}
	close(c.ended)
}

func (c *channel) closed() bool {
	select {
	case <-c.ended:
		return true
	default:
		return c.ch.IsClosed()
	}
}

func (c *channel) idle() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.pending) == 0
}

func (c *channel) forget(p *published) {
	delete(c.pending, p.tag)
	if c.byName[p.name] == p {
		delete(c.byName, p.name)
	}
}

// write is the one goroutine that publishes, as tags count messages in order. The
// client heeds no context while it writes, so that only this goroutine waits for a
// broker that does not read. The one that hears the broker never waits for it: the
// client holds a lock of its own while it hands confirmations over, and publishing
// takes that lock.
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
	if p.gone {
		c.mu.Unlock()
		return
	}
	p.tag = tag
	c.pending[tag], c.byName[p.name] = p, p
	c.mu.Unlock()
	const mandatory, immediate = true, false
	err := c.ch.PublishWithContext(context.Background(), p.exchange, p.key, mandatory, immediate, p.msg)
	p.msg.Body = nil // it may wait long for its confirmation
	if err == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pending[tag] == p {
		c.forget(p)
		p.done <- answer{err: err}
	}
}

// giveUp on a message whose time is over, and say whether it may have been sent.
func (c *channel) giveUp(p *published) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	p.gone = true
	c.forget(p)
	return p.tag != 0
}
