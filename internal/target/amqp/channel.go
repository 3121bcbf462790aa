package amqp

import (
	"context"
	"errors"
	"sync"

	amqp091 "github.com/rabbitmq/amqp091-go"
)

var errNoChannel = errors.New("the channel was lost")

// channel publishes and joins returns and confirmations to what was published.
type channel struct {
	ch     *amqp091.Channel
	ended  chan struct{} // closed when the channel is
	reason error         // then

	mu      sync.Mutex // publishing, too: tags count what is published in order
	pending map[uint64]*published
	byName  map[string]*published
}

// published is a message that waits for its confirmation.
type published struct {
	name     string // run and attempt: what a return is known by
	returned string // why no queue got it
	done     chan bool
}

func newChannel(conn *amqp091.Connection) (*channel, error) {
	ch, err := conn.Channel()
	if err != nil {
		return nil, err
	}
	if err := ch.Confirm(false); err != nil {
		return nil, errors.Join(err, ch.Close())
	}
	c := &channel{ch: ch, ended: make(chan struct{}), pending: map[uint64]*published{}, byName: map[string]*published{}}
	go c.read(ch.NotifyReturn(make(chan amqp091.Return)), ch.NotifyPublish(make(chan amqp091.Confirmation)), ch.NotifyClose(make(chan *amqp091.Error, 1)))
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
				c.forget(n.DeliveryTag, p)
				p.done <- n.Ack
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

func (c *channel) forget(tag uint64, p *published) {
	delete(c.pending, tag)
	if c.byName[p.name] == p {
		delete(c.byName, p.name)
	}
}

// publish hands a message over. The tag is to be forgotten if nobody waits for it any more.
func (c *channel) publish(ctx context.Context, exchange, key string, msg amqp091.Publishing) (*published, uint64, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := &published{name: nameOf(msg.Headers), done: make(chan bool, 1)}
	tag := c.ch.GetNextPublishSeqNo()
	c.pending[tag], c.byName[p.name] = p, p
	const mandatory, immediate = true, false
	if err := c.ch.PublishWithContext(ctx, exchange, key, mandatory, immediate, msg); err != nil {
		c.forget(tag, p)
		return nil, 0, err
	}
	return p, tag, nil
}

// giveUp on a message whose time is over.
func (c *channel) giveUp(tag uint64, p *published) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forget(tag, p)
}
