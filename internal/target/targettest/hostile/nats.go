package hostile

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// natsLong is a long text.
var natsLong = strings.Repeat("x", 32<<10)

func natsAttacks() []Attack {
	attacks := slices.Concat(natsMessages(), natsLines(), natsLogins(), natsResponses())
	for i := range attacks {
		attacks[i].Kind, attacks[i].SelfSecuring = "nats", true
	}
	return attacks
}

// natsMessages are attacks with messages that were not asked for.
func natsMessages() []Attack {
	again := func(text string) func(*Conn) { return afterLogin(func(n *natsConn) { n.flood(text) }) }
	return []Attack{
		{Name: "a message of 2^62 bytes", Worst: true, Serve: again("MSG a 1 4611686018427387904\r\nx")},
		{Name: "a message of 2^40 bytes", Worst: true, Serve: again("MSG a 1 1099511627776\r\nx")},
		{Name: "a message of -1 bytes", Serve: again("MSG a 1 -1\r\nx\r\n")},
		{Name: "headers larger than the message", Serve: again("HMSG a 1 900 9\r\nx\r\n")},
		{Name: "flood of messages", Serve: afterLogin(func(n *natsConn) {
			n.flood("MSG " + n.inbox() + "1 1 2\r\n{}\r\n")
		})},
		{Name: "flood of large messages", Serve: afterLogin(func(n *natsConn) {
			n.flood(fmt.Sprintf("MSG %s1 1 %d\r\n%s\r\n", n.inbox(), len(natsLong), natsLong))
		})},
	}
}

// natsLines are attacks with other lines.
func natsLines() []Attack {
	again := func(first, then string) func(*Conn) {
		return afterLogin(func(n *natsConn) { n.say(first); n.flood(then) })
	}
	return []Attack{
		{Name: "line without end", Worst: true, Serve: again("", natsLong)},
		{Name: "error without end", Serve: again("-ERR '", natsLong)},
		{Name: "flood of errors", Serve: again("", "-ERR 'Permissions Violation for Publish to \"x\"'\r\n")},
		{Name: "flood of pings", Worst: true, Serve: again("", strings.Repeat("PING\r\n", 1000))},
		{Name: "flood of +OK", Serve: again("", strings.Repeat("+OK\r\n", 1000))},
		{Name: "flood of INFO", Serve: again("", natsInfo(`,"connect_urls":["`+natsLong+`"]`))},
		{Name: "garbage after the login", Serve: again("", "\x00\xff\x16\x03\x01\r\n")},
		{Name: "does not read", Serve: afterLogin(func(n *natsConn) { <-n.done })},
	}
}

// natsLogins are attacks before the login.
func natsLogins() []Attack {
	insteadOfTLS := func(text string) func(*Conn) {
		return func(c *Conn) {
			c.say(natsInfo(`,"tls_required":true`))
			_, _ = c.in.Peek(1) // the target begins
			c.flood(text)
		}
	}
	return []Attack{
		{Name: "INFO without end", Worst: true, Serve: func(c *Conn) { c.say(`INFO {"server_id":"`); c.flood(natsLong) }},
		{Name: "INFO that is nested", Serve: func(c *Conn) {
			c.say("INFO " + strings.Repeat("[", 60<<10) + "\r\n")
			c.drain()
		}},
		{Name: "INFO, slowly", Serve: func(c *Conn) { c.trickle(natsInfo("")) }},
		{Name: "flood before the login", Serve: func(c *Conn) { c.flood("PING\r\n") }},
		{Name: "garbage", Serve: func(c *Conn) { c.flood("\x00\xff\x16\x03\x01\r\n") }},
		{Name: "garbage instead of TLS", Only: TLSOnly, Serve: insteadOfTLS(natsLong)},
		{Name: "endless TLS records", Only: TLSOnly, Serve: insteadOfTLS("\x16\x03\x03\x40\x00" + natsLong[:16<<10])},
	}
}

// natsResponses are attacks with the response to a message.
func natsResponses() []Attack {
	return []Attack{
		{Name: "a response of 2^31 bytes", Serve: onMessage(func(n *natsConn, reply string) {
			n.say("MSG " + reply + " 1 2147483648\r\n")
			n.flood(natsLong)
		})},
		{Name: "many responses to one message", Serve: onMessage(func(n *natsConn, reply string) {
			n.flood(fmt.Sprintf("MSG %s 1 %d\r\n%s\r\n", reply, len(natsLong), natsLong))
		})},
		{Name: "a response to no message", Serve: onMessage(func(n *natsConn, _ string) {
			n.flood("MSG " + n.inbox() + "18446744073709551615 1 2\r\n{}\r\n")
		})},
		{Name: "a nested response", Serve: onMessage(func(n *natsConn, reply string) {
			n.respond(reply, strings.Repeat(`{"error":`, 7000))
		})},
		{Name: "impossible codes", Serve: onMessage(func(n *natsConn, reply string) {
			n.respond(reply, `{"error":{"code":9223372036854775807,"err_code":-1,"description":"`+natsLong+`"}}`)
		})},
		{Name: "a response, slowly", Serve: onMessage(func(n *natsConn, reply string) {
			n.trickle("MSG " + reply + " 1 100\r\n" + strings.Repeat(" ", 100))
		})},
		{Name: "no response", Serve: onMessage(func(n *natsConn, _ string) { n.drain() })},
	}
}

func natsInfo(more string) string {
	return `INFO {"server_id":"x","version":"2.10.0","headers":true,"max_payload":1048576,"proto":1` + more + "}\r\n"
}

// natsConn is a connection that has logged in.
type natsConn struct {
	*Conn
	subscription string
	done         chan struct{} // closed when the target has closed the connection
}

func (n *natsConn) inbox() string { return strings.TrimSuffix(n.subscription, "*") }

func (n *natsConn) respond(reply, text string) {
	n.say("MSG " + reply + " 1 " + strconv.Itoa(len(text)) + "\r\n" + text + "\r\n")
}

// natsLogin accepts whoever connects.
func natsLogin(c *Conn) *natsConn {
	more := ""
	if c.tls != nil {
		more = `,"tls_required":true`
	}
	c.say(natsInfo(more))
	c.secure()
	n := &natsConn{Conn: c, done: make(chan struct{})}
	for {
		line, err := c.in.ReadString('\n')
		words := strings.Fields(line)
		switch {
		case err != nil:
			return nil
		case len(words) > 1 && words[0] == "SUB":
			n.subscription = words[1]
			return n
		case len(words) > 0 && words[0] == "PING":
			c.say("PONG\r\n")
		}
	}
}

// afterLogin attacks as soon as the target has logged in.
func afterLogin(attack func(n *natsConn)) func(c *Conn) {
	return func(c *Conn) {
		if n := natsLogin(c); n != nil {
			go func() { defer close(n.done); n.drain() }()
			attack(n)
			<-n.done
		}
	}
}

// onMessage attacks when a message arrives.
func onMessage(attack func(n *natsConn, reply string)) func(c *Conn) {
	return func(c *Conn) {
		n := natsLogin(c)
		for n != nil {
			line, err := c.in.ReadString('\n')
			if err != nil {
				return
			}
			words := strings.Fields(line)
			if len(words) != 5 || words[0] != "HPUB" {
				continue
			}
			size, _ := strconv.ParseInt(words[4], 10, 64)
			_, _ = io.CopyN(io.Discard, c.in, size+2)
			attack(n, words[2])
		}
	}
}
