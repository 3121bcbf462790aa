package pgtest

import (
	"net"
	"net/url"
	"testing"
	"time"
)

// chunk is some bytes of a connection, and when they may go on.
type chunk struct {
	at    time.Time
	bytes []byte
}

// Delayed returns the URL of a database through a link that delays what is sent by a time, in both directions, as a
// database far away. Delays do not add up: what is sent together arrives together.
func Delayed(t testing.TB, direct string, delay time.Duration) string {
	t.Helper()
	to, err := url.Parse(direct)
	if err != nil {
		t.Fatalf("pgtest: read the URL of the test's database: %v", err)
	}
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("pgtest: listen: %v", err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	server := to.Host
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			database, err := new(net.Dialer).DialContext(t.Context(), "tcp", server)
			if err != nil {
				_ = client.Close()
				continue
			}
			go pass(client, database, delay)
			go pass(database, client, delay)
		}
	}()
	to.Host = listener.Addr().String()
	return to.String()
}

// pass passes on what one side sends, later.
func pass(from, to net.Conn, delay time.Duration) {
	chunks := make(chan chunk, 10_000)
	go func() {
		defer func() { _ = to.Close() }()
		for c := range chunks {
			time.Sleep(time.Until(c.at)) //nolint:forbidigo // this is the delay
			if _, err := to.Write(c.bytes); err != nil {
				_ = from.Close()
			}
		}
	}()
	defer close(chunks)
	for {
		b := make([]byte, 64<<10)
		n, err := from.Read(b)
		if n > 0 {
			chunks <- chunk{time.Now().Add(delay), b[:n]} //nolint:forbidigo // the clock of the link
		}
		if err != nil {
			return
		}
	}
}
