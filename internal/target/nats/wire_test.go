package nats

import (
	"errors"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// newTestConnection returns a connection that has sent that many messages.
func newTestConnection(messages int) *connection {
	ours, _ := net.Pipe()
	c := &connection{
		conn: ours, inbox: "_INBOX.x.", pong: make(chan struct{}, 1), broken: make(chan struct{}),
		pending: map[uint64]chan received{},
	}
	for range messages {
		c.expect()
	}
	return c
}

// What a server sends ends the connection, unless it is allowed.
func TestWhatServersSend(t *testing.T) {
	t.Parallel()
	const one = "MSG _INBOX.x.1 1 2\r\n{}\r\n"
	long := strings.Repeat("x", maxPayload)
	for said, ok := range map[string]bool{
		"PING\r\nPONG\r\n+OK\r\n":                                 true,
		"INFO {\"max_payload\": 1}\r\n":                           true,
		"INFO {\"x\": \"" + long[:maxInfo/2] + "\"}\r\n":          true,
		"INFO {\"x\": \"" + long + "\"}\r\n":                      false,
		"INFO x\r\n":                                              false,
		"-ERR 'Permissions Violation for x'\r\n":                  true,
		"-ERR 'Stale Connection'\r\n":                             false,
		"-ERR 'Permissions Violation " + long[:maxLine] + "'\r\n": false,
		one:                                 true,
		strings.Repeat(one, maxResponses):   true,
		strings.Repeat(one, maxResponses+1): false,
		"HMSG _INBOX.x.1 1 16 16\r\nNATS/1.0 503\r\n\r\n\r\n": true,
		"HMSG _INBOX.x.1 1 17 16\r\nNATS/1.0 503\r\n\r\n\r\n": false,
		"MSG _INBOX.x.1 1 reply 2\r\n{}\r\n":                  true,
		"MSG _INBOX.x.1 1 reply more 2\r\n{}\r\n":             false,
		"MSG _INBOX.x.1 1 3\r\n{}\r\n\r\n":                    false,
		"MSG _INBOX.x.1 2 2\r\n{}\r\n":                        false,
		"MSG _INBOX.x.2 1 2\r\n{}\r\n":                        false,
		"MSG _INBOX.x. 1 2\r\n{}\r\n":                         false,
		"MSG other 1 2\r\n{}\r\n":                             false,
		"MSG _INBOX.x.1 1 65536\r\n" + long + "\r\n":          true,
		"MSG _INBOX.x.1 1 65537\r\n" + long + "x\r\n":         false,
		"MSG _INBOX.x.1 1 -2\r\n{}\r\n":                       false,
		"MSG _INBOX.x.1 1 4611686018427387904\r\n{}\r\n":      false,
		"MSG\r\n":  false,
		"HELO\r\n": false,
		"\r\n":     false,
	} {
		c := newTestConnection(1)
		err := c.readAll(said)
		require.Equal(t, ok, errors.Is(err, io.EOF), "%.60q: %v", said, err)
	}
	c := newTestConnection(0)
	require.ErrorIs(t, c.readAll(one), errProtocol, "no message was sent")
}

// blocked is a socket whose Close takes until it is released, as with TLS.
type blocked struct {
	net.Conn
	closing, release chan struct{}
}

func (b *blocked) Close() error {
	close(b.closing)
	<-b.release
	return nil
}

// Deliveries do not wait while a broken connection is closed.
func TestSlowClose(t *testing.T) {
	t.Parallel()
	c := newTestConnection(1)
	b := &blocked{Conn: c.conn, closing: make(chan struct{}), release: make(chan struct{})}
	c.conn = b
	ended := make(chan struct{})
	go func() { defer close(ended); c.fail(errLost) }()
	<-b.closing
	require.True(t, c.Retired())
	require.ErrorIs(t, c.lost(), errLost)
	c.fail(errClosed)
	c.forget(1)
	close(b.release)
	<-ended
}

func (c *connection) readAll(said string) error {
	c.read(newLineReader(strings.NewReader(said)))
	return c.reason
}

// FuzzServer: nothing that a server sends panics, and each message gets at most one response.
func FuzzServer(f *testing.F) {
	f.Add("INFO {}\r\nPING\r\nMSG _INBOX.x.1 1 2\r\n{}\r\nHMSG _INBOX.x.2 1 16 16\r\nNATS/1.0 503\r\n\r\n\r\n")
	f.Add("MSG _INBOX.x.1 1 99999999999999999999\r\n")
	f.Add("-ERR 'x'\r\n")
	f.Fuzz(func(t *testing.T, said string) {
		c := newTestConnection(2)
		require.Error(t, c.readAll(said))
	})
}
