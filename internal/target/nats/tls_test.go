package nats_test

import (
	"testing"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/target/broker"
	"github.com/belfry-dev/belfry/internal/target/broker/brokertest"
	"github.com/belfry-dev/belfry/internal/target/nats"
	"github.com/belfry-dev/belfry/internal/target/targettest"
)

type object = map[string]any

func secured(t *testing.T) *brokertest.Secured {
	t.Helper()
	s := brokertest.NewSecured(t, "BELFRY_TEST_NATS_TLS_URL", "nats")
	s.Kind, s.New = "nats", func(o broker.Options) targettest.Target { return nats.New(o) }
	s.Plain = brokertest.Endpoint{Address: address(t)}
	s.SelfSecuring = true
	name := "T" + natsgo.NewInbox()[7:]
	s.Settings = object{"subject": name, "stream": name}
	return s
}

// makeStream creates a stream for the messages of the settings.
func makeStream(t *testing.T, s *brokertest.Secured, at string, options ...natsgo.Option) {
	t.Helper()
	conn, err := natsgo.Connect("tls://"+at, append(options, natsgo.RootCAs(s.Dir+"/ca.pem"))...)
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	require.NoError(t, err)
	name := s.Settings["subject"].(string)
	_, err = js.CreateStream(t.Context(),
		jetstream.StreamConfig{Name: name, Subjects: []string{name}, Storage: jetstream.MemoryStorage})
	require.NoError(t, err)
}

func TestSecured(t *testing.T) {
	t.Parallel()
	s := secured(t)
	login := natsgo.UserInfo(s.User, s.Password)
	makeStream(t, s, s.Address, login)
	o := newOperator(t)
	byCredentials := brokertest.Endpoint{Address: startSecured(t, s, ``, o.config())}
	credentials := o.credentials(o.account)
	makeStream(t, s, byCredentials.Address, natsgo.UserCredentialBytes([]byte(credentials)))
	stored := map[string]string{"nats": s.Password, "nats-creds": credentials}
	s.Guide(t, stored, func(config object) brokertest.Endpoint {
		if config["credentials"] != nil {
			return byCredentials
		}
		return s.Endpoint
	})
	s.Outage(t, nil)
	s.Mutual = brokertest.Endpoint{Address: startSecured(t, s, `verify: true`,
		`authorization: {user: "`+s.User+`", password: "`+s.Password+`"}`)}
	makeStream(t, s, s.Mutual.Address, login, natsgo.ClientCert(s.Dir+"/client.pem", s.Dir+"/client.pem"))
	s.Run(t)
}

// Ways to log in to NATS other than user and password.
func TestSecuredLogins(t *testing.T) {
	t.Parallel()
	s := secured(t)
	tls := object{"ca": s.PEM(t, "ca", brokertest.Certificate)}
	try := func(at, setting, value string) job.Outcome {
		return s.Deliver(t, object{"servers": []string{at}, "tls": tls, setting: object{"secret": "login"}},
			map[string]string{"login": value})
	}
	refused := func(out job.Outcome) {
		t.Helper()
		require.False(t, out.Retryable, "%+v", out)
		require.Contains(t, out.Message, "not take these credentials")
	}

	const token = targettest.Secret
	at := startSecured(t, s, ``, `authorization: {token: "`+token+`"}`)
	makeStream(t, s, at, natsgo.Token(token))
	require.Equal(t, job.Succeeded, try(at, "token", token).Kind)
	refused(try(at, "token", "another-4f1d9c0be7"))

	o := newOperator(t)
	at = startSecured(t, s, ``, o.config())
	makeStream(t, s, at, natsgo.UserCredentialBytes([]byte(o.credentials(o.account))))
	out := try(at, "credentials", o.credentials(o.account))
	require.Equal(t, job.Succeeded, out.Kind, "%+v", out)
	refused(try(at, "credentials", o.credentials(newOperator(t).account)))
	for _, text := range []string{
		targettest.Secret, "", "-----BEGIN NATS USER JWT-----\ncanary-4f1d9c0be7\n------END NATS USER JWT------\n",
	} {
		out = try(at, "credentials", text)
		require.False(t, out.Retryable, "%q: %+v", text, out)
	}
}
