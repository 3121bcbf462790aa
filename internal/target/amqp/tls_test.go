package amqp_test

import (
	"fmt"
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
	s.Plain = address(t).Host
	q, err := openChannel(t).QueueDeclare("", false, true, false, false, nil)
	require.NoError(t, err)
	s.Config = fmt.Sprintf(`"routing_key": %q`, q.Name)
	s.Run(t)
}
