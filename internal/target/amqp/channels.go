package amqp

import (
	"context"
	"slices"
	"sync"

	amqp091 "github.com/rabbitmq/amqp091-go"
)

// maxChannels on one connection, and so exchanges that are written to at once.
// RabbitMQ allows 2,047 by default, and 500 connections of a node may each have as many.
const maxChannels = 500

// channels of a connection, one for each exchange. What is not used is kept until its
// place is needed; who finds no place waits for one.
type channels struct {
	conn *amqp091.Connection
	most int

	mu      sync.Mutex // never held while the client is called
	by      map[string]*opening
	places  int        // that are taken
	waiting []*opening // for a place, in the order they came
	uses    uint64
}

// opening is a channel that is, will be, or could not be made.
type opening struct {
	exchange string
	ready    chan struct{} // closed when opening has ended
	ch       *channel
	err      error

	// All below are guarded by the mutex of the channels.
	users  int    // deliveries, and the opening itself
	last   uint64 // use
	placed bool
}

func newChannels(conn *amqp091.Connection) *channels {
	// The client's limit is never 0: it has agreed on one with the broker.
	return &channels{conn: conn, most: min(maxChannels, int(conn.Config.ChannelMax)), by: map[string]*opening{}}
}

// get the channel of an exchange, made if there is none, and waited for as long as ctx
// allows. release has to be called when it is no longer used.
func (c *channels) get(ctx context.Context, exchange string) (ch *channel, release func(), err error) {
	at := c.find(exchange)             //nolint:contextcheck // others wait for the channel too
	release = func() { c.release(at) } //nolint:contextcheck // it opens for others
	select {
	case <-at.ready:
		err = at.err
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		release()
		return nil, nil, err
	}
	return at.ch, release, nil
}

// find where the channel of an exchange is or will be, with one more user.
func (c *channels) find(exchange string) *opening {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := c.by[exchange]
	if at != nil && at.over() {
		c.drop(at)
		at = nil
	}
	if at == nil {
		at = &opening{exchange: exchange, ready: make(chan struct{})}
		c.by[exchange] = at
		c.waiting = append(c.waiting, at)
	}
	at.users++
	c.uses++
	at.last = c.uses
	c.admit()
	return at
}

// admit who waits, as far as there are places: free ones, or those of channels that
// nobody uses, the longest unused first.
func (c *channels) admit() {
	for len(c.waiting) > 0 {
		var unused *opening
		if c.places >= c.most {
			if unused = c.unused(); unused == nil {
				return
			}
			c.drop(unused)
		}
		at := c.waiting[0]
		c.waiting = slices.Delete(c.waiting, 0, 1)
		at.placed = true
		c.places++
		at.users++ // the opening itself
		go c.open(at, unused)
	}
}

func (c *channels) unused() *opening {
	var longest *opening
	for _, at := range c.by {
		if at.placed && at.users == 0 && (longest == nil || at.last < longest.last) {
			longest = at
		}
	}
	return longest
}

// open a channel in the place of another, if not nil. The client waits for the broker's
// answers without a limit; they end with the connection at the latest.
func (c *channels) open(at, instead *opening) {
	if instead != nil && instead.ch != nil {
		_ = instead.ch.ch.Close() // its number is free then, whatever the broker said
	}
	at.ch, at.err = newChannel(c.conn)
	close(at.ready)
	c.release(at)
}

// drop forgets a channel, and frees its place.
func (c *channels) drop(at *opening) {
	if c.by[at.exchange] == at {
		delete(c.by, at.exchange)
	}
	if at.placed {
		at.placed = false
		c.places--
	}
}

func (c *channels) release(at *opening) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at.users--; at.users > 0 {
		return
	}
	switch {
	case !at.opened(): // nobody waits for it any more
		c.waiting = slices.DeleteFunc(c.waiting, func(o *opening) bool { return o == at })
		c.drop(at)
	case at.over():
		c.drop(at)
	}
	c.admit()
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
