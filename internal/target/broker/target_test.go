package broker_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/target/broker"
)

// TestBrokersThatCannotBeUsed: a run whose broker is gone, not allowed, of another kind, unreadable or without TLS may be
// retried, and its message has nothing of the error.
func TestBrokersThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	remote := access.BrokerConfig{Servers: []string{"10.0.0.1:1"}, User: "u"}
	login := access.BrokerCredentials{Password: "canary"}
	for _, c := range []struct {
		source one
		says   string
	}{
		{one{err: access.ErrNoBroker}, "there is no broker good that this namespace may use"},
		{one{err: errors.New("canary")}, "could not be read just now"},
		{one{broker: access.Broker{Kind: "nats"}}, "is of kind nats"},
		{one{broker: access.Broker{Kind: "fake", Config: remote, Credentials: login}}, "without encryption"},
	} {
		target := newFake(broker.Options{Brokers: c.source, Encrypted: true})
		out := target.Deliver(t.Context(), attemptAt(uuid.New(), fake{Server: "good"}))
		require.True(t, out.Kind == job.Failed && out.Retryable && !out.Unknown && !out.Down, "%+v", out)
		require.Contains(t, out.Message, c.says)
		require.NotContains(t, out.Message, "canary")
		target.Close()
	}
}

// TestAChangedBrokerGetsAnotherConnection, also if only its credentials have changed.
func TestAChangedBrokerGetsAnotherConnection(t *testing.T) {
	t.Parallel()
	o := &opened{broker: access.Broker{Kind: "fake"}}
	target := newFakeOf(broker.Options{Brokers: o}, o.open)
	deliver := func() {
		out := target.Deliver(t.Context(), attemptAt(uuid.New(), fake{Server: "good"}))
		require.Equal(t, job.Succeeded, out.Kind, "%+v", out)
	}
	deliver()
	deliver()
	require.Equal(t, 1, o.count, "namespaces share it")
	o.broker.Credentials.Password = "another"
	deliver()
	require.Equal(t, 2, o.count)
	target.Close()
}

// opened counts the connections to a broker.
type opened struct {
	broker access.Broker
	count  int
}

func (o *opened) Broker(context.Context, uuid.UUID, string) (*access.Broker, error) {
	b := o.broker
	return &b, nil
}

func (o *opened) open(context.Context, *access.Broker) (string, error) {
	o.count++
	return "", nil
}

// TestMessagesOfConnectionsAreRedacted: what an error repeats of the credentials is not shown, even where it is cut off.
func TestMessagesOfConnectionsAreRedacted(t *testing.T) {
	t.Parallel()
	const key = "first \"line\"\nsecond-line"
	b := access.Broker{Kind: "fake", Credentials: access.BrokerCredentials{Key: key}}
	for said, want := range map[string]string{
		"nothing of it":                       "(nothing of it)",
		`a first "line" b`:                    "(a [hidden] b)",
		`{"key": "first \"line\"\n"}`:         `({"key": "[hidden]\n"})`,
		"second-line, second-line":            "([hidden], [hidden])",
		"it was cut there, within another-l…": "(it was cut there, within [hidden]…)",
	} {
		target := newFakeOf(broker.Options{Brokers: one{broker: b}}, func(context.Context, *access.Broker) (string, error) {
			return "", errors.New(said)
		})
		out := target.Deliver(t.Context(), attemptAt(uuid.New(), fake{Server: "good"}))
		require.Equal(t, "the broker good could not be connected to "+want, out.Message)
		target.Close()
	}
}

// TestComplete: what an operator may leave out is filled in, and every problem is reported with its flag.
func TestComplete(t *testing.T) {
	t.Parallel()
	good := access.Broker{Name: "orders", Kind: "kafka", Config: access.BrokerConfig{Servers: []string{"a", "b:1", "[::1]:2"}}}
	require.NoError(t, broker.Complete(&good))
	require.Equal(t, []string{"a:9092", "b:1", "[::1]:2"}, good.Config.Servers)
	pem := "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
	for want, change := range map[string]func(b *access.Broker){
		"name":          func(b *access.Broker) { b.Name = "a b" },
		"kind":          func(b *access.Broker) { b.Kind = "mqtt" },
		"server":        func(b *access.Broker) { b.Config.Servers = []string{"kafka://u:canary@x"} },
		"password-file": func(b *access.Broker) { b.Config.User = "u" },
		"sasl":          func(b *access.Broker) { b.Config.SASL = "GSSAPI" },
		"vhost":         func(b *access.Broker) { b.Config.VHost = "/" },
		"token-file":    func(b *access.Broker) { b.Credentials.Token = "canary" },
		"credentials-file": func(b *access.Broker) {
			b.Kind, b.Credentials = "nats", access.BrokerCredentials{Token: "canary", Creds: "x"}
		},
		"username": func(b *access.Broker) { b.Kind = "amqp" },
		"tls-ca":   func(b *access.Broker) { b.Config.TLS = &access.BrokerTLS{CA: "canary"} },
		"tls-key-file": func(b *access.Broker) {
			b.Config.TLS = &access.BrokerTLS{Certificate: pem}
			b.Credentials.Key = "canary"
		},
	} {
		b := access.Broker{Name: "orders", Kind: "kafka", Config: access.BrokerConfig{Servers: []string{"a"}}}
		change(&b)
		err := broker.Complete(&b)
		require.ErrorContains(t, err, want)
		require.NotContains(t, strings.ReplaceAll(err.Error(), want, ""), "canary")
	}
}
