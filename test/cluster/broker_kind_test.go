package cluster_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/belfry-dev/belfry/internal/access"
)

// brokerKind creates a destination for messages, and reads what is there.
type brokerKind struct {
	service, target string
	broker          access.Broker // without its server
	config          string        // of the job, which names the broker
	make            func(t *testing.T, address string)
	// read returns how often each run is there, by its id.
	read func(t *testing.T, address string) map[string]int
}

const destination = "runs" // topic, stream or queue

var brokerKinds = map[string]brokerKind{
	"Kafka": {
		service: "kafka", target: "kafka", make: makeTopic, read: readTopic, config: `{"broker": "b", "topic": "runs"}`,
	},
	"NATS": {
		service: "nats", target: "nats", make: makeStream, read: readStream, config: `{"broker": "b", "subject": "runs"}`,
	},
	"RabbitMQ": {
		service: "rabbitmq", target: "amqp", make: makeQueue, read: readQueue,
		config: `{"broker": "b", "routing_key": "runs"}`,
		broker: access.Broker{
			Config: access.BrokerConfig{User: "belfry"}, Credentials: access.BrokerCredentials{Password: "belfry"},
		},
	},
}

// set sets the broker that jobs name, as its operator does.
func (k brokerKind) set(c *cluster, address string) {
	b := k.broker
	b.Name, b.Kind, b.Config.Servers = "b", k.target, []string{address}
	require.NoError(c.t, c.store.PutBroker(c.t.Context(), &b))
}

func makeTopic(t *testing.T, address string) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(address))
	require.NoError(t, err)
	defer client.Close()
	r := kmsg.NewPtrCreateTopicsRequest()
	one := kmsg.NewCreateTopicsRequestTopic()
	one.Topic, one.NumPartitions, one.ReplicationFactor = destination, 6, 1
	r.Topics = append(r.Topics, one)
	answer, err := r.RequestWith(t.Context(), client)
	require.NoError(t, err)
	require.Zero(t, answer.Topics[0].ErrorCode)
	// The controller answers before the broker has loaded the topic.
	require.Eventually(t, func() bool {
		_, err := topicEnd(t.Context(), client)
		return err == nil
	}, time.Minute, 50*time.Millisecond)
}

// topicEnd counts the records of the topic.
func topicEnd(ctx context.Context, client *kgo.Client) (records int64, err error) {
	r := kmsg.NewPtrListOffsetsRequest()
	topic := kmsg.NewListOffsetsRequestTopic()
	topic.Topic = destination
	for p := range int32(6) {
		one := kmsg.NewListOffsetsRequestTopicPartition()
		one.Partition, one.Timestamp = p, -1
		topic.Partitions = append(topic.Partitions, one)
	}
	r.Topics = append(r.Topics, topic)
	for _, shard := range client.RequestSharded(ctx, r) {
		if shard.Err != nil {
			return 0, shard.Err
		}
		for _, p := range shard.Resp.(*kmsg.ListOffsetsResponse).Topics[0].Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				return 0, err
			}
			records += p.Offset
		}
	}
	return records, nil
}

// readTopic reads up to the current end of the topic.
func readTopic(t *testing.T, address string) map[string]int {
	t.Helper()
	out := map[string]int{}
	client, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.ConsumeTopics(destination),
		kgo.FetchMaxWait(100*time.Millisecond))
	require.NoError(t, err)
	defer client.Close()
	left, err := topicEnd(t.Context(), client)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for left > 0 {
		fetches := client.PollFetches(ctx)
		require.NoError(t, fetches.Err())
		fetches.EachRecord(func(r *kgo.Record) {
			left--
			for _, h := range r.Headers {
				if h.Key == "Belfry-Run-Id" {
					require.Equal(t, string(h.Value), string(r.Key))
					out[string(r.Key)]++
				}
			}
		})
	}
	return out
}

func stream(t *testing.T, address string) (jetstream.JetStream, func()) {
	t.Helper()
	conn, err := nats.Connect("nats://" + address)
	require.NoError(t, err)
	js, err := jetstream.New(conn)
	require.NoError(t, err)
	return js, conn.Close
}

func makeStream(t *testing.T, address string) {
	t.Helper()
	js, end := stream(t, address)
	defer end()
	_, err := js.CreateStream(t.Context(), jetstream.StreamConfig{
		Name: destination, Subjects: []string{destination}, Storage: jetstream.FileStorage,
	})
	require.NoError(t, err)
}

func readStream(t *testing.T, address string) map[string]int {
	t.Helper()
	js, end := stream(t, address)
	defer end()
	s, err := js.Stream(t.Context(), destination)
	require.NoError(t, err)
	out := map[string]int{}
	consumer, err := s.OrderedConsumer(t.Context(), jetstream.OrderedConsumerConfig{})
	require.NoError(t, err)
	for left := s.CachedInfo().State.Msgs; left > 0; left-- {
		m, err := consumer.Next(jetstream.FetchMaxWait(time.Minute))
		require.NoError(t, err)
		out[m.Headers().Get("Belfry-Run-Id")]++
	}
	return out
}

func queueChannel(t *testing.T, address string) (*amqp091.Channel, func()) {
	t.Helper()
	conn, err := amqp091.Dial("amqp://belfry:belfry@" + address + "/")
	require.NoError(t, err)
	ch, err := conn.Channel()
	require.NoError(t, err)
	return ch, func() { _ = conn.Close() }
}

func makeQueue(t *testing.T, address string) {
	t.Helper()
	ch, end := queueChannel(t, address)
	defer end()
	_, err := ch.QueueDeclare(destination, true, false, false, false, amqp091.Table{"x-queue-type": "quorum"})
	require.NoError(t, err)
}

// readQueue does not acknowledge, so the messages remain for the next reader.
func readQueue(t *testing.T, address string) map[string]int {
	t.Helper()
	ch, end := queueChannel(t, address)
	defer end()
	out := map[string]int{}
	for {
		d, ok, err := ch.Get(destination, false)
		require.NoError(t, err)
		if !ok {
			return out
		}
		out[fmt.Sprint(d.Headers["Belfry-Run-Id"])]++
	}
}
