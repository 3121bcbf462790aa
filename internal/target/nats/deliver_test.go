package nats_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/problem"
	"github.com/belfry-dev/belfry/internal/target/broker"
	"github.com/belfry-dev/belfry/internal/target/broker/brokertest"
	"github.com/belfry-dev/belfry/internal/target/nats"
)

// A burst shares one connection and confirmations are not awaited one by one. Each message is stored once.
func TestBurst(t *testing.T) {
	t.Parallel()
	to := address(t)
	js := connect(t, to)
	name := "B" + natsgo.NewInbox()[7:]
	stream, err := js.CreateStream(t.Context(),
		jetstream.StreamConfig{Name: name, Subjects: []string{name}, Storage: jetstream.MemoryStorage})
	require.NoError(t, err)
	proxy := brokertest.NewProxy(t, to)
	target := nats.New(broker.Options{Brokers: brokertest.Brokers{}})
	t.Cleanup(target.Close)
	const n = 2000
	b := at(proxy.Address())
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			a := brokertest.Attempt("nats",
				fmt.Sprintf(`{"broker": %q, "subject": %q, "stream": %q}`, b, name, name))
			for range 2 { // the stream recognises the second by its id
				if out := target.Deliver(t.Context(), a); out.Kind != job.Succeeded {
					t.Errorf("%+v", out)
				}
			}
		})
	}
	all.Wait()
	info, err := stream.Info(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, n, info.State.Msgs)
	require.EqualValues(t, 1, proxy.Opened.Load())
}

// The stream's response decides whether a delivery may be retried.
func TestRefusals(t *testing.T) {
	t.Parallel()
	to := address(t)
	js := connect(t, to)
	name := "R" + natsgo.NewInbox()[7:]
	_, err := js.CreateStream(t.Context(), jetstream.StreamConfig{
		Name: name, Subjects: []string{name + ".>"}, Storage: jetstream.MemoryStorage, Discard: jetstream.DiscardNew,
		MaxMsgs: 1,
	})
	require.NoError(t, err)
	target := nats.New(broker.Options{Brokers: brokertest.Brokers{}})
	t.Cleanup(target.Close)
	b := at(to)
	for _, c := range []struct {
		subject, more string
		kind          job.OutcomeKind
		retryable     bool
		says          string
	}{
		{name + ".a", ``, job.Succeeded, false, ""},
		{name + ".b", ``, job.Failed, true, "maximum messages exceeded"},
		{name + ".c", `, "stream": "another"`, job.Failed, false, "expected stream does not match"},
		{name, ``, job.Failed, true, "no stream takes this subject"},
		{name + ".${payload.none}", ``, job.Failed, false, "have no none"},
		{name + ".${'a b'}", ``, job.Failed, false, "cannot be published to"},
	} {
		out := target.Deliver(t.Context(),
			brokertest.Attempt("nats", fmt.Sprintf(`{"broker": %q, "subject": %q%s}`, b, c.subject, c.more)))
		require.Equal(t, c.kind, out.Kind, "%+v", c)
		require.Equal(t, c.retryable, out.Retryable, "%+v", c)
		require.Contains(t, out.Message, c.says)
		require.False(t, out.Unknown)
	}
	report := brokertest.Attempt("nats",
		fmt.Sprintf(`{"broker": %q, "subject": "%s.a", "wait_for": "report"}`, b, name))
	require.NoError(t, js.DeleteStream(t.Context(), name))
	_, err = js.CreateStream(t.Context(),
		jetstream.StreamConfig{Name: name, Subjects: []string{name + ".>"}, Storage: jetstream.MemoryStorage})
	require.NoError(t, err)
	require.Equal(t, job.Outcome{Kind: job.Accepted}, target.Deliver(t.Context(), report))

	// With what the consumer needs to report.
	reporting := nats.New(broker.Options{
		Brokers: brokertest.Brokers{},
		Report:  func(job.Attempt) (string, string) { return "https://example.com/run", "token" },
	})
	t.Cleanup(reporting.Close)
	sent, err := js.Conn().SubscribeSync(name + ".>")
	require.NoError(t, err)
	require.NoError(t, js.Conn().Flush())
	report.Number++
	require.Equal(t, job.Outcome{Kind: job.Accepted}, reporting.Deliver(t.Context(), report))
	m, err := sent.NextMsg(brokertest.Patience)
	require.NoError(t, err)
	require.Equal(t, []string{"https://example.com/run"}, m.Header["Belfry-Run-Url"])
	require.Equal(t, []string{"token"}, m.Header["Belfry-Run-Token"])
}

// A server that is about to stop says so, and gets no more messages on that connection.
func TestLameDuck(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	const greeting = `INFO {"server_id":"x","version":"2.10.0","headers":true,"max_payload":1048576%s}` + "\r\n"
	var conns atomic.Int64
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			conns.Add(1)
			go func() {
				defer func() { _ = c.Close() }()
				_, _ = fmt.Fprintf(c, greeting, "")
				for lines := bufio.NewScanner(c); lines.Scan(); {
					switch words := strings.Fields(lines.Text()); {
					case len(words) == 1 && words[0] == "PING":
						_, _ = io.WriteString(c, "PONG\r\n")
					case len(words) > 2 && words[0] == "HPUB":
						_, _ = fmt.Fprintf(c, greeting, `,"ldm":true`)
						_, _ = fmt.Fprintf(c, "MSG %s 1 14\r\n"+`{"stream":"x"}`+"\r\n", words[2])
					}
				}
			}()
		}
	}()
	name := at(l.Addr().String())
	target := nats.New(broker.Options{Brokers: brokertest.Brokers{}})
	t.Cleanup(target.Close)
	require.Eventually(t, func() bool { // the client reports it a moment later
		out := target.Deliver(t.Context(), brokertest.Attempt("nats", fmt.Sprintf(`{"broker": %q, "subject": "x"}`, name)))
		require.Equal(t, job.Succeeded, out.Kind, "%+v", out)
		return conns.Load() > 1
	}, brokertest.Patience, time.Millisecond)
}

// vault contains the stored secrets.
type vault map[string]string

func (v vault) Secret(_ context.Context, _ uuid.UUID, name string, _ access.SecretUse) (access.Secret, error) {
	return access.Secret{Values: []string{v[name]}}, nil
}

// TestBrokerRepeatsSecrets (S15): if a server repeats what it received, including the password and the token,
// none of it is shown.
func TestBrokerRepeatsSecrets(t *testing.T) {
	t.Parallel()
	name := brokertest.Set(access.Broker{
		Kind: "nats", Config: access.BrokerConfig{Servers: []string{brokertest.Echo(t, broker.RunToken, "x")}, User: "u"},
		Credentials: access.BrokerCredentials{Password: "canary-one"},
	})
	target := nats.New(broker.Options{
		Brokers: brokertest.Brokers{}, Secrets: vault{"h": "canary-two"},
		Report: func(job.Attempt) (string, string) { return "https://example.com/run", "canary-three" },
	})
	t.Cleanup(target.Close)
	out := target.Deliver(t.Context(), brokertest.Attempt("nats", fmt.Sprintf(
		`{"broker": %q, "subject": "x", "headers": {"x": {"secret": "h"}}, "wait_for": "report"}`, name)))
	require.Contains(t, out.Message, "the stream refused the message: you said", "it was sent")
	require.Contains(t, out.Message, "Belfry-Run-Token: [hidden]")
	require.Contains(t, out.Message, "x: [hidden]")
	require.Contains(t, out.Message, `"pass":"[hidden]"`)
	require.NotContains(t, out.Message, "canary")
}

func TestCheck(t *testing.T) {
	t.Parallel()
	target := nats.New(broker.Options{})
	for config, field := range map[string]string{
		`{}`:                                                               "broker",
		`{"broker": "x", "subject": ""}`:                                   "subject",
		`{"broker": "x", "subject": "a b"}`:                                "subject",
		`{"broker": "x", "subject": "a.*"}`:                                "subject",
		`{"broker": "x", "subject": "$JS.API"}`:                            "subject",
		`{"broker": "x", "subject": "${job.nmae}"}`:                        "subject",
		`{"broker": "nats://x", "subject": "a"}`:                           "broker",
		`{"broker": "x", "subject": "a", "tls": 1}`:                        "tls",
		`{"broker": "x", "subject": "a", "wait_for": "x"}`:                 "wait_for",
		`{"broker": "x", "subject": "a", "headers": {"Belfry-X": "x"}}`:    "headers.Belfry-X",
		`{"broker": "x", "subject": "a", "headers": {"Nats-Msg-Id": "x"}}`: "headers.Nats-Msg-Id",
		`{"broker": "x", "subject": "a", "headers": {"a b": "x"}}`:         "headers.a b",
		`{"broker": "x", "subject": "a", "headers": {"a": "${"}}`:          "headers.a",
		`{"broker": "x", "subject": "a", "headers": 1}`:                    "headers",
	} {
		problems := problem.All(target.Check(json.RawMessage(config)))
		require.Len(t, problems, strings.Count(config, "{}")+1, config)
		require.Equal(t, "target.config."+field, problems[0].Field, config)
		require.NotEmpty(t, problems[0].Fix)
	}
	require.NoError(t, target.Check(json.RawMessage(`{"broker": "a", "subject": "x.${job.id}", "headers": {"a": "b"}}`)))
}
