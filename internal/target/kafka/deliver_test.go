package kafka_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/problem"
	"github.com/belfry-dev/belfry/internal/target/broker"
	"github.com/belfry-dev/belfry/internal/target/broker/brokertest"
	"github.com/belfry-dev/belfry/internal/target/kafka"
)

// A burst shares one producer, which sends batches. Each record is stored once, with its key.
func TestBurst(t *testing.T) {
	t.Parallel()
	b := newTopic(t, 4)
	target := kafka.New(broker.Options{Dialer: brokertest.Guard(t, "127.0.0.0/8")})
	t.Cleanup(target.Close)
	const n = 2000
	want := sync.Map{}
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			a := brokertest.Attempt("kafka",
				fmt.Sprintf(`{"servers": [%q], "topic": %q, "key": "k/${run_id}"}`, address(t), b.name))
			want.Store("k/"+job.FormatRunID(a.Key), true)
			if out := target.Deliver(t.Context(), a); out.Kind != job.Succeeded {
				t.Errorf("%+v", out)
			}
		})
	}
	all.Wait()
	reader, err := kgo.NewClient(kgo.SeedBrokers(address(t)), kgo.ConsumeTopics(b.name),
		kgo.FetchMaxWait(100*time.Millisecond))
	require.NoError(t, err)
	t.Cleanup(reader.Close)
	ctx, cancel := context.WithTimeout(t.Context(), brokertest.Patience)
	defer cancel()
	for got := 0; got < n; {
		fetches := reader.PollFetches(ctx)
		require.NoError(t, fetches.Err())
		fetches.EachRecord(func(r *kgo.Record) {
			if string(r.Value) == "probe" {
				return
			}
			got++
			_, ok := want.LoadAndDelete(string(r.Key))
			require.True(t, ok, "a record that was not sent, or is there twice: %s", r.Key)
		})
	}
}

// The brokers' response decides whether a delivery may be retried.
func TestRefusals(t *testing.T) {
	t.Parallel()
	b := newTopic(t, 1)
	target := kafka.New(broker.Options{Dialer: brokertest.Guard(t, "127.0.0.0/8")})
	t.Cleanup(target.Close)
	for _, c := range []struct {
		topic, more string
		kind        job.OutcomeKind
		retryable   bool
		says        string
	}{
		{b.name, ``, job.Succeeded, false, ""},
		{b.name, `, "wait_for": "report"`, job.Accepted, false, ""},
		{"none-" + b.name, ``, job.Failed, true, "there is no such topic"},
		{"${payload.none}", ``, job.Failed, false, "have no none"},
		{"${'a b'}", ``, job.Failed, false, "is not a valid name"},
		{b.name, `, "key": "${job.labels.none}"`, job.Failed, false, "have no none"},
	} {
		out := target.Deliver(t.Context(),
			brokertest.Attempt("kafka", fmt.Sprintf(`{"servers": [%q], "topic": %q%s}`, address(t), c.topic, c.more)))
		require.Equal(t, c.kind, out.Kind, "%+v: %+v", c, out)
		require.Equal(t, c.retryable, out.Retryable, "%+v: %+v", c, out)
		require.Contains(t, out.Message, c.says)
		require.False(t, out.Unknown)
	}
}

// The guard allows the address of the config but not the one that the broker advertises: nothing connects to
// it.
func TestForbiddenAdvertised(t *testing.T) {
	t.Parallel()
	b := newTopic(t, 1)
	proxy := brokertest.NewProxy(t, address(t))
	target := kafka.New(broker.Options{Dialer: brokertest.Guard(t, proxy.Address())})
	t.Cleanup(target.Close)
	out := target.Deliver(t.Context(),
		brokertest.Attempt("kafka", fmt.Sprintf(`{"servers": [%q], "topic": %q}`, proxy.Address(), b.name)))
	require.Equal(t, job.Failed, out.Kind)
	require.False(t, out.Retryable, "%+v", out)
	require.Contains(t, out.Message, "targets.allow")
	out = target.Deliver(t.Context(), brokertest.Attempt("kafka", `{"servers": ["127.0.0.1:1"], "topic": "x"}`))
	require.False(t, out.Retryable)
	require.Contains(t, out.Message, "targets.allow")
}

// elsewhere is a dialer that redirects connections to the addresses that a broker advertises.
type elsewhere struct {
	broker.Dialer
	seed, to string
	before   func() // called before it redirects
}

func (d *elsewhere) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	if address != d.seed {
		d.before()
		address = d.to
	}
	return d.Dialer.DialContext(ctx, network, address)
}

// secure starts a TLS proxy in front of an address. It returns its own address and its certificate.
func secure(t *testing.T, to string) (seed, ca string) {
	t.Helper()
	known := httptest.NewTLSServer(nil)
	t.Cleanup(known.Close)
	l, err := tls.Listen("tcp", "127.0.0.1:0",
		&tls.Config{Certificates: known.TLS.Certificates, MinVersion: tls.VersionTLS12})
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", to)
			if err != nil {
				_ = in.Close()
				continue
			}
			go func() { _, _ = io.Copy(out, in); _ = out.Close() }()
			go func() { _, _ = io.Copy(in, out); _ = in.Close() }()
		}
	}()
	return l.Addr().String(),
		string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: known.Certificate().Raw}))
}

// If an advertised broker cannot be connected to, the record was not sent. A wrong setting is permanent.
func TestUnreachableAdvertised(t *testing.T) {
	t.Parallel()
	b := newTopic(t, 1)
	plain := httptest.NewServer(nil)
	t.Cleanup(plain.Close)
	for _, c := range []struct {
		to        string
		retryable bool
		says      string
	}{
		{"127.0.0.1:1", true, "or a broker that it leads to refused the connection"},
		{plain.Listener.Addr().String(), false, "or a broker that it leads to does not speak TLS there"},
	} {
		t.Run(c.says, func(t *testing.T) {
			t.Parallel()
			seed, ca := secure(t, address(t))
			target := kafka.New(broker.Options{
				Dialer: &elsewhere{brokertest.Guard(t, "127.0.0.0/8"), seed, c.to, func() {}},
			})
			t.Cleanup(target.Close)
			config := fmt.Sprintf(`{"servers": [%q], "topic": %q, "tls": {"ca": %q}}`, seed, b.name, ca)
			out := target.Deliver(t.Context(), brokertest.Attempt("kafka", config))
			require.Equal(t, job.Failed, out.Kind)
			require.False(t, out.Unknown, "%+v", out)
			require.Equal(t, c.retryable, out.Retryable, "%+v", out)
			require.Equal(t, c.retryable, out.Down, "%+v", out)
			require.Contains(t, out.Message, c.says)
		})
	}
}

// If all brokers are down, a record that was not sent to any has not arrived, and one that was may have.
func TestAllAway(t *testing.T) {
	t.Parallel()
	for _, sent := range []bool{false, true} {
		t.Run(fmt.Sprintf("sent: %t", sent), func(t *testing.T) {
			t.Parallel()
			b := newTopic(t, 1)
			proxy := brokertest.NewProxy(t, address(t))
			a := brokertest.Attempt("kafka", fmt.Sprintf(`{"servers": [%q], "topic": %q}`, proxy.Address(), b.name))
			d := &elsewhere{
				Dialer: brokertest.Guard(t, "127.0.0.0/8"), seed: proxy.Address(), to: "127.0.0.1:1",
				before: proxy.Down,
			}
			if sent {
				d.to, d.before = proxy.Address(), func() {}
				proxy.Withhold(a.Payload)
				t.Cleanup(proxy.Release)
				go func() {
					b.await(a.Payload)
					proxy.Down()
				}()
			}
			target := kafka.New(broker.Options{Dialer: d})
			t.Cleanup(target.Close)
			out := target.Deliver(t.Context(), a)
			require.True(t, out.Kind == job.Failed && out.Retryable && out.Down, "%+v", out)
			require.Equal(t, sent, out.Unknown, "%+v", out)
			require.Contains(t, out.Message, "refused")
		})
	}
}

// swollen is a dialer to a broker whose metadata is too large if it is asked for all of these topics.
type swollen struct {
	broker.Dialer
	topics []string
}

type swollenConn struct {
	net.Conn
	topics []string
	asked  atomic.Bool
}

func (d *swollen) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := d.Dialer.DialContext(ctx, network, address)
	return &swollenConn{Conn: conn, topics: d.topics}, err
}

func (c *swollenConn) Write(b []byte) (int, error) {
	all := true
	for _, topic := range c.topics {
		all = all && bytes.Contains(b, []byte(topic))
	}
	if isMetadata := len(b) > 6 && b[4] == 0 && b[5] == byte(kmsg.Metadata); all && isMetadata {
		c.asked.Store(true)
	}
	return c.Conn.Write(b)
}

func (c *swollenConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.asked.Load() {
		n = copy(b, "\x7f\xff\xff\xff") // the size of the response
	}
	return n, err
}

// A client asks for all topics that it has produced to together. If that is too large, the next delivery gets another
// client, which knows none of them.
func TestMetadataTooLarge(t *testing.T) {
	t.Parallel()
	first, second := newTopic(t, 1), newTopic(t, 1)
	target := kafka.New(broker.Options{
		Dialer: &swollen{brokertest.Guard(t, "127.0.0.0/8"), []string{first.name, second.name}},
	})
	t.Cleanup(target.Close)
	deliver := func(topic string) job.Outcome {
		config := fmt.Sprintf(`{"servers": [%q], "topic": %q}`, address(t), topic)
		return target.Deliver(t.Context(), brokertest.Attempt("kafka", config))
	}
	require.Equal(t, job.Succeeded, deliver(first.name).Kind)
	refused := deliver(second.name)
	require.True(t, refused.Kind == job.Failed && refused.Retryable, "%+v", refused)
	again := deliver(second.name)
	require.Equal(t, job.Succeeded, again.Kind, "%+v", again)
}

func TestCheck(t *testing.T) {
	t.Parallel()
	target := kafka.New(broker.Options{})
	for config, field := range map[string]string{
		`{"servers": ["x"]}`:                                                    "topic",
		`{"servers": ["x"], "topic": "a b"}`:                                    "topic",
		`{"servers": ["x"], "topic": "a", "key": 1}`:                            "key",
		`{"servers": ["x"], "topic": "a", "key": "${"}`:                         "key",
		`{"servers": ["x"], "topic": "a", "user": "u"}`:                         "password",
		`{"servers": ["x"], "topic": "a", "sasl": "GSSAPI"}`:                    "sasl",
		`{"servers": ["x"], "topic": "a", "partition": 1}`:                      "partition",
		`{"servers": ["x"], "topic": "a", "headers": {"idempotency-key": "x"}}`: "headers.idempotency-key",

		`{"servers": ["x"], "topic": "a", "user": "u", "password": {"secret": "p", "also": "more"}}`: "password",
	} {
		problems := problem.All(target.Check(json.RawMessage(config)))
		require.NotEmpty(t, problems, config)
		require.Equal(t, "target.config."+field, problems[0].Field, config)
	}
	require.NoError(t, target.Check(json.RawMessage(`{"servers": ["x"], "topic": "a.${job.queue}",
		"user": "u", "password": {"secret": "p"}, "sasl": "PLAIN", "tls": true}`)))
}

// A server that does not respond leaves time for the next.
func TestSecondServer(t *testing.T) {
	t.Parallel()
	b := newTopic(t, 1)
	brokertest.SecondServer(t, func(t *testing.T, o broker.Options, first string) job.Outcome {
		target := kafka.New(o)
		defer target.Close()
		return target.Deliver(t.Context(),
			brokertest.Attempt("kafka", fmt.Sprintf(`{"servers": [%q, %q], "topic": %q}`, first, address(t), b.name)))
	})
}
