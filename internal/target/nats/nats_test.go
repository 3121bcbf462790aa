package nats_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/target/broker"
	"github.com/belfry-dev/belfry/internal/target/broker/brokertest"
	"github.com/belfry-dev/belfry/internal/target/nats"
	"github.com/belfry-dev/belfry/internal/target/targettest"
)

// address returns the address of the real server, or skips the test.
func address(t *testing.T) string {
	t.Helper()
	url := os.Getenv("BELFRY_TEST_NATS_URL")
	if url == "" {
		t.Skip("no NATS; run: make test-targets")
	}
	return strings.TrimPrefix(url, "nats://")
}

func connect(t *testing.T, address string) jetstream.JetStream {
	t.Helper()
	conn, err := natsgo.Connect("nats://"+address, natsgo.Timeout(time.Minute))
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn, jetstream.WithDefaultTimeout(time.Minute))
	require.NoError(t, err)
	return js
}

// at sets a broker and returns its name.
func at(servers ...string) string {
	return brokertest.Set(access.Broker{Kind: "nats", Config: access.BrokerConfig{Servers: servers}})
}

func startServer(t *testing.T) targettest.Server {
	to := address(t)
	js := connect(t, to)
	name := "T" + natsgo.NewInbox()[7:]
	config := jetstream.StreamConfig{Name: name, Subjects: []string{name + ".>"}, Storage: jetstream.MemoryStorage}
	s := &brokertest.Server{Proxy: brokertest.NewProxy(t, to), Messages: make(chan targettest.Delivery, 1000)}
	s.Settings = fmt.Sprintf(`{"broker": %q, "subject": "%s.${job.id}",
		"headers": {"Authorization": {"secret": %q}}}`, at(s.Address()), name, targettest.SecretName)
	update := func(change func(*jetstream.StreamConfig)) func() {
		return func() {
			changed := config
			change(&changed)
			_, err := js.CreateOrUpdateStream(t.Context(), changed)
			require.NoError(t, err)
		}
	}
	s.Allow = update(func(*jetstream.StreamConfig) {})
	s.Allow()
	full := update(func(c *jetstream.StreamConfig) { c.Discard, c.MaxBytes = jetstream.DiscardNew, 1 })
	s.RefuseNow = func() { // a new stream, because the old one knows the ids it has seen
		require.NoError(t, js.DeleteStream(t.Context(), name))
		full()
	}
	s.RefuseFinally = update(func(c *jetstream.StreamConfig) { c.MaxMsgSize = 1 })
	// Not from the stream, which stores a message with the same id once.
	reading, err := js.Conn().Subscribe(name+".>", func(m *natsgo.Msg) {
		if m.Header.Get("Authorization") != targettest.Secret {
			t.Error("a message without its secret header")
		}
		s.Messages <- brokertest.Delivery(func(name string) string { return strings.Join(m.Header[name], ",") }, m.Data)
	})
	require.NoError(t, err)
	t.Cleanup(func() { _ = reading.Unsubscribe() })
	require.NoError(t, js.Conn().FlushTimeout(time.Minute))
	return s
}

func newTarget(_ *testing.T, g targettest.Environment) targettest.Target {
	return nats.New(broker.Options{Brokers: brokertest.Brokers{}, Secrets: g.Secrets})
}

func TestConformance(t *testing.T) {
	t.Parallel()
	targettest.Run(t, targettest.Suite{New: newTarget, Start: startServer})
}
