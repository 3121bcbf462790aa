package hostile

import (
	"bufio"
	"encoding/binary"
	"io"
	"net/http"
	"slices"
	"strings"
)

var httpLong = strings.Repeat("x", 32<<10)

func httpAttacks() []Attack {
	attacks := slices.Concat(http1Attacks(), http2Attacks())
	for i := range attacks {
		attacks[i].Kind = "http"
	}
	return attacks
}

// answer attacks when a request has arrived. Over TLS it is one of HTTP/1 too, because the target is offered
// nothing else.
func answer(attack func(c *Conn)) func(c *Conn) {
	return func(c *Conn) {
		if c.tls != nil {
			c.tls = c.tls.Clone()
			c.tls.NextProtos = []string{"http/1.1"}
		}
		c.secure()
		r, err := http.ReadRequest(bufio.NewReader(c.in))
		if err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		attack(c)
	}
}

func http1Attacks() []Attack {
	const ok = "HTTP/1.1 200 OK\r\n"
	again := func(first, then string) func(*Conn) {
		return answer(func(c *Conn) { c.say(first); c.flood(then) })
	}
	attacks := []Attack{
		{Name: "headers without end", Worst: true, Serve: again(ok, "X-A: "+httpLong+"\r\n")},
		{Name: "a header without end", Serve: again(ok+"X-A: ", httpLong)},
		{Name: "a status without end", Serve: again("HTTP/1.1 200 ", httpLong)},
		{Name: "flood of 1xx", Serve: again("", "HTTP/1.1 103 Early\r\nX-A: 1\r\n\r\n")},
		{Name: "a body without end", Serve: again(ok+"\r\n", httpLong)},
		{Name: "chunks without end", Serve: again(ok+"Transfer-Encoding: chunked\r\n\r\n", "1\r\nx\r\n")},
		{Name: "a chunk of 2^63 bytes", Serve: again(ok+"Transfer-Encoding: chunked\r\n\r\n7fffffffffffffff\r\n", httpLong)},
		{Name: "a chunk size without end", Serve: again(ok+"Transfer-Encoding: chunked\r\n\r\n", "0")},
		{Name: "chunk extensions without end", Serve: again(ok+"Transfer-Encoding: chunked\r\n\r\n", "1;x="+httpLong[:3000]+"\r\nx\r\n")},
		{Name: "trailers without end", Serve: again(ok+"Transfer-Encoding: chunked\r\n\r\n0\r\n", "X-A: 1\r\n")},
		{Name: "a negative length", Serve: again(ok+"Content-Length: -1\r\n\r\n", httpLong)},
		{Name: "responses that were not asked for", Serve: again("", ok+"Content-Length: 0\r\n\r\n")},
		{Name: "headers, slowly", Serve: answer(func(c *Conn) { c.trickle(ok + httpLong) })},
		{Name: "a body, slowly", Serve: answer(func(c *Conn) { c.say(ok + "\r\n"); c.trickle(httpLong) })},
		{Name: "garbage", Serve: again("", "\x00\xff\xfe\r\n")},
		{Name: "no answer", Serve: answer((*Conn).drain)},
		{Name: "garbage instead of TLS", Only: TLSOnly, Serve: func(c *Conn) { c.flood(httpLong) }},
		{Name: "endless TLS records", Only: TLSOnly, Serve: func(c *Conn) {
			c.flood("\x16\x03\x03\x40\x00" + httpLong[:16<<10])
		}},
	}
	for i := range attacks {
		attacks[i].SelfSecuring = true
	}
	return attacks
}

// h2 returns a frame of HTTP/2.
func h2(kind, flags byte, stream uint32, payload string) string {
	head := binary.BigEndian.AppendUint32(nil, uint32(len(payload))<<8|uint32(kind))
	return string(binary.BigEndian.AppendUint32(append(head, flags), stream)) + payload
}

// Types and flags of frames.
const (
	h2Data, h2Headers, h2Reset, h2Settings, h2Push, h2Ping, h2GoAway, h2Window, h2Continuation = 0, 1, 3, 4, 5, 6, 7, 8, 9

	h2EndHeaders = 4
)

// stream attacks when the first request has arrived by HTTP/2.
func stream(attack func(c *Conn)) func(c *Conn) {
	return func(c *Conn) {
		c.say(h2(h2Settings, 0, 0, ""))
		const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
		if _, err := io.CopyN(io.Discard, c.in, int64(len(preface))); err != nil {
			return
		}
		for {
			head := make([]byte, 9)
			if _, err := io.ReadFull(c.in, head); err != nil {
				return
			}
			_, _ = io.CopyN(io.Discard, c.in, int64(binary.BigEndian.Uint32(head)>>8))
			if head[3] == h2Headers {
				break
			}
		}
		done := make(chan struct{})
		go func() { defer close(done); c.drain() }()
		attack(c)
		<-done
	}
}

func http2Attacks() []Attack {
	again := func(frame string) func(*Conn) {
		many := strings.Repeat(frame, max(1, 16<<10/len(frame)))
		return stream(func(c *Conn) { c.flood(many) })
	}
	const ok = "\x88" // :status 200
	attacks := []Attack{
		{Name: "flood of pings", Serve: again(h2(h2Ping, 0, 0, "12345678"))},
		{Name: "flood of settings", Serve: again(h2(h2Settings, 0, 0, "\x00\x04\x00\x01\x00\x00"))},
		{Name: "flood of empty data", Serve: stream(func(c *Conn) {
			c.say(h2(h2Headers, h2EndHeaders, 1, ok))
			c.flood(strings.Repeat(h2(h2Data, 0, 1, ""), 1000))
		})},
		{Name: "headers without end", Serve: stream(func(c *Conn) {
			c.say(h2(h2Headers, 0, 1, ok))
			c.flood(h2(h2Continuation, 0, 1, "\x40\x01a\x01b"))
		})},
		{Name: "headers that grow", Serve: stream(func(c *Conn) {
			c.say(h2(h2Headers, 0, 1, ok+"\x40\x01a\x7f\x81\x1e"+httpLong[:4000]))
			c.flood(h2(h2Continuation, 0, 1, strings.Repeat("\xbe", 16000)))
		})},
		{Name: "flood of 1xx", Serve: again(h2(h2Headers, h2EndHeaders, 1, "\x08\x03103"))},
		{Name: "flood of windows", Serve: again(h2(h2Window, 0, 0, "\x00\x00\x00\x01"))},
		{Name: "flood of unknown frames", Worst: true, Serve: again(h2(99, 0, 0, httpLong[:16000]))},
		{Name: "flood of resets", Serve: again(h2(h2Reset, 0, 1, "\x00\x00\x00\x08"))},
		{Name: "flood of goodbyes", Serve: again(h2(h2GoAway, 0, 0, "\x7f\xff\xff\xff\x00\x00\x00\x00"))},
		{Name: "pushes", Serve: again(h2(h2Push, h2EndHeaders, 1, "\x00\x00\x00\x02"+ok))},
		{Name: "a body without end", Serve: stream(func(c *Conn) {
			c.say(h2(h2Headers, h2EndHeaders, 1, ok))
			c.flood(h2(h2Data, 0, 1, httpLong[:16000]))
		})},
		{Name: "a frame of 2^24 bytes", Serve: stream(func(c *Conn) {
			c.say("\xff\xff\xff\x00\x00\x00\x00\x00\x01")
			c.flood(httpLong)
		})},
		{Name: "a window of 0", Serve: stream(func(c *Conn) { c.flood(h2(h2Settings, 0, 0, "\x00\x04\x00\x00\x00\x00")) })},
	}
	for i := range attacks {
		attacks[i].Name, attacks[i].Only = "HTTP/2: "+attacks[i].Name, TLSOnly
	}
	return attacks
}
