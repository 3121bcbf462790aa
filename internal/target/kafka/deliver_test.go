package kafka_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

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
	target := kafka.New(broker.Options{Brokers: brokertest.Brokers{}})
	t.Cleanup(target.Close)
	const n = 2000
	name := at(address(t))
	want := sync.Map{}
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			a := brokertest.Attempt("kafka",
				fmt.Sprintf(`{"broker": %q, "topic": %q, "key": "k/${run_id}"}`, name, b.name))
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
	target := kafka.New(broker.Options{Brokers: brokertest.Brokers{}})
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
			brokertest.Attempt("kafka", fmt.Sprintf(`{"broker": %q, "topic": %q%s}`, at(address(t)), c.topic, c.more)))
		require.Equal(t, c.kind, out.Kind, "%+v: %+v", c, out)
		require.Equal(t, c.retryable, out.Retryable, "%+v: %+v", c, out)
		require.Contains(t, out.Message, c.says)
		require.False(t, out.Unknown)
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	target := kafka.New(broker.Options{})
	for config, field := range map[string]string{
		`{"broker": "x"}`:                                                    "topic",
		`{"topic": "a"}`:                                                     "broker",
		`{"broker": "a b", "topic": "a"}`:                                    "broker",
		`{"broker": "x", "topic": "a b"}`:                                    "topic",
		`{"broker": "x", "topic": "a", "key": 1}`:                            "key",
		`{"broker": "x", "topic": "a", "key": "${"}`:                         "key",
		`{"broker": "x", "topic": "a", "servers": ["y"]}`:                    "servers",
		`{"broker": "x", "topic": "a", "headers": {"idempotency-key": "x"}}`: "headers.idempotency-key",
	} {
		problems := problem.All(target.Check(json.RawMessage(config)))
		require.NotEmpty(t, problems, config)
		require.Equal(t, "target.config."+field, problems[0].Field, config)
	}
	config := json.RawMessage(`{"broker": "x", "topic": "a.${job.queue}"}`)
	require.NoError(t, target.Check(config))
	require.Equal(t, "x", target.Broker(config))
}
