package hostile

import (
	"encoding/binary"
	"io"
	"math"
	"slices"
	"strings"
)

// frame returns a frame of AMQP.
func frame(kind byte, channel uint16, payload string) string {
	b := binary.BigEndian.AppendUint16([]byte{kind}, channel)
	b = binary.BigEndian.AppendUint32(b, uint32(len(payload)))
	return string(b) + payload + "\xce"
}

// call returns the frame of a method.
func call(channel, class, method uint16, args string) string {
	b := binary.BigEndian.AppendUint16(nil, class)
	return frame(1, channel, string(binary.BigEndian.AppendUint16(b, method))+args)
}

func longText(text string) string {
	return string(binary.BigEndian.AppendUint32(nil, uint32(len(text)))) + text
}

func number(n uint64) string { return string(binary.BigEndian.AppendUint64(nil, n)) }

func ack(tag uint64, multiple string) string { return call(1, 60, 80, number(tag)+multiple) }

// returned is a returned message with a body.
func returned(channel uint16, size uint64, body string) string {
	return call(channel, 60, 50, "\x01\x38\x00\x00\x00") +
		frame(2, channel, "\x00\x3c\x00\x00"+number(size)+"\x00\x00") + body
}

// returnedHeaders is a returned message with headers and without a body.
func returnedHeaders(table string) string {
	return call(1, 60, 50, "\x01\x38\x00\x00\x00") +
		frame(2, 1, "\x00\x3c\x00\x00"+number(0)+"\x20\x00"+table)
}

func amqpStart(properties string) string {
	return call(0, 10, 10, "\x00\x09"+longText(properties)+longText("PLAIN")+longText("en_US"))
}

func amqpTune(channels uint16, frameMax uint32, heartbeat uint16) string {
	b := binary.BigEndian.AppendUint16(nil, channels)
	b = binary.BigEndian.AppendUint32(b, frameMax)
	return call(0, 10, 30, string(binary.BigEndian.AppendUint16(b, heartbeat)))
}

func amqpAttacks() []Attack {
	attacks := slices.Concat(amqpConfirmations(), amqpReturns(), amqpFrames(), amqpLogins())
	for i := range attacks {
		attacks[i].Kind, attacks[i].Login = "amqp", true
	}
	return attacks
}

var (
	amqpLong   = strings.Repeat("x", 120<<10)
	amqpPart   = frame(3, 1, amqpLong) // of a body
	amqpNormal = amqpTune(2047, 128<<10, 60)
)

// amqpConfirmations are attacks with confirmations.
func amqpConfirmations() []Attack {
	return []Attack{
		{Name: "confirms all tags that there are", Worst: true, Serve: onPublish(func(c *Conn) {
			c.say(ack(math.MaxUint64, "\x01"))
		})},
		{Name: "confirms tags that were never sent", Worst: true, Serve: onPublish(func(c *Conn) {
			for tag := uint64(2); c.say(ack(tag, "\x00")); tag++ {
				continue
			}
		})},
		{Name: "confirms one tag again and again", Serve: onPublish(func(c *Conn) { c.flood(ack(1, "\x00")) })},
		{Name: "confirms tag 0", Serve: onPublish(func(c *Conn) { c.flood(ack(0, "\x01")) })},
	}
}

// amqpReturns are attacks with returned messages.
func amqpReturns() []Attack {
	return []Attack{
		{Name: "flood of returned messages", Worst: true, Serve: onPublish(func(c *Conn) {
			c.flood(returned(1, uint64(len(amqpLong)), amqpPart))
		})},
		{Name: "a returned message without end", Serve: onPublish(func(c *Conn) {
			c.say(returned(1, math.MaxInt64, ""))
			c.flood(amqpPart)
		})},
		{Name: "returned messages that never end", Serve: onPublish(func(c *Conn) {
			for c.say(returned(1, 1<<20, amqpPart)) {
				continue
			}
		})},
		{Name: "returned headers that are nested", Serve: onPublish(func(c *Conn) {
			table := ""
			for range 30 {
				table = "\x01aF" + longText(table)
			}
			c.flood(returnedHeaders(longText(table)))
		})},
		{Name: "returned headers with many fields", Serve: onPublish(func(c *Conn) {
			table := longText("\x01aA" + longText(strings.Repeat("V", 100<<10)))
			c.flood(returnedHeaders(table))
		})},
	}
}

// amqpFrames are attacks with other frames.
func amqpFrames() []Attack {
	return []Attack{
		{Name: "deliveries", Serve: onPublish(func(c *Conn) {
			c.flood(call(1, 60, 60, "\x01a"+number(1)+"\x00\x00\x00") +
				frame(2, 1, "\x00\x3c\x00\x00"+number(uint64(len(amqpLong)))+"\x00\x00") + amqpPart)
		})},
		{Name: "flow", Serve: onPublish(func(c *Conn) { c.flood(call(1, 20, 20, "\x00") + call(1, 20, 20, "\x01")) })},
		{Name: "frames of channels that are not open", Serve: onPublish(func(c *Conn) {
			for n := uint16(2); c.say(call(n, 20, 40, "\x01\x38\x00\x00\x00\x00\x00")); n++ {
				continue
			}
		})},
		{Name: "replies that were not asked for", Serve: onPublish(func(c *Conn) { c.flood(call(1, 20, 11, longText(""))) })},
		{Name: "more than one login", Serve: onPublish(func(c *Conn) { c.flood(amqpStart("")) })},
		{Name: "blocked and not", Serve: onPublish(func(c *Conn) {
			c.flood(call(0, 10, 60, "\x01x") + call(0, 10, 61, ""))
		})},
		{Name: "heartbeats", Worst: true, Serve: onPublish(func(c *Conn) { c.flood(strings.Repeat(frame(8, 0, ""), 1000)) })},
		{Name: "heartbeats on a channel", Serve: onPublish(func(c *Conn) { c.flood(frame(8, 1, "")) })},
		{Name: "a frame of 2^32 bytes", Worst: true, Serve: onPublish(func(c *Conn) {
			c.say("\x03\x00\x01\xff\xff\xff\xff")
			c.flood(amqpLong)
		})},
		{Name: "a frame with the wrong end", Serve: onPublish(func(c *Conn) { c.flood("\x08\x00\x00\x00\x00\x00\x00\x00") })},
		{Name: "garbage after the login", Serve: onPublish(func(c *Conn) { c.flood("\xff\xfe\xfd\xfc\xfb\xfa") })},
		{Name: "does not answer", Serve: onPublish(func(*Conn) {})},
		{Name: "a confirmation, slowly", Serve: onPublish(func(c *Conn) { c.trickle(strings.Repeat(frame(8, 0, ""), 9)) })},
		{Name: "tuned to the smallest values", Serve: onTuned(amqpTune(1, 1, 1), func(c *Conn) { c.flood(ack(1, "\x00")) })},
		{Name: "tuned to the largest values", Serve: onTuned(amqpTune(65535, math.MaxUint32, 65535), func(c *Conn) {
			c.say("\x02\x00\x01\x7f\xff\xff\xff")
			c.flood(amqpLong)
		})},
	}
}

// amqpLogins are attacks before the first message.
func amqpLogins() []Attack {
	return []Attack{
		{Name: "endless frame before the login", Serve: func(c *Conn) {
			c.say("\x01\x00\x00\xff\xff\xff\xff")
			c.flood(amqpLong)
		}},
		{Name: "nested properties", Serve: func(c *Conn) {
			table := ""
			for range 400 {
				table = "\x01aF" + longText(table)
			}
			c.say(amqpStart(table))
			c.drain()
		}},
		{Name: "login, slowly", Serve: func(c *Conn) { c.trickle(amqpStart("")) }},
		{Name: "login again and again", Serve: func(c *Conn) { c.flood(amqpStart("")) }},
		{Name: "garbage", Serve: func(c *Conn) { c.flood("\xff\xfe\xfd\xfc\xfb\xfa") }},
		{Name: "garbage instead of TLS", Only: TLSOnly, SelfSecuring: true, Serve: func(c *Conn) { c.flood(amqpLong) }},
		{Name: "endless TLS records", Only: TLSOnly, SelfSecuring: true, Serve: func(c *Conn) {
			c.flood("\x16\x03\x03\x40\x00" + amqpLong[:16<<10])
		}},
	}
}

// onPublish attacks when the first message has arrived.
func onPublish(attack func(c *Conn)) func(c *Conn) { return onTuned(amqpNormal, attack) }

// onTuned logs in whoever connects, with these limits, and attacks when the first message has arrived.
func onTuned(tune string, attack func(c *Conn)) func(c *Conn) {
	return func(c *Conn) {
		if _, err := io.CopyN(io.Discard, c.in, 8); err != nil || !c.say(amqpStart("")) {
			return
		}
		replies := map[uint32]string{
			10<<16 | 11: tune, 10<<16 | 40: call(0, 10, 41, "\x00"), 20<<16 | 10: call(1, 20, 11, longText("")),
			85<<16 | 10: call(1, 85, 11, ""),
		}
		for {
			head := make([]byte, 7)
			if _, err := io.ReadFull(c.in, head); err != nil {
				return
			}
			payload := make([]byte, binary.BigEndian.Uint32(head[3:])+1)
			if _, err := io.ReadFull(c.in, payload); err != nil {
				return
			}
			if head[0] == 3 { // the body of a message
				done := make(chan struct{})
				go func() { defer close(done); c.drain() }()
				attack(c)
				<-done
				return
			}
			if head[0] == 1 {
				c.say(replies[binary.BigEndian.Uint32(payload)])
			}
		}
	}
}
