package amqp

import (
	"encoding/binary"
	"maps"
)

// scanner finds the methods in what the client writes, however it is cut.
type scanner struct {
	skip int // bytes that are no head
	head [frameHead + methodHead]byte
	have int
}

// scan calls found for each method.
func (s *scanner) scan(b []byte, found func(channel uint16, m method)) {
	for len(b) > 0 {
		if s.skip > 0 {
			n := min(s.skip, len(b))
			b, s.skip = b[n:], s.skip-n
			continue
		}
		need := frameHead
		if s.have >= frameHead {
			need = len(s.head)
		}
		n := copy(s.head[s.have:need], b)
		b, s.have = b[n:], s.have+n
		if s.have < need || need == frameHead && s.head[0] == methodFrame {
			continue
		}
		if need == len(s.head) {
			found(binary.BigEndian.Uint16(s.head[1:]), method(binary.BigEndian.Uint32(s.head[frameHead:])))
		}
		const end = 1
		s.skip = frameHead + int(binary.BigEndian.Uint32(s.head[3:])) + end - s.have
		s.have = 0
	}
}

// confirms are the confirmations of a channel. A broker confirms each message once.
type confirms struct {
	published uint64
	below     uint64              // all tags up to this one are confirmed
	above     map[uint64]struct{} // confirmed tags after it
}

// confirm notes a confirmation and reports whether the broker may send it.
func (c *confirms) confirm(tag uint64, multiple bool) bool {
	if _, twice := c.above[tag]; twice || tag <= c.below || tag > c.published {
		return false
	}
	switch {
	case multiple:
		if c.below = tag; len(c.above) > 0 {
			maps.DeleteFunc(c.above, func(t uint64, _ struct{}) bool { return t <= tag })
		}
	case tag == c.below+1:
		c.below = tag
	case len(c.above) >= maxGap:
		return false
	default:
		if c.above == nil {
			c.above = map[uint64]struct{}{}
		}
		c.above[tag] = struct{}{}
		return true
	}
	for len(c.above) > 0 {
		if _, ok := c.above[c.below+1]; !ok {
			break
		}
		c.below++
		delete(c.above, c.below)
	}
	return true
}
