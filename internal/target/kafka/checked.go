package kafka

import (
	"encoding/binary"
	"io"
	"net"
	"slices"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/belfry-dev/belfry/internal/target/broker"
)

const (
	maxResponse = 128 << 10       // bytes
	maxMetadata = 2 << 20         // bytes: maxPartitions with eight replicas
	maxSockets  = 300             // of one client, which has two to each broker that it produces to
	burst       = 2 * maxMetadata // bytes that may come at once: see package throttle
)

const (
	errProtocol = broker.OwnError("it sent what no Kafka broker sends to a producer")
	errOld      = broker.OwnError("it asks for a login as before Kafka 1.0, which is not supported")
	errSockets  = broker.OwnError("the client has too many connections to brokers of this cluster")
)

// requests are those of a producer. What else the client would write is the login of old brokers, which has no
// form that could be checked.
var requests = []kmsg.Key{
	kmsg.Produce, kmsg.Metadata, kmsg.SASLHandshake, kmsg.ApiVersions, kmsg.InitProducerID, kmsg.SASLAuthenticate,
}

// checked stands between the socket and the client, which trusts the broker: it follows both directions, and
// passes on responses of a limited size to requests that were sent. It reads metadata before the client does,
// because the client keeps what is in there.
type checked struct {
	net.Conn
	cluster *cluster
	closing sync.Once
	out     scanner

	ready []byte // of the response, checked
	pass  int    // bytes after it that are not checked

	mu      sync.Mutex
	pending []request
}

// request is a request without a response.
type request struct {
	key     kmsg.Key
	version int16
}

// Write notes which responses may come, before the broker can send them.
func (c *checked) Write(b []byte) (int, error) {
	c.mu.Lock()
	err := c.out.scan(b, func(r request) error {
		switch {
		case !slices.Contains(requests, r.key), r.key == kmsg.SASLHandshake && r.version == 0:
			return errOld
		default:
			c.pending = append(c.pending, r)
			return nil
		}
	})
	c.mu.Unlock()
	if err != nil {
		return 0, err
	}
	return c.Conn.Write(b)
}

// Read must be called by one goroutine at a time.
func (c *checked) Read(b []byte) (int, error) {
	if len(c.ready) == 0 && c.pass == 0 {
		if err := c.next(); err != nil {
			return 0, err
		}
	}
	if len(c.ready) > 0 {
		n := copy(b, c.ready)
		c.ready = c.ready[n:]
		return n, nil
	}
	n, err := c.Conn.Read(b[:min(len(b), c.pass)])
	c.pass -= n
	return n, err
}

// next reads the size of a response, and all of it if it is metadata.
func (c *checked) next() error {
	head := make([]byte, 4)
	if _, err := io.ReadFull(c.Conn, head); err != nil {
		return err
	}
	size := binary.BigEndian.Uint32(head)
	r, ok := c.answered()
	switch {
	case ok && r.key == kmsg.Metadata && size > maxMetadata:
		c.cluster.refuse()
		return errProtocol
	case !ok, r.key != kmsg.Metadata && size > maxResponse:
		return errProtocol
	case r.key != kmsg.Metadata:
		c.ready, c.pass = head, int(size)
		return nil
	}
	response := make([]byte, size)
	if _, err := io.ReadFull(c.Conn, response); err != nil {
		return err
	}
	if !c.cluster.accept(r.version, response) {
		return errProtocol
	}
	c.ready = slices.Concat(head, response)
	return nil
}

// answered returns the request that the next response belongs to.
func (c *checked) answered() (r request, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.pending) == 0 {
		return r, false
	}
	r, c.pending = c.pending[0], c.pending[1:]
	return r, true
}

// Close closes the connection.
func (c *checked) Close() error {
	c.closing.Do(c.cluster.closed)
	return c.Conn.Close()
}

// scanner finds the requests in what the client writes, however it is cut.
type scanner struct {
	skip int // bytes that are no head
	head [8]byte
	have int
}

// scan calls found for each request.
func (s *scanner) scan(b []byte, found func(request) error) error {
	for len(b) > 0 {
		if s.skip > 0 {
			n := min(s.skip, len(b))
			b, s.skip = b[n:], s.skip-n
			continue
		}
		n := copy(s.head[s.have:], b)
		b, s.have = b[n:], s.have+n
		if s.have < len(s.head) {
			return nil
		}
		const keyAndVersion = 4
		s.skip, s.have = int(binary.BigEndian.Uint32(s.head[:]))-keyAndVersion, 0
		key, version := binary.BigEndian.Uint16(s.head[4:]), binary.BigEndian.Uint16(s.head[6:])
		if err := found(request{kmsg.Key(key), int16(version)}); err != nil {
			return err
		}
	}
	return nil
}
