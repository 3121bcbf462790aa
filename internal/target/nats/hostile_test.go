package nats_test

import (
	"bufio"
	"fmt"
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/target/broker"
	"github.com/belfry-dev/belfry/internal/target/broker/brokertest"
	"github.com/belfry-dev/belfry/internal/target/nats"
	"github.com/belfry-dev/belfry/internal/target/targettest"
)

// A server that repeats what it received as its reason does not get a secret into the message.
func TestRepeatedSecret(t *testing.T) {
	t.Parallel()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = fmt.Fprint(c, `INFO {"server_id":"x","version":"2.15.2","headers":true,"max_payload":1000000,`+
				`"proto":1}`+"\r\n")
			said, _ := bufio.NewReader(c).ReadString('\n')
			_, _ = fmt.Fprintf(c, "-ERR '%s'\r\n", said[:len(said)-2])
			_ = c.Close()
		}
	}()
	s := &brokertest.Secured{
		Kind: "nats", New: func(o broker.Options) targettest.Target { return nats.New(o) },
		Settings: object{"subject": "x"},
	}
	out := s.Deliver(t,
		object{"servers": []string{l.Addr().String()}, "user": "belfry", "password": object{"secret": "p"}},
		map[string]string{"p": targettest.Secret})
	require.Contains(t, out.Message, `"pass":"[hidden]"`)
}
