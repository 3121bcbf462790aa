package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// listen serves each connection to the same port of Count addresses of the loopback network.
func (a *attack) listen(ctx context.Context, serve func(net.Conn)) error {
	for i := range a.Count {
		address := fmt.Sprintf("127.%d.%d.%d:%d", a.Net, i/250, i%250+1, a.port.Load())
		l, err := new(net.ListenConfig).Listen(ctx, "tcp4", address)
		if err != nil {
			return err
		}
		a.port.Store(int64(l.Addr().(*net.TCPAddr).Port))
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				go func() {
					defer a.hold()()
					defer func() { _ = c.Close() }()
					serve(c)
				}()
			}
		}()
	}
	return nil
}

// silent reads requests and never responds.
func (a *attack) silent(c net.Conn) {
	for buffer := make([]byte, 4096); ; {
		if _, err := c.Read(buffer); err != nil {
			return
		}
		a.done.Add(1)
	}
}

// host takes a while for each request.
func (a *attack) host(c net.Conn) {
	for r := bufio.NewReader(c); ; {
		request, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, request.Body)
		<-time.After(50 * time.Millisecond)
		_, _ = fmt.Fprint(c, "HTTP/1.1 204 No Content\r\n\r\n")
		a.done.Add(1)
	}
}

// broker speaks as much of the protocol of NATS as it takes to receive messages, and confirms none.
func (a *attack) broker(c net.Conn) {
	_, _ = fmt.Fprint(c, `INFO {"headers":true,"max_payload":1048576}`+"\r\n")
	for lines := bufio.NewScanner(c); lines.Scan(); {
		switch text := lines.Text(); {
		case strings.HasPrefix(text, "PING"):
			_, _ = fmt.Fprint(c, "PONG\r\n")
		case strings.HasPrefix(text, "PUB "), strings.HasPrefix(text, "HPUB "):
			a.done.Add(1)
		}
	}
}
