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

	"github.com/belfry-dev/belfry/internal/access"
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
	s.Plain = address(t)
	s.Mutual = brokertest.Endpoint{Address: os.Getenv("BELFRY_TEST_KAFKA_MUTUAL"), Anonymous: true}
	s.Expired = brokertest.Endpoint{Address: os.Getenv("BELFRY_TEST_KAFKA_EXPIRED"), Name: "expired.test"}
	s.Config = fmt.Sprintf(`"topic": %q`, newTopic(t, 1).name)
	s.Broker.Config.SASL = "PLAIN"
	return s
}

func TestSecured(t *testing.T) {
	t.Parallel()
	secured(t).Run(t)
}

// Each mechanism with its own user, and other responses of servers to a login.
func TestSecuredLogins(t *testing.T) {
	t.Parallel()
	s := secured(t)
	const right, wrong, rejected = targettest.Secret, "another-4f1d9c0be7", "does not take the login"
	scram := makeUser(t, "u-"+uuid.NewString(), right, "SCRAM-SHA-512", "SCRAM-SHA-256")
	half := makeUser(t, "u-"+uuid.NewString(), right, "SCRAM-SHA-256")
	for _, c := range []struct {
		plain                bool
		user, password, sasl string
		says                 string // empty: it succeeds
	}{
		{false, scram, right, "", ""},
		{false, scram, right, "SCRAM-SHA-512", ""},
		{false, scram, right, "SCRAM-SHA-256", ""},
		{false, half, right, "SCRAM-SHA-256", ""},
		{false, half, right, "SCRAM-SHA-512", rejected},
		{false, scram, right, "PLAIN", rejected},
		{false, scram, wrong, "SCRAM-SHA-256", rejected},
		{false, "nobody", right, "SCRAM-SHA-512", rejected},
		{false, "", "", "", "closed the connection without an answer"},
		{true, scram, right, "", rejected},
	} {
		t.Run(fmt.Sprintf("%s %s %s", c.user, c.sasl, c.says), func(t *testing.T) {
			t.Parallel()
			out := s.Deliver(t, func(b *access.Broker) {
				if c.plain {
					b.Config.Servers, b.Config.TLS = []string{s.Plain}, nil
				}
				b.Config.User, b.Credentials.Password, b.Config.SASL = c.user, c.password, c.sasl
			})
			require.Equal(t, c.says == "", out.Kind == job.Succeeded, "%+v", out)
			require.Equal(t, c.says != "", out.Retryable, "%+v", out)
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
