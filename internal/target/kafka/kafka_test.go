package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/target/broker"
	"github.com/belfry-dev/belfry/internal/target/broker/brokertest"
	"github.com/belfry-dev/belfry/internal/target/kafka"
	"github.com/belfry-dev/belfry/internal/target/targettest"
)

// address returns the address of the real server, or skips the test.
func address(t *testing.T) string {
	t.Helper()
	brokers := os.Getenv("BELFRY_TEST_KAFKA_BROKERS")
	if brokers == "" {
		t.Skip("no Kafka; run: make test-targets")
	}
	return brokers
}

// topic is a topic of a real broker, created for a test.
type topic struct {
	t      *testing.T
	client *kgo.Client
	name   string
}

func newTopic(t *testing.T, partitions int32) *topic {
	t.Helper()
	b := &topic{t: t, name: "t-" + uuid.NewString()}
	var err error
	b.client, err = kgo.NewClient(kgo.SeedBrokers(address(t)))
	require.NoError(t, err)
	t.Cleanup(b.client.Close)
	b.make(partitions)
	return b
}

func (b *topic) make(partitions int32) {
	r := kmsg.NewPtrCreateTopicsRequest()
	one := kmsg.NewCreateTopicsRequestTopic()
	one.Topic, one.NumPartitions, one.ReplicationFactor = b.name, partitions, 1
	r.Topics = append(r.Topics, one)
	answer, err := r.RequestWith(context.Background(), b.client)
	require.NoError(b.t, err)
	require.Zero(b.t, answer.Topics[0].ErrorCode)
	b.until(true)
}

func (b *topic) remove() {
	r := kmsg.NewPtrDeleteTopicsRequest()
	one := kmsg.NewDeleteTopicsRequestTopic()
	one.Topic = kmsg.StringPtr(b.name)
	r.TopicNames, r.Topics, r.TimeoutMillis = []string{b.name}, append(r.Topics, one), 60_000
	answer, err := r.RequestWith(context.Background(), b.client)
	require.NoError(b.t, err)
	require.Zero(b.t, answer.Topics[0].ErrorCode)
	b.until(false)
}

// set changes settings of the topic and waits until the broker accepts or rejects records.
func (b *topic) set(taken bool, settings map[string]string) func() {
	return func() {
		r := kmsg.NewPtrAlterConfigsRequest()
		one := kmsg.NewAlterConfigsRequestResource()
		one.ResourceType, one.ResourceName = kmsg.ConfigResourceTypeTopic, b.name
		for name, value := range settings {
			c := kmsg.NewAlterConfigsRequestResourceConfig()
			c.Name, c.Value = name, kmsg.StringPtr(value)
			one.Configs = append(one.Configs, c)
		}
		r.Resources = append(r.Resources, one)
		answer, err := r.RequestWith(context.Background(), b.client)
		require.NoError(b.t, err)
		require.Zero(b.t, answer.Resources[0].ErrorCode)
		b.until(taken)
	}
}

// until waits until the broker accepts records, or rejects them.
func (b *topic) until(taken bool) {
	require.Eventually(b.t, func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		// A new client for each try: a client keeps its metadata for a while.
		client, err := kgo.NewClient(kgo.SeedBrokers(address(b.t)), kgo.RecordRetries(1), kgo.UnknownTopicRetries(1),
			kgo.MetadataMinAge(50*time.Millisecond), kgo.ProducerLinger(0))
		require.NoError(b.t, err)
		defer client.Close()
		err = client.ProduceSync(ctx, &kgo.Record{Topic: b.name, Value: []byte("probe")}).FirstErr()
		if taken {
			return err == nil
		}
		var rejected *kerr.Error // not a broker that takes its time
		return errors.As(err, &rejected)
	}, 3*time.Minute, 50*time.Millisecond)
}

func startServer(t *testing.T) targettest.Server {
	b := newTopic(t, 3)
	s := &brokertest.Server{Proxy: brokertest.NewProxy(t, address(t)), Messages: make(chan targettest.Delivery, 1000)}
	s.Settings = fmt.Sprintf(`{"broker": %q, "topic": %q, "headers": {"Authorization": {"secret": %q}}}`,
		at(s.Address()), b.name, targettest.SecretName)
	gone := false
	s.Allow = func() {
		if gone {
			b.make(3)
		}
		gone = false
	}
	s.RefuseNow = func() { gone = true; b.remove() }
	s.RefuseFinally = b.set(false, map[string]string{"max.message.bytes": "1"})
	reader, err := kgo.NewClient(kgo.SeedBrokers(address(t)), kgo.ConsumeTopics(b.name),
		kgo.FetchMaxWait(200*time.Millisecond), kgo.MetadataMinAge(50*time.Millisecond))
	require.NoError(t, err)
	t.Cleanup(reader.Close)
	go func() {
		for {
			fetches := reader.PollFetches(context.Background())
			if fetches.IsClientClosed() {
				return
			}
			fetches.EachRecord(func(r *kgo.Record) {
				if header(r, "Authorization") == targettest.Secret { // not a probe
					s.Messages <- brokertest.Delivery(func(name string) string { return header(r, name) }, r.Value)
				}
			})
		}
	}()
	return s
}

func header(r *kgo.Record, name string) string {
	var values []string
	for _, h := range r.Headers {
		if h.Key == name {
			values = append(values, string(h.Value))
		}
	}
	return strings.Join(values, ",")
}

func TestConformance(t *testing.T) {
	t.Parallel()
	targettest.Run(t, targettest.Suite{New: newTarget, Start: startServer})
}

// newTarget returns a target that connects to what a test has set only, although the broker advertises its own address.
func newTarget(_ *testing.T, g targettest.Environment) targettest.Target {
	var mu sync.Mutex
	proxy := ""
	return kafka.NewThrough(broker.Options{Brokers: brokertest.Brokers{}, Secrets: g.Secrets},
		func(ctx context.Context, network, address string) (net.Conn, error) {
			mu.Lock()
			if proxy == "" {
				proxy = address
			}
			address = proxy
			mu.Unlock()
			return (&net.Dialer{}).DialContext(ctx, network, address)
		})
}

// at sets a broker and returns its name.
func at(servers ...string) string {
	return brokertest.Set(access.Broker{Kind: "kafka", Config: access.BrokerConfig{Servers: servers}})
}
