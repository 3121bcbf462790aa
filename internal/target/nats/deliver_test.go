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
	target := nats.New(broker.Options{Dialer: brokertest.Guard(t, "127.0.0.0/8")})
	t.Cleanup(target.Close)
	const n = 2000
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			a := brokertest.Attempt("nats",
				fmt.Sprintf(`{"servers": [%q], "subject": %q, "stream": %q}`, proxy.Address(), name, name))
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
	target := nats.New(broker.Options{Dialer: brokertest.Guard(t, "127.0.0.0/8")})
	t.Cleanup(target.Close)
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
			brokertest.Attempt("nats", fmt.Sprintf(`{"servers": [%q], "subject": %q%s}`, to, c.subject, c.more)))
		require.Equal(t, c.kind, out.Kind, "%+v", c)
		require.Equal(t, c.retryable, out.Retryable, "%+v", c)
		require.Contains(t, out.Message, c.says)
		require.False(t, out.Unknown)
	}
	report := brokertest.Attempt("nats",
		fmt.Sprintf(`{"servers": [%q], "subject": "%s.a", "wait_for": "report"}`, to, name))
	require.NoError(t, js.DeleteStream(t.Context(), name))
	_, err = js.CreateStream(t.Context(),
		jetstream.StreamConfig{Name: name, Subjects: []string{name + ".>"}, Storage: jetstream.MemoryStorage})
	require.NoError(t, err)
	require.Equal(t, job.Outcome{Kind: job.Accepted}, target.Deliver(t.Context(), report))

	// With what the consumer needs to report.
	reporting := nats.New(broker.Options{
		Dialer: brokertest.Guard(t, "127.0.0.0/8"),
		Report: func(job.Attempt) (string, string) { return "https://example.com/run", "token" },
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

// An address that the guard does not allow is a permanent failure.
func TestForbidden(t *testing.T) {
	t.Parallel()
	target := nats.New(broker.Options{Dialer: brokertest.Guard(t)})
	t.Cleanup(target.Close)
	out := target.Deliver(t.Context(),
		brokertest.Attempt("nats", `{"servers": ["127.0.0.1:4222", "10.0.0.1:4222"], "subject": "x"}`))
	require.Equal(t, job.Failed, out.Kind)
	require.False(t, out.Retryable)
	require.Contains(t, out.Message, "targets.allow")
}

// TestForbiddenAdvertised: the target never connects to servers that a server advertises, not even when the
// connection breaks.
func TestForbiddenAdvertised(t *testing.T) {
	t.Parallel()
	listen := func(address string, serve func(net.Conn)) string {
		l, err := net.Listen("tcp", address)
		require.NoError(t, err)
		t.Cleanup(func() { _ = l.Close() })
		go func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				go serve(conn)
			}
		}()
		return l.Addr().String()
	}
	var asked, arrived atomic.Int64
	inner := listen("127.0.0.1:0", func(c net.Conn) { arrived.Add(1); _ = c.Close() })
	outer := listen("127.78.1.1:0", func(c net.Conn) {
		defer func() { _ = c.Close() }() // on the first message
		_, _ = fmt.Fprintf(c, `INFO {"server_id":"x","version":"2.10.0","headers":true,"max_payload":1048576,`+
			`"connect_urls":[%q]}`+"\r\n", inner)
		for lines := bufio.NewScanner(c); lines.Scan(); {
			switch verb, _, _ := strings.Cut(lines.Text(), " "); verb {
			case "PING":
				_, _ = io.WriteString(c, "PONG\r\n")
			case "PUB", "HPUB":
				asked.Add(1)
				return
			}
		}
	})
	target := nats.New(broker.Options{Dialer: brokertest.Guard(t, outer)})
	t.Cleanup(target.Close)
	for n := range int64(5) {
		out := target.Deliver(t.Context(),
			brokertest.Attempt("nats", fmt.Sprintf(`{"servers": [%q], "subject": "x"}`, outer)))
		require.Equal(t, job.Failed, out.Kind)
		require.True(t, out.Retryable && out.Unknown, "%+v", out)
		require.Equal(t, n+1, asked.Load())
	}
	require.Zero(t, arrived.Load())
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
	address := l.Addr().String()
	target := nats.New(broker.Options{Dialer: brokertest.Guard(t, address)})
	t.Cleanup(target.Close)
	for n := range int64(3) {
		out := target.Deliver(t.Context(),
			brokertest.Attempt("nats", fmt.Sprintf(`{"servers": [%q], "subject": "x"}`, address)))
		require.Equal(t, job.Succeeded, out.Kind, "%+v", out)
		require.Equal(t, n+1, conns.Load())
	}
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
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	var heard atomic.Pointer[string]
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c,
				"INFO {\"server_id\":\"x\",\"version\":\"2.10.0\",\"headers\":true,\"max_payload\":1048576}\r\n")
			line, _ := bufio.NewReader(c).ReadString('\n')
			heard.Store(&line)
			_, said, _ := strings.Cut(line, `"pass"`)
			_, _ = fmt.Fprintf(c, "-ERR 'you said %s'\r\n", strings.TrimSpace(said))
			_ = c.Close()
		}
	}()
	target := nats.New(broker.Options{
		Dialer:  brokertest.Guard(t, "127.0.0.0/8"),
		Secrets: vault{"p": "canary-" + strings.Repeat("x", 600), "q": "canary-short"},
	})
	t.Cleanup(target.Close)
	for _, name := range []string{"p", "q"} { // one is cut off with the message, and one is not
		out := target.Deliver(t.Context(), brokertest.Attempt("nats", fmt.Sprintf(
			`{"servers": [%q], "subject": "x", "user": "u", "password": {"secret": %q}}`, l.Addr(), name)))
		require.Contains(t, *heard.Load(), "canary", "the server received it")
		require.Contains(t, out.Message, "[hidden]")
		require.NotContains(t, out.Message, "canary")
	}

	reporting := nats.New(broker.Options{
		Dialer: brokertest.Guard(t, "127.0.0.0/8"), Secrets: vault{"p": "canary-one", "h": "canary-two"},
		Report: func(job.Attempt) (string, string) { return "https://example.com/run", "canary-three" },
	})
	t.Cleanup(reporting.Close)
	out := reporting.Deliver(t.Context(), brokertest.Attempt("nats", fmt.Sprintf(
		`{"servers": [%q], "subject": "x", "user": "u", "password": {"secret": "p"},
		"headers": {"x": {"secret": "h"}}, "wait_for": "report"}`, brokertest.Echo(t, broker.RunToken, "x"))))
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
		`{}`:                                                                                      "servers",
		`{"servers": ["x"], "subject": ""}`:                                                       "subject",
		`{"servers": ["x"], "subject": "a b"}`:                                                    "subject",
		`{"servers": ["x"], "subject": "a.*"}`:                                                    "subject",
		`{"servers": ["x"], "subject": "$JS.API"}`:                                                "subject",
		`{"servers": ["x"], "subject": "${job.nmae}"}`:                                            "subject",
		`{"servers": ["nats://x"], "subject": "a"}`:                                               "servers.0",
		`{"servers": ["u:p@x:1"], "subject": "a"}`:                                                "servers.0",
		`{"servers": [], "subject": "a"}`:                                                         "servers",
		`{"servers": ["x"], "subject": "a", "password": "plain"}`:                                 "password",
		`{"servers": ["x"], "subject": "a", "token": "plain"}`:                                    "token",
		`{"servers": ["x"], "subject": "a", "user": "u", "token": {"secret":"t"}}`:                "credentials",
		`{"servers": ["x"], "subject": "a", "wait_for": "x"}`:                                     "wait_for",
		`{"servers": ["x"], "subject": "a", "tls": {"ca": "x"}}`:                                  "tls.ca",
		`{"servers": ["x"], "subject": "a", "tls": {"x": "x"}}`:                                   "tls.x",
		`{"servers": ["x"], "subject": "a", "tls": {"key": {"secret": "k"}}}`:                     "tls.key",
		`{"servers": ["x"], "subject": "a", "tls": {"certificate": "x", "key": {"secret": "k"}}}`: "tls.certificate",

		`{"servers": ["x"], "subject": "a", "headers": {"Belfry-X": "x"}}`:    "headers.Belfry-X",
		`{"servers": ["x"], "subject": "a", "headers": {"Nats-Msg-Id": "x"}}`: "headers.Nats-Msg-Id",
		`{"servers": ["x"], "subject": "a", "headers": {"a b": "x"}}`:         "headers.a b",
		`{"servers": ["x"], "subject": "a", "headers": {"a": "${"}}`:          "headers.a",
		`{"servers": ["x"], "subject": "a", "headers": 1}`:                    "headers",
	} {
		problems := problem.All(target.Check(json.RawMessage(config)))
		require.Len(t, problems, strings.Count(config, "{}")+1, config)
		require.Equal(t, "target.config."+field, problems[0].Field, config)
		require.NotEmpty(t, problems[0].Fix)
	}
	require.NoError(t, target.Check(json.RawMessage(`{"servers": ["a", "b:1"], "subject": "x.${job.id}",
		"tls": true, "user": "u", "password": {"secret": "p"}}`)))
}

// A server that does not respond leaves time for the next.
func TestSecondServer(t *testing.T) {
	t.Parallel()
	to := address(t)
	name := "S" + natsgo.NewInbox()[7:]
	_, err := connect(t, to).CreateStream(t.Context(),
		jetstream.StreamConfig{Name: name, Subjects: []string{name}, Storage: jetstream.MemoryStorage})
	require.NoError(t, err)
	brokertest.SecondServer(t, func(t *testing.T, o broker.Options, first string) job.Outcome {
		target := nats.New(o)
		defer target.Close()
		return target.Deliver(t.Context(),
			brokertest.Attempt("nats", fmt.Sprintf(`{"servers": [%q, %q], "subject": %q}`, first, to, name)))
	})
}
