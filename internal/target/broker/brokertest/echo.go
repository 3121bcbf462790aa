package brokertest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
)

// Echo starts a NATS server that rejects each message. As the reason it repeats the login and those headers
// of the message that the test names.
func Echo(t testing.TB, names ...string) (address string) {
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // closed when the test ends
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go echo(c, names)
		}
	}()
	return l.Addr().String()
}

func echo(c net.Conn, names []string) {
	defer func() { _ = c.Close() }()
	_, _ = io.WriteString(c,
		"INFO {\"server_id\":\"x\",\"version\":\"2.10.0\",\"headers\":true,\"max_payload\":1048576}\r\n")
	var login, subscription string
	for in := bufio.NewReader(c); ; {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		words := strings.Fields(line)
		switch {
		case len(words) == 0:
		case words[0] == "CONNECT":
			_, login, _ = strings.Cut(strings.TrimSpace(line), `"user"`)
		case words[0] == "PING":
			_, _ = io.WriteString(c, "PONG\r\n")
		case words[0] == "SUB":
			subscription = words[len(words)-1]
		case words[0] == "HPUB" && len(words) == 5:
			headers := ""
			for header := ""; err == nil && header != "\r\n"; header, err = in.ReadString('\n') {
				if name, _, _ := strings.Cut(header, ":"); slices.Contains(names, name) {
					headers += header
				}
			}
			text, _ := json.Marshal(map[string]any{"error": map[string]any{
				"code": 400, "err_code": 10054, "description": "you said " + headers + " as" + login,
			}})
			_, _ = fmt.Fprintf(c, "MSG %s %s %d\r\n%s\r\n", words[2], subscription, len(text), text)
		}
	}
}
