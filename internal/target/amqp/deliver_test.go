package amqp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/problem"
	"github.com/belfry-dev/belfry/internal/target/amqp"
	"github.com/belfry-dev/belfry/internal/target/broker"
	"github.com/belfry-dev/belfry/internal/target/broker/brokertest"
)

func newTarget(t *testing.T) *amqp.Target {
	t.Helper()
	target := amqp.New(broker.Options{Brokers: brokertest.Brokers{}})
	t.Cleanup(target.Close)
	return target
}

func attempt(name, more string) job.Attempt {
	return brokertest.Attempt("amqp", fmt.Sprintf(`{"broker": %q%s}`, name, more))
}

// fullQueue returns the name of a queue that refuses every message.
func fullQueue(t *testing.T, ch *amqp091.Channel) string {
	t.Helper()
	q, err := ch.QueueDeclare("", false, true, true, false,
		amqp091.Table{"x-max-length": 0, "x-overflow": "reject-publish"})
	require.NoError(t, err)
	return q.Name
}

// A burst shares one connection and confirmations are not awaited one by one. Returned messages are matched
// to theirs, and a refusal is not taken for one of the acknowledgements around it.
func TestBurst(t *testing.T) {
	t.Parallel()
	u, ch := address(t), openChannel(t)
	q, err := ch.QueueDeclare("", false, true, true, false, nil)
	require.NoError(t, err)
	full := fullQueue(t, ch)
	proxy := brokertest.NewProxy(t, u.Host)
	target := newTarget(t)
	const n = 3000
	name := at("belfry", proxy.Address())
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			key, want, retryable := q.Name, job.Succeeded, false
			switch i % 3 {
			case 1: // no queue has this name
				key, want = "none-"+q.Name, job.Failed
			case 2:
				key, want, retryable = full, job.Failed, true
			}
			out := target.Deliver(t.Context(), attempt(name, fmt.Sprintf(`, "routing_key": %q`, key)))
			if out.Kind != want || out.Retryable != retryable || out.Unknown {
				t.Errorf("%s: %+v; want %d", key, out, want)
			}
		})
	}
	all.Wait()
	kept, err := ch.QueueDeclarePassive(q.Name, false, true, true, false, nil)
	require.NoError(t, err)
	require.Equal(t, n/3, kept.Messages)
	require.EqualValues(t, 1, proxy.Opened.Load())
}

// The broker's response decides whether a delivery may be retried. A job with a wrong exchange does not
// affect others.
func TestRefusals(t *testing.T) {
	t.Parallel()
	u, ch := address(t), openChannel(t)
	q, err := ch.QueueDeclare("", false, true, true, false, nil)
	require.NoError(t, err)
	full := fullQueue(t, ch)
	target, name := newTarget(t), at("belfry", u.Host)
	var neighbour sync.WaitGroup
	stop := make(chan struct{})
	for range 16 {
		neighbour.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				out := target.Deliver(t.Context(), attempt(name, `, "routing_key": "`+q.Name+`"`))
				if out.Kind != job.Succeeded {
					t.Errorf("the neighbour: %+v", out)
					return
				}
			}
		})
	}
	defer neighbour.Wait()
	defer close(stop)
	for range 20 {
		out := target.Deliver(t.Context(), attempt(name, `, "exchange": "none", "routing_key": "x"`))
		require.Equal(t, job.Failed, out.Kind)
		require.Contains(t, out.Message, "no exchange 'none'")
	}
	for _, c := range []struct {
		more      string
		kind      job.OutcomeKind
		retryable bool
		says      string
	}{
		{`, "routing_key": "` + q.Name + `"`, job.Succeeded, false, ""},
		{`, "routing_key": "` + q.Name + `", "wait_for": "report"`, job.Accepted, false, ""},
		{`, "routing_key": "` + full + `"`, job.Failed, true, "a queue is full"},
		{
			`, "routing_key": "none"`, job.Failed, false,
			"no queue is bound to the exchange for this routing key (NO_ROUTE)",
		},
		{`, "exchange": "none", "routing_key": "x"`, job.Failed, false, "no exchange 'none'"},
		{`, "routing_key": "${payload.none}"`, job.Failed, false, "have no none"},
		{`, "routing_key": "x", "headers": {"a": {"secret": "none"}}`, job.Failed, false, "there is no secret"},
	} {
		out := target.Deliver(t.Context(), attempt(name, c.more))
		require.Equal(t, c.kind, out.Kind, "%+v: %+v", c, out)
		require.Equal(t, c.retryable, out.Retryable, "%+v: %+v", c, out)
		require.Contains(t, out.Message, c.says)
		require.False(t, out.Unknown)
	}
	for _, b := range []access.Broker{
		{Config: access.BrokerConfig{User: "belfry"}, Credentials: access.BrokerCredentials{Password: "wrong"}},
		{Config: access.BrokerConfig{User: "belfry", VHost: "none"}, Credentials: access.BrokerCredentials{Password: "belfry"}},
	} {
		b.Kind, b.Config.Servers = "amqp", []string{u.Host}
		out := target.Deliver(t.Context(), attempt(brokertest.Set(b), `, "routing_key": "x"`))
		require.True(t, out.Retryable && out.Down, "%+v", out)
		require.Contains(t, out.Message, "does not take the login")
	}
}

// stored is the value of each secret.
type stored string

func (s stored) Secret(context.Context, uuid.UUID, string, access.SecretUse) (access.Secret, error) {
	return access.Secret{Values: []string{string(s)}}, nil
}

// Secrets are redacted from what the broker says, and not from Belfry's own words.
func TestBrokerRepeatsSecrets(t *testing.T) {
	t.Parallel()
	u := address(t)
	for _, c := range []struct{ secret, more, says string }{
		{
			"canary", `"exchange": "a-canary", "routing_key": "x"`,
			"the broker refused the message: NOT_FOUND - no exchange 'a-[hidden]' in",
		},
		{
			"broker", `"exchange": "a-broker", "routing_key": "x"`,
			"the broker refused the message: NOT_FOUND - no exchange 'a-[hidden]' in",
		},
		{"NO_ROUTE", `"routing_key": "none"`, "for this routing key ([hidden]); bind one"},
	} {
		target := amqp.New(broker.Options{
			Brokers: brokertest.Brokers{}, Secrets: stored(c.secret),
		})
		t.Cleanup(target.Close)
		out := target.Deliver(t.Context(), attempt(at("belfry", u.Host), `, "headers": {"x": {"secret": "x"}}, `+c.more))
		require.Contains(t, out.Message, c.says)
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	target := newTarget(t)
	for config, field := range map[string]string{
		`{"broker": "x"}`:                                               "routing_key",
		`{"broker": "x", "routing_key": 1}`:                             "routing_key",
		`{"broker": "x", "routing_key": "a", "exchange": 1}`:            "exchange",
		`{"routing_key": "a"}`:                                          "broker",
		`{"broker": "x", "routing_key": "a", "vhost": ""}`:              "vhost",
		`{"broker": "x", "routing_key": "a", "headers": {"a": "${x}"}}`: "headers.a",
	} {
		problems := problem.All(target.Check(json.RawMessage(config)))
		require.NotEmpty(t, problems, config)
		require.Equal(t, "target.config."+field, problems[0].Field, config)
	}
	require.NoError(t, target.Check(json.RawMessage(`{"broker": "x", "routing_key": "due.${job.name}", "exchange": "e"}`)))
}

// A message that is not confirmed has an unknown outcome, and does not delay the messages after it.
func TestAMessageThatIsNotConfirmed(t *testing.T) {
	t.Parallel()
	u, ch := address(t), openChannel(t)
	q, err := ch.QueueDeclare("", false, true, true, false, nil)
	require.NoError(t, err)
	proxy, target := brokertest.NewProxy(t, u.Host), newTarget(t)
	name, key := at("belfry", proxy.Address()), fmt.Sprintf(`, "routing_key": %q`, q.Name)
	require.Equal(t, job.Succeeded, target.Deliver(t.Context(), attempt(name, key)).Kind)
	late := attempt(name, key)
	late.Payload = `{"late": true}`
	proxy.Withhold(late.Payload)
	ctx, giveUp := context.WithCancel(t.Context())
	done := make(chan job.Outcome, 1)
	go func() { done <- target.Deliver(ctx, late) }()
	require.Eventually(t, func() bool {
		arrived, err := ch.QueueDeclarePassive(q.Name, false, true, true, false, nil)
		return err == nil && arrived.Messages == 2
	}, time.Minute, 10*time.Millisecond)
	giveUp()
	out := <-done
	require.True(t, out.Retryable && out.Unknown, "%+v", out)
	proxy.Release()
	require.Equal(t, job.Succeeded, target.Deliver(t.Context(), attempt(name, key)).Kind)
}
