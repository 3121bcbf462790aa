package amqp

import (
	"context"
	"slices"
	"sync"

	amqp091 "github.com/rabbitmq/amqp091-go"
)

// maxChannels is the maximum number of channels on one connection, and so of exchanges in use at the same
// time. RabbitMQ allows 2,047 by default, and a node may have 500 connections with this many channels each.
const maxChannels = 500

// channels are the channels of a connection, one per exchange. An idle channel is kept until another
// exchange needs its slot. If all channels are in use, further exchanges wait for a slot.
type channels struct {
	conn  *amqp091.Connection
	slots int

	mu         sync.Mutex // not locked while the client is called
	byExchange map[string]*slotted
	used       int        // slots in use
	waiting    []*slotted // for a slot, first come, first served
	uses       uint64
}

// slotted is a channel that is open, is being opened, waits for a slot, or could not be opened.
type slotted struct {
	exchange string
	ready    chan struct{} // closed when opening has ended
	ch       *channel
	err      error

	// The mutex of channels guards the fields below.
	users   int // deliveries, and the opening itself
	lastUse uint64
	hasSlot bool
}

func newChannels(conn *amqp091.Connection) *channels {
	// ChannelMax is never 0: the client has negotiated it with the broker, at most maxChannels.
	return &channels{
		conn: conn, slots: int(conn.Config.ChannelMax), byExchange: map[string]*slotted{},
	}
}

// get returns the channel of an exchange, and opens it if there is none. It waits until ctx ends. The caller
// must call release when it does not use the channel any more.
func (c *channels) get(ctx context.Context, exchange string) (ch *channel, release func(), err error) {
	s := c.acquire(exchange)          //nolint:contextcheck // others wait for the channel too
	release = func() { c.release(s) } //nolint:contextcheck // it opens channels for others
	select {
	case <-s.ready:
		err = s.err
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		release()
		return nil, nil, err
	}
	return s.ch, release, nil
}

// acquire returns the channel of an exchange, open or not, with one more user.
func (c *channels) acquire(exchange string) *slotted {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.byExchange[exchange]
	if s != nil && s.unusable() {
		c.drop(s)
		s = nil
	}
	if s == nil {
		s = &slotted{exchange: exchange, ready: make(chan struct{})}
		c.byExchange[exchange] = s
		c.waiting = append(c.waiting, s)
	}
	s.users++
	c.uses++
	s.lastUse = c.uses
	c.assignSlots()
	return s
}

// assignSlots gives slots to waiting channels: free slots first, then those of the least recently used idle
// channels.
func (c *channels) assignSlots() {
	for len(c.waiting) > 0 {
		var replaced *slotted
		if c.used >= c.slots {
			if replaced = c.oldestIdle(); replaced == nil {
				return
			}
			c.drop(replaced)
		}
		s := c.waiting[0]
		c.waiting = slices.Delete(c.waiting, 0, 1)
		s.hasSlot = true
		c.used++
		s.users++ // the opening itself
		go c.open(s, replaced)
	}
}

func (c *channels) oldestIdle() *slotted {
	var oldest *slotted
	for _, s := range c.byExchange {
		if s.hasSlot && s.users == 0 && (oldest == nil || s.lastUse < oldest.lastUse) {
			oldest = s
		}
	}
	return oldest
}

// open opens a channel, after it has closed the one it replaces, if any. The client waits for the broker's
// response without a limit, at most until the connection ends.
func (c *channels) open(s, replaced *slotted) {
	if replaced != nil && replaced.ch != nil {
		_ = replaced.ch.ch.Close() // its number is then free, whatever the broker responds
	}
	s.ch, s.err = newChannel(c.conn)
	close(s.ready)
	c.release(s)
}

// drop forgets a channel and frees its slot.
func (c *channels) drop(s *slotted) {
	if c.byExchange[s.exchange] == s {
		delete(c.byExchange, s.exchange)
	}
	if s.hasSlot {
		s.hasSlot = false
		c.used--
	}
}

func (c *channels) release(s *slotted) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.users--; s.users > 0 {
		return
	}
	switch {
	case !s.opened(): // no delivery waits for it any more
		c.waiting = slices.DeleteFunc(c.waiting, func(w *slotted) bool { return w == s })
		c.drop(s)
	case s.unusable():
		c.drop(s)
	}
	c.assignSlots()
}

// opened reports whether opening has ended, successfully or not.
func (s *slotted) opened() bool {
	select {
	case <-s.ready:
		return true
	default:
		return false
	}
}

// unusable reports whether the channel could not be opened, or is closed.
func (s *slotted) unusable() bool {
	return s.opened() && (s.err != nil || s.ch.closed())
}
