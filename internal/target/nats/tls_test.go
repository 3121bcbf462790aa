package nats_test

import (
	"fmt"
	"testing"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/target/broker"
	"github.com/belfry-dev/belfry/internal/target/broker/brokertest"
	"github.com/belfry-dev/belfry/internal/target/nats"
	"github.com/belfry-dev/belfry/internal/target/targettest"
)

type object = map[string]any

func secured(t *testing.T) (s *brokertest.Secured, name string) {
	t.Helper()
	s = brokertest.NewSecured(t, "BELFRY_TEST_NATS_TLS_URL", "nats")
	s.Kind, s.New = "nats", func(o broker.Options) targettest.Target { return nats.New(o) }
	s.Plain, s.SelfSecuring = address(t), true
	name = "T" + natsgo.NewInbox()[7:]
	s.Config = fmt.Sprintf(`"subject": %q, "stream": %q`, name, name)
	return s, name
}

// makeStream creates a stream for the messages of the config.
func makeStream(t *testing.T, s *brokertest.Secured, name, at string, options ...natsgo.Option) {
	t.Helper()
	options = append(options, natsgo.RootCAs(s.Dir+"/ca.pem"), natsgo.Timeout(time.Minute))
	conn, err := natsgo.Connect("tls://"+at, options...)
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn, jetstream.WithDefaultTimeout(time.Minute))
	require.NoError(t, err)
	_, err = js.CreateStream(t.Context(),
		jetstream.StreamConfig{Name: name, Subjects: []string{name}, Storage: jetstream.MemoryStorage})
	require.NoError(t, err)
}

func TestSecured(t *testing.T) {
	t.Parallel()
	s, name := secured(t)
	user, password := s.Broker.Config.User, s.Credentials.Password
	login := natsgo.UserInfo(user, password)
	makeStream(t, s, name, s.Broker.Config.Servers[0], login)
	s.Mutual = brokertest.Endpoint{Address: startSecured(t, s, `verify: true`,
		`authorization: {user: "`+user+`", password: "`+password+`"}`)}
	makeStream(t, s, name, s.Mutual.Address, login, natsgo.ClientCert(s.Dir+"/client.pem", s.Dir+"/client.pem"))
	s.Run(t)
}

// Ways to log in to NATS other than user and password.
func TestSecuredLogins(t *testing.T) {
	t.Parallel()
	s, name := secured(t)
	try := func(at string, c access.BrokerCredentials) job.Outcome {
		return s.Deliver(t, func(b *access.Broker) {
			b.Config.Servers, b.Config.User, b.Credentials = []string{at}, "", c
		})
	}
	refused := func(out job.Outcome) {
		t.Helper()
		require.True(t, out.Retryable, "%+v", out)
		require.Contains(t, out.Message, "does not take the login")
	}

	const token = targettest.Secret
	at := startSecured(t, s, ``, `authorization: {token: "`+token+`"}`)
	makeStream(t, s, name, at, natsgo.Token(token))
	require.Equal(t, job.Succeeded, try(at, access.BrokerCredentials{Token: token}).Kind)
	refused(try(at, access.BrokerCredentials{Token: "another-4f1d9c0be7"}))

	o := newOperator(t)
	at = startSecured(t, s, ``, o.config())
	makeStream(t, s, name, at, natsgo.UserCredentialBytes([]byte(o.credentials(o.account))))
	out := try(at, access.BrokerCredentials{Creds: o.credentials(o.account)})
	require.Equal(t, job.Succeeded, out.Kind, "%+v", out)
	refused(try(at, access.BrokerCredentials{Creds: o.credentials(newOperator(t).account)}))
	for _, text := range []string{
		targettest.Secret, "-----BEGIN NATS USER JWT-----\ncanary-4f1d9c0be7\n------END NATS USER JWT------\n",
	} {
		out = try(at, access.BrokerCredentials{Creds: text})
		require.True(t, out.Retryable, "%q: %+v", text, out)
	}
}
