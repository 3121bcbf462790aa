package amqp_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/target/amqp"
	"github.com/belfry-dev/belfry/internal/target/broker"
	"github.com/belfry-dev/belfry/internal/target/broker/brokertest"
	"github.com/belfry-dev/belfry/internal/target/targettest"
)

func TestSecured(t *testing.T) {
	t.Parallel()
	s := brokertest.NewSecured(t, "BELFRY_TEST_AMQP_TLS_URL", "rabbitmq")
	s.Kind, s.New = "amqp", func(o broker.Options) targettest.Target { return amqp.New(o) }
	s.Plain = brokertest.Endpoint{Address: address(t).Host}
	q, err := openChannel(t).QueueDeclare("", false, true, false, false, nil)
	require.NoError(t, err)
	s.Settings = map[string]any{"exchange": "", "routing_key": q.Name}
	s.Run(t)
	t.Run("outage", func(t *testing.T) {
		t.Parallel()
		s.Outage(t, nil)
	})
	t.Run("guide", func(t *testing.T) {
		t.Parallel()
		s.Guide(t, map[string]string{"rabbitmq": s.Password, "rabbitmq-key": s.PEM(t, "client", brokertest.Key)},
			func(config map[string]any) brokertest.Endpoint {
				if brokertest.HasCertificate(config) {
					return s.Mutual
				}
				return s.Endpoint
			})
	})
}
