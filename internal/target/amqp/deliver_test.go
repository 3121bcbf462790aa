package amqp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"

	"github.com/google/uuid"
	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/problem"
	"github.com/belfry-dev/belfry/internal/target/amqp"
	"github.com/belfry-dev/belfry/internal/target/broker"
	"github.com/belfry-dev/belfry/internal/target/broker/brokertest"
	"github.com/belfry-dev/belfry/internal/target/guard"
)

func newTarget(t *testing.T, allow ...string) *amqp.Target {
	t.Helper()
	target := amqp.New(broker.Options{Dialer: brokertest.Guard(t, allow...), Secrets: withPassword{password: "belfry"}})
	t.Cleanup(target.Close)
	return target
}

func attempt(server, more string) job.Attempt {
	return brokertest.Attempt("amqp",
		fmt.Sprintf(`{"servers": [%q], "user": "belfry", "password": {"secret": "rabbitmq"}%s}`, server, more))
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
	target := newTarget(t, "127.0.0.0/8")
	const n = 3000
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
			out := target.Deliver(t.Context(), attempt(proxy.Address(), fmt.Sprintf(`, "routing_key": %q`, key)))
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
	target := newTarget(t, "127.0.0.0/8")
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
				out := target.Deliver(t.Context(), attempt(u.Host, `, "routing_key": "`+q.Name+`"`))
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
		out := target.Deliver(t.Context(), attempt(u.Host, `, "exchange": "none", "routing_key": "x"`))
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
		{`, "vhost": "none", "routing_key": "x"`, job.Failed, false, "fix user, password and vhost"},
		{`, "routing_key": "${payload.none}"`, job.Failed, false, "have no none"},
		{`, "routing_key": "x", "headers": {"a": {"secret": "none"}}`, job.Failed, false, "there is no secret"},
	} {
		out := target.Deliver(t.Context(), attempt(u.Host, c.more))
		require.Equal(t, c.kind, out.Kind, "%+v: %+v", c, out)
		require.Equal(t, c.retryable, out.Retryable, "%+v: %+v", c, out)
		require.Contains(t, out.Message, c.says)
		require.False(t, out.Unknown)
	}
	wrong := amqp.New(broker.Options{Dialer: &guard.Guard{}, Secrets: withPassword{password: "wrong"}})
	t.Cleanup(wrong.Close)
	out := wrong.Deliver(t.Context(), attempt(u.Host, `, "routing_key": "x"`))
	require.False(t, out.Retryable)
	require.Contains(t, out.Message, "targets.allow")
	g, err := guard.New(guard.Options{Allow: []string{u.Host}})
	require.NoError(t, err)
	wrong = amqp.New(broker.Options{Dialer: g, Secrets: withPassword{password: "wrong"}})
	t.Cleanup(wrong.Close)
	out = wrong.Deliver(t.Context(), attempt(u.Host, `, "routing_key": "x"`))
	require.False(t, out.Retryable)
	require.Contains(t, out.Message, "does not take these credentials")
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
		{"password", `"vhost": "none", "routing_key": "x"`, "fix user, password and vhost"},
	} {
		target := amqp.New(broker.Options{
			Dialer: brokertest.Guard(t, u.Host), Secrets: withPassword{stored(c.secret), "belfry"},
		})
		t.Cleanup(target.Close)
		out := target.Deliver(t.Context(), attempt(u.Host, `, "headers": {"x": {"secret": "x"}}, `+c.more))
		require.Contains(t, out.Message, c.says)
	}
}

func TestForbidden(t *testing.T) {
	t.Parallel()
	out := newTarget(t).Deliver(t.Context(), attempt("127.0.0.1:5672", `, "routing_key": "x"`))
	require.Equal(t, job.Failed, out.Kind)
	require.False(t, out.Retryable)
	require.Contains(t, out.Message, "targets.allow")
}

func TestCheck(t *testing.T) {
	t.Parallel()
	target := newTarget(t)
	const access = `"servers": ["x"], "user": "u", "password": {"secret": "p"}`
	for config, field := range map[string]string{
		`{` + access + `}`:                                               "routing_key",
		`{` + access + `, "routing_key": 1}`:                             "routing_key",
		`{` + access + `, "routing_key": "a", "exchange": 1}`:            "exchange",
		`{"servers": ["x"], "routing_key": "a"}`:                         "user",
		`{` + access + `, "routing_key": "a", "vhosts": ""}`:             "vhosts",
		`{` + access + `, "routing_key": "a", "headers": {"a": "${x}"}}`: "headers.a",
	} {
		problems := problem.All(target.Check(json.RawMessage(config)))
		require.NotEmpty(t, problems, config)
		require.Equal(t, "target.config."+field, problems[0].Field, config)
	}
	require.NoError(t,
		target.Check(json.RawMessage(`{`+access+`, "routing_key": "due.${job.name}", "exchange": "e", "vhost": "v"}`)))
}

// A server that does not respond leaves time for the next.
func TestSecondServer(t *testing.T) {
	t.Parallel()
	q, err := openChannel(t).QueueDeclare("", false, true, true, false, nil)
	require.NoError(t, err)
	brokertest.SecondServer(t, func(t *testing.T, o broker.Options, first string) job.Outcome {
		o.Secrets = withPassword{password: "belfry"}
		target := amqp.New(o)
		defer target.Close()
		return target.Deliver(t.Context(), brokertest.Attempt("amqp", fmt.Sprintf(`{"servers": [%q, %q],
			"user": "belfry", "password": {"secret": "rabbitmq"}, "routing_key": %q}`,
			first, address(t).Host, q.Name)))
	})
}
