package amqp

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"sync/atomic"

	"github.com/belfry-dev/belfry/internal/target/broker"
)

// errProtocol says that a broker sent what a publisher never asked for, or more than Belfry reads.
const errProtocol = broker.OwnError("it sent what no RabbitMQ sends to a publisher")

const (
	frameSize   = 128 << 10 // the maximum, as RabbitMQ has it
	maxMethod   = 4 << 10   // bytes of a method
	maxReturned = 1 << 20   // bytes of a returned message, more than any payload
	maxGap      = 100_000   // confirmations after a message without one
	frameEnd    = 0xCE
	frameHead   = 7 // type, channel, size
	methodHead  = 4 // class, method
	contentHead = 14
	greeting    = 8 // what a client sends first, which is no frame
)

// Types of frames.
const (
	methodFrame    = 1
	headerFrame    = 2
	bodyFrame      = 3
	heartbeatFrame = 8
)

// frameLimits are the maximum sizes of payloads. Heartbeats, and types that do not exist, have none.
var frameLimits = [256]uint32{methodFrame: maxMethod, headerFrame: frameSize, bodyFrame: frameSize}

// method is the number of a class and of one of its methods.
type method uint32

const (
	connectionStart     method = 10<<16 | 10
	connectionStartOK   method = 10<<16 | 11
	connectionTune      method = 10<<16 | 30
	connectionOpen      method = 10<<16 | 40
	connectionOpenOK    method = 10<<16 | 41
	connectionClose     method = 10<<16 | 50
	connectionCloseOK   method = 10<<16 | 51
	connectionBlocked   method = 10<<16 | 60
	connectionUnblocked method = 10<<16 | 61
	channelOpen         method = 20<<16 | 10
	channelOpenOK       method = 20<<16 | 11
	channelClose        method = 20<<16 | 40
	channelCloseOK      method = 20<<16 | 41
	basicPublish        method = 60<<16 | 40
	basicReturn         method = 60<<16 | 50
	basicAck            method = 60<<16 | 80
	basicNack           method = 60<<16 | 120
	confirmSelect       method = 85<<16 | 10
	confirmSelectOK     method = 85<<16 | 11
)

// replies are what the client waits for after a request.
var replies = map[method]method{
	connectionStartOK: connectionTune, connectionOpen: connectionOpenOK, connectionClose: connectionCloseOK,
	channelOpen: channelOpenOK, channelClose: channelCloseOK, confirmSelect: confirmSelectOK,
}

// checked stands between the socket and the client, which trusts the broker: it follows both directions, and
// passes on what a broker may send to a publisher. Anything else ends the connection. The client never sees
// the bodies of returned messages, because it would collect them in memory, and Belfry does not need them.
type checked struct {
	net.Conn
	in    *bufio.Reader
	frame []byte // the part that the client has not read yet
	out   scanner

	mu       sync.Mutex
	channels map[uint16]*watched

	// gap says that half of maxGap messages were confirmed after one that is not. Then the connection gets no others.
	gap atomic.Bool
}

// watched is a channel, or the connection itself, which is channel 0.
type watched struct {
	open     bool
	expected map[method]bool // replies
	confirms confirms
	returned uint64 // messages
	content  content
	body     uint64 // bytes of the body of a returned message that are still to come
}

// content is what must come next on a channel.
type content int

const (
	noContent content = iota
	wantHeader
	wantBody
)

func newChecked(conn net.Conn) *checked {
	return &checked{
		Conn: conn, in: bufio.NewReaderSize(conn, maxMethod), out: scanner{skip: greeting},
		channels: map[uint16]*watched{0: {open: true, expected: map[method]bool{connectionStart: true}}},
	}
}

// Write notes which replies and confirmations may come, before the broker can send them.
func (c *checked) Write(b []byte) (int, error) {
	c.out.scan(b, c.sent)
	return c.Conn.Write(b)
}

func (c *checked) sent(channel uint16, m method) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.channels[channel]
	switch {
	case m == channelOpen:
		w = &watched{open: true, expected: map[method]bool{}}
		c.channels[channel] = w
	case w == nil:
		return
	case m == basicPublish:
		w.confirms.published++
	case m == channelCloseOK:
		w.open = false
	}
	if reply, ok := replies[m]; ok {
		w.expected[reply] = true
	}
}

// Read must be called by one goroutine at a time.
func (c *checked) Read(b []byte) (int, error) {
	for len(c.frame) == 0 {
		if err := c.next(); err != nil {
			return 0, err
		}
	}
	n := copy(b, c.frame)
	c.frame = c.frame[n:]
	return n, nil
}

// next reads a frame and checks it. It reserves memory only after it has checked the size.
func (c *checked) next() error {
	head, err := c.in.Peek(frameHead)
	if err != nil {
		return err
	}
	kind, channel := head[0], binary.BigEndian.Uint16(head[1:])
	size := binary.BigEndian.Uint32(head[3:])
	if size > frameLimits[kind] {
		return errProtocol
	}
	if kind == bodyFrame {
		return c.skipBody(channel, size)
	}
	frame := make([]byte, frameHead+size+1)
	if _, err := io.ReadFull(c.in, frame); err != nil {
		return err
	}
	if frame[len(frame)-1] != frameEnd || !c.allowed(kind, channel, frame[frameHead:frameHead+size]) {
		return errProtocol
	}
	c.frame = frame
	return nil
}

// skipBody drops a part of the body of a returned message.
func (c *checked) skipBody(channel uint16, size uint32) error {
	c.mu.Lock()
	w := c.channels[channel]
	ok := w != nil && w.open && w.content == wantBody && size > 0 && uint64(size) <= w.body
	if ok {
		if w.body -= uint64(size); w.body == 0 {
			w.content = noContent
		}
	}
	c.mu.Unlock()
	if !ok {
		return errProtocol
	}
	if _, err := c.in.Discard(frameHead + int(size)); err != nil {
		return err
	}
	end, err := c.in.ReadByte()
	if err == nil && end != frameEnd {
		err = errProtocol
	}
	return err
}

// allowed reports whether the broker may send a frame now.
func (c *checked) allowed(kind byte, channel uint16, payload []byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.channels[channel]
	switch {
	case w == nil:
		return false
	case kind == heartbeatFrame:
		return channel == 0
	case kind == headerFrame:
		return w.header(payload)
	case kind != methodFrame, len(payload) < methodHead, w.content != noContent:
		return false
	}
	m := method(binary.BigEndian.Uint32(payload))
	switch {
	case w.expected[m]:
		delete(w.expected, m)
		w.open = w.open && m != channelCloseOK
		return true
	case channel == 0:
		return m == connectionClose || m == connectionBlocked || m == connectionUnblocked
	case !w.open:
		return false
	}
	ok := w.event(m, payload[methodHead:])
	if len(w.confirms.above) > maxGap/2 {
		c.gap.Store(true)
	}
	return ok
}

// header checks the header of a returned message, and removes the size of the body.
func (w *watched) header(payload []byte) bool {
	if w.content != wantHeader || len(payload) < contentHead {
		return false
	}
	w.content = noContent
	if w.body = binary.BigEndian.Uint64(payload[4:]); w.body > 0 {
		w.content = wantBody
	}
	clear(payload[4:12])
	return w.body <= maxReturned
}

// event checks a method that is no reply.
func (w *watched) event(m method, args []byte) bool {
	switch m {
	case channelClose:
		return true
	case basicReturn: // at most one for each message
		w.returned++
		w.content = wantHeader
		return w.returned <= w.confirms.published
	case basicAck, basicNack:
		const tag, multiple = 8, 1
		return len(args) >= tag+multiple && w.confirms.confirm(binary.BigEndian.Uint64(args), args[tag]&1 == 1)
	default:
		return false
	}
}
