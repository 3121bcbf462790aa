package kafka_test

import (
	"crypto/pbkdf2"
	"crypto/sha256"
	"crypto/sha512"
	"fmt"
	"os"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/target/broker"
	"github.com/belfry-dev/belfry/internal/target/broker/brokertest"
	"github.com/belfry-dev/belfry/internal/target/kafka"
	"github.com/belfry-dev/belfry/internal/target/targettest"
)

func secured(t *testing.T) *brokertest.Secured {
	t.Helper()
	s := brokertest.NewSecured(t, "BELFRY_TEST_KAFKA_TLS_URL", "kafka")
	s.Kind, s.New = "kafka", func(o broker.Options) targettest.Target { return kafka.New(o) }
	s.Plain = brokertest.Endpoint{Address: address(t), Silent: true}
	s.Mutual = brokertest.Endpoint{Address: os.Getenv("BELFRY_TEST_KAFKA_MUTUAL"), Anonymous: true}
	s.Expired = brokertest.Endpoint{Address: os.Getenv("BELFRY_TEST_KAFKA_EXPIRED"), Name: "expired.test"}
	s.Settings = map[string]any{"topic": newTopic(t, 1).name}
	s.Login = map[string]any{"sasl": "PLAIN"}
	return s
}

func TestSecured(t *testing.T) {
	t.Parallel()
	secured(t).Run(t)
}

func TestSecuredAway(t *testing.T) {
	t.Parallel()
	secured(t).Outage(t, func(d broker.Dialer) broker.Dialer { return &through{guard: d} })
}

func TestSecuredGuide(t *testing.T) {
	t.Parallel()
	s := secured(t)
	makeUser(t, s.User, s.Password, "SCRAM-SHA-512")
	s.Guide(t, map[string]string{"kafka": s.Password, "kafka-key": s.PEM(t, "client", brokertest.Key)},
		func(config map[string]any) brokertest.Endpoint {
			if brokertest.HasCertificate(config) {
				return s.Mutual
			}
			return s.Endpoint
		})
}

// Each mechanism with its own user, and other responses of servers to a login.
func TestSecuredLogins(t *testing.T) {
	t.Parallel()
	s := secured(t)
	const right, wrong = targettest.Secret, "another-4f1d9c0be7"
	scram := makeUser(t, "u-"+uuid.NewString(), right, "SCRAM-SHA-512", "SCRAM-SHA-256")
	half := makeUser(t, "u-"+uuid.NewString(), right, "SCRAM-SHA-256")
	for _, c := range []struct {
		at                   string
		user, password, sasl string
		says                 string // empty: it succeeds
	}{
		{s.Address, scram, right, "", ""},
		{s.Address, scram, right, "SCRAM-SHA-512", ""},
		{s.Address, scram, right, "SCRAM-SHA-256", ""},
		{s.Address, half, right, "SCRAM-SHA-256", ""},
		{s.Address, half, right, "SCRAM-SHA-512", "fix user, password and sasl"},
		{s.Address, scram, right, "PLAIN", "fix user, password and sasl"},
		{s.Address, scram, wrong, "SCRAM-SHA-256", "fix user, password and sasl"},
		{s.Address, "nobody", right, "SCRAM-SHA-512", "fix user, password and sasl"},
		{s.Address, "", "", "", "give user and password"},
		{s.Plain.Address, scram, right, "", "remove user and password"},
	} {
		t.Run(fmt.Sprintf("%s %s %s", c.user, c.sasl, c.says), func(t *testing.T) {
			t.Parallel()
			settings := map[string]any{"servers": []string{c.at}, "sasl": c.sasl}
			if c.at == s.Address {
				settings["tls"] = map[string]any{"ca": s.PEM(t, "ca", brokertest.Certificate)}
			}
			if c.user != "" {
				settings["user"], settings["password"] = c.user, map[string]any{"secret": "password"}
			}
			out := s.Deliver(t, settings, map[string]string{"password": c.password})
			require.Equal(t, c.says == "", out.Kind == job.Succeeded, "%+v", out)
			// A server that closes the connection may just be stopping.
			require.Equal(t, c.says == "give user and password", out.Retryable, "%+v", out)
			require.Contains(t, out.Message, c.says)
		})
	}
}

// makeUser creates a user for some SCRAM mechanisms.
func makeUser(t *testing.T, name, password string, mechanisms ...string) string {
	t.Helper()
	const rounds = 4096
	salt := []byte("salt of a test")
	client, err := kgo.NewClient(kgo.SeedBrokers(address(t)))
	require.NoError(t, err)
	defer client.Close()
	for _, m := range mechanisms {
		one := kmsg.NewAlterUserSCRAMCredentialsRequestUpsertion()
		one.Name, one.Iterations, one.Salt = name, rounds, salt
		hashed, size := sha256.New, sha256.Size
		one.Mechanism = 1
		if m == "SCRAM-SHA-512" {
			one.Mechanism, hashed, size = 2, sha512.New, sha512.Size
		}
		one.SaltedPassword, err = pbkdf2.Key(hashed, password, salt, rounds, size)
		require.NoError(t, err)
		r := kmsg.NewPtrAlterUserSCRAMCredentialsRequest()
		r.Upsertions = append(r.Upsertions, one)
		answer, err := r.RequestWith(t.Context(), client)
		require.NoError(t, err)
		require.Zero(t, answer.Results[0].ErrorCode)
	}
	return name
}
