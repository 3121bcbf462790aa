package nats

import (
	"errors"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/target/broker"
	"github.com/belfry-dev/belfry/internal/target/throttle"
)

const (
	subscription = "1"       // the only one: responses
	maxBatch     = 256 << 10 // bytes that are written together
	writeLimit   = 10 * time.Second
	pingInterval = 30 * time.Second
	maxPings     = 3 // without a response
	// maxResponses is how many responses a message may get. One is expected. A service that also receives the
	// subject may respond too.
	maxResponses = 4
)

const (
	errLost   = broker.OwnError("the connection was lost")
	errClosed = broker.OwnError("it was not used any more")
	errStale  = broker.OwnError("it does not respond any more")
)

// connection to a server. It does not reconnect.
type connection struct {
	conn     net.Conn
	throttle *throttle.Dialer
	inbox    string         // the prefix of response subjects
	outbox   chan *outgoing // to the goroutine that writes
	pong     chan struct{}  // asks it to respond to a ping
	broken   chan struct{}  // closed when the connection breaks
	reason   error          // why it broke; set before broken is closed

	mu         sync.Mutex
	maxPayload int64
	lameDuck   bool   // the server is about to stop
	last       uint64 // number of the last message
	pending    map[uint64]chan received
	responses  int // that may still come
	pings      int // without a response
}

// outgoing is a message to write.
type outgoing struct {
	*message
	number uint64
}

func (c *connection) run(r *lineReader) {
	go c.read(r)
	go c.write()
}

// fail ends the connection.
func (c *connection) fail(err error) {
	if c.end(err) {
		_ = c.conn.Close() // without the lock: with TLS it may take seconds
	}
}

// end notes why the connection ends, and reports whether it had not ended before.
func (c *connection) end(err error) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isBroken() {
		return false
	}
	c.reason = err
	close(c.broken)
	return true
}

func (c *connection) isBroken() bool {
	select {
	case <-c.broken:
		return true
	default:
		return false
	}
}

// Retired implements broker.Retiring: the connection is broken, or its server is about to stop.
func (c *connection) Retired() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lameDuck || c.isBroken()
}

// expect registers a message and returns its number and where its response arrives.
func (c *connection) expect() (number uint64, response chan received) {
	response = make(chan received, 1)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last++
	c.pending[c.last] = response
	c.responses += maxResponses
	return c.last, response
}

// forget ends the wait for a response.
func (c *connection) forget(number uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.pending, number)
}

func (c *connection) tooLarge(m *message) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return int64(m.size()) > c.maxPayload
}

// read is the only goroutine that reads.
func (c *connection) read(r *lineReader) {
	for {
		verb, args, err := r.line()
		if err == nil {
			err = c.handle(r, verb, args)
		}
		if err != nil {
			c.fail(err)
			return
		}
	}
}

// handle processes a line and what belongs to it.
func (c *connection) handle(r *lineReader, verb string, args []byte) error {
	switch verb {
	case "MSG", "HMSG":
		m, err := r.message(verb, args)
		if err != nil {
			return err
		}
		return c.respond(m)
	case "PING":
		select {
		case c.pong <- struct{}{}:
		default: // one response to several pings is enough
		}
	case "PONG":
		c.mu.Lock()
		c.pings = 0
		c.mu.Unlock()
	case "INFO":
		i, err := parseInfo(args)
		if err != nil {
			return err
		}
		c.mu.Lock()
		c.maxPayload, c.lameDuck = i.MaxPayload, c.lameDuck || i.LameDuck
		c.mu.Unlock()
	case "-ERR":
		// The server keeps the connection. It does not say which message it rejected.
		if text := strings.ToLower(errorText(args)); strings.HasPrefix(text, "permissions violation") ||
			strings.HasPrefix(text, "maximum subscriptions exceeded") {
			return nil
		}
		return errLost
	case "+OK":
	default:
		return errProtocol
	}
	return nil
}

// respond passes a response to the delivery that waits for it. One that came too late is dropped.
func (c *connection) respond(m received) error {
	id, ok := strings.CutPrefix(m.subject, c.inbox)
	number, err := strconv.ParseUint(id, 10, 64)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.responses--; !ok || err != nil || number > c.last || c.responses < 0 {
		return errProtocol
	}
	if response := c.pending[number]; response != nil {
		delete(c.pending, number)
		response <- m
	}
	return nil
}

// write is the only goroutine that writes. It sends together what several deliveries pass to it at the same
// time. A server that does not read makes it wait, so a delivery that is not accepted in time was not sent.
func (c *connection) write() {
	ping := time.NewTicker(pingInterval)
	defer ping.Stop()
	var buf []byte
	for {
		buf = buf[:0]
		if cap(buf) > maxBatch {
			buf = nil
		}
		select {
		case o := <-c.outbox:
			buf = c.collect(o.appendTo(buf, c.reply(o.number)))
		case <-c.pong:
			buf = append(buf, "PONG\r\n"...)
		case <-ping.C:
			if !c.mayPing() {
				c.fail(errStale)
				return
			}
			buf = append(buf, "PING\r\n"...)
		case <-c.broken:
			return
		}
		if err := c.flush(buf); err != nil {
			c.fail(errLost)
			return
		}
	}
}

// collect adds the messages that wait.
func (c *connection) collect(buf []byte) []byte {
	for len(buf) < maxBatch {
		select {
		case o := <-c.outbox:
			buf = o.appendTo(buf, c.reply(o.number))
		default:
			return buf
		}
	}
	return buf
}

func (c *connection) reply(number uint64) string { return c.inbox + strconv.FormatUint(number, 10) }

func (c *connection) flush(buf []byte) error {
	if err := c.conn.SetWriteDeadline(clock.Now().Add(writeLimit)); err != nil {
		return err
	}
	_, err := c.conn.Write(buf)
	return err
}

// mayPing reports whether the server has responded to the pings before.
func (c *connection) mayPing() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pings++
	return c.pings <= maxPings
}

// errorText returns the text of -ERR.
func errorText(args []byte) string { return strings.Trim(strings.TrimSpace(string(args)), "'") }

// lost returns why the connection broke. What a server said is not part of it.
func (c *connection) lost() error {
	if own := broker.OwnError(""); errors.As(c.reason, &own) {
		return own
	}
	return errLost
}
