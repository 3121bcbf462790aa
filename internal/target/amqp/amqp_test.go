package amqp_test

import (
	"context"
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
	"github.com/belfry-dev/belfry/internal/target/secret"
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

// withPassword adds the server's password to the secrets of the suite.
type withPassword struct {
	secret.Source
	password string
}

func (w withPassword) Secret(
	ctx context.Context, namespace uuid.UUID, name string, use access.SecretUse,
) (access.Secret, error) {
	if name == "rabbitmq" {
		return access.Secret{Values: []string{w.password}}, nil
	}
	if w.Source == nil {
		return access.Secret{}, secret.ErrNone
	}
	return w.Source.Secret(ctx, namespace, name, use)
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
	s.Settings = fmt.Sprintf(`{"servers": [%q], "user": %q, "password": {"secret": "rabbitmq"},
		"exchange": %q, "routing_key": "${job.id}", "headers": {"Authorization": {"secret": %q}}}`,
		s.Address(), u.User.Username(), b.name, targettest.SecretName)
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
	password, _ := address(t).User.Password()
	newTarget := func(_ *testing.T, e targettest.Environment) targettest.Target {
		return amqp.New(broker.Options{Dialer: e.Guard, Secrets: withPassword{e.Secrets, password}})
	}
	targettest.Run(t, targettest.Suite{Start: startServer, New: newTarget})
}
