package amqp_test

import (
	"fmt"
	"net/url"
	"os"
	"testing"

	"github.com/google/uuid"
	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/target/amqp"
	"github.com/belfry-dev/belfry/internal/target/broker"
	"github.com/belfry-dev/belfry/internal/target/broker/brokertest"
	"github.com/belfry-dev/belfry/internal/target/targettest"
)

// address returns the address of the real server, or skips the test.
func address(t *testing.T) *url.URL {
	t.Helper()
	text := os.Getenv("BELFRY_TEST_AMQP_URL")
	if text == "" {
		t.Skip("no RabbitMQ; run: make test-targets")
	}
	u, err := url.Parse(text)
	require.NoError(t, err)
	return u
}

// at sets a broker and returns its name.
func at(password string, servers ...string) string {
	return brokertest.Set(access.Broker{
		Kind: "amqp", Config: access.BrokerConfig{Servers: servers, User: "belfry"},
		Credentials: access.BrokerCredentials{Password: password},
	})
}

func openChannel(t *testing.T) *amqp091.Channel {
	t.Helper()
	conn, err := amqp091.Dial(address(t).String())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	ch, err := conn.Channel()
	require.NoError(t, err)
	return ch
}

// server is an exchange that routes to a queue.
type server struct {
	*brokertest.Server
	t     *testing.T
	ch    *amqp091.Channel
	name  string
	bound string // the bound queue, if any
}

func startServer(t *testing.T) targettest.Server {
	u := address(t)
	b := &server{t: t, ch: openChannel(t), name: "t-" + uuid.NewString()}
	require.NoError(t, b.ch.ExchangeDeclare(b.name, "fanout", false, false, false, false, nil))
	t.Cleanup(func() { _ = b.ch.ExchangeDelete(b.name, false, false) })
	s := &brokertest.Server{Proxy: brokertest.NewProxy(t, u.Host), Messages: make(chan targettest.Delivery, 1000)}
	s.Settings = fmt.Sprintf(`{"broker": %q, "exchange": %q, "routing_key": "${job.id}",
		"headers": {"Authorization": {"secret": %q}}}`, at("belfry", s.Address()), b.name, targettest.SecretName)
	b.Server = s
	b.queue("all", nil)
	deliveries, err := b.ch.Consume(b.bound, "", true, false, false, false, nil)
	require.NoError(t, err)
	go func() {
		for d := range deliveries {
			if d.Headers["Authorization"] != targettest.Secret || d.DeliveryMode != amqp091.Persistent ||
				d.MessageId == "" {
				t.Errorf("a message without what belongs to it: %+v", d)
			}
			s.Messages <- brokertest.Delivery(func(name string) string { return fmt.Sprint(d.Headers[name]) }, d.Body)
		}
	}()
	s.Allow = func() { b.bind("all") }
	s.RefuseFinally = func() { b.bind("") }
	s.RefuseNow = func() { b.queue("full", amqp091.Table{"x-max-length": 0, "x-overflow": "reject-publish"}) }
	return s
}

func (b *server) queue(suffix string, args amqp091.Table) {
	_, err := b.ch.QueueDeclare(b.name+suffix, false, true, false, false, args)
	require.NoError(b.t, err)
	b.bind(suffix)
}

// bind binds the exchange to one queue, or to none.
func (b *server) bind(suffix string) {
	if b.bound != "" {
		require.NoError(b.t, b.ch.QueueUnbind(b.bound, "", b.name, nil))
		b.bound = ""
	}
	if suffix != "" {
		require.NoError(b.t, b.ch.QueueBind(b.name+suffix, "", b.name, false, nil))
		b.bound = b.name + suffix
	}
}

func TestConformance(t *testing.T) {
	t.Parallel()
	newTarget := func(_ *testing.T, e targettest.Environment) targettest.Target {
		return amqp.New(broker.Options{Brokers: brokertest.Brokers{}, Secrets: e.Secrets})
	}
	targettest.Run(t, targettest.Suite{Start: startServer, New: newTarget})
}
