package kafka

import (
	"encoding/binary"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// response returns metadata of a cluster in one version of the protocol.
func response(version int16, brokers, partitions int, topics ...string) []byte {
	r := kmsg.NewPtrMetadataResponse()
	r.SetVersion(version)
	for id := range brokers {
		b := kmsg.NewMetadataResponseBroker()
		b.NodeID, b.Host, b.Port = int32(id), "kafka.test", 9092
		r.Brokers = append(r.Brokers, b)
	}
	for _, name := range topics {
		t := kmsg.NewMetadataResponseTopic()
		t.Topic = kmsg.StringPtr(name)
		for n := range partitions {
			p := kmsg.NewMetadataResponseTopicPartition()
			p.Partition, p.Leader, p.Replicas, p.ISR = int32(n), int32(n%brokers), []int32{0, 1}, []int32{0}
			t.Partitions = append(t.Partitions, p)
		}
		r.Topics = append(r.Topics, t)
	}
	head := binary.BigEndian.AppendUint32(nil, 7)
	if r.IsFlexible() {
		head = append(head, 0)
	}
	return r.AppendTo(head)
}

// Metadata is read in each version, and refused if it is cut off or has too much in it.
func TestMetadata(t *testing.T) {
	t.Parallel()
	for version := range kmsg.NewPtrMetadataResponse().MaxVersion() + 1 {
		var c cluster
		good := response(version, 3, 12, "a", "b")
		require.True(t, c.accept(version, good), version)
		require.True(t, c.accept(version, good), "the same again")
		require.Len(t, c.brokers, 3)
		require.Equal(t, map[string]int{"a": 12, "b": 12}, c.topics)
		require.Equal(t, 24, c.partitions)
		require.False(t, c.full())
		require.False(t, (&cluster{}).accept(version, good[:len(good)/2]), version)

		require.False(t, c.accept(version, response(version, maxBrokers+1, 1, "a")), "brokers")
		c = cluster{}
		require.True(t, c.accept(version, response(version, 1, fullPartitions+1, "a")))
		require.False(t, c.full(), "one large topic")
		require.True(t, c.accept(version, response(version, 1, 1, "b")))
		require.True(t, c.full())
		require.False(t, c.accept(version, response(version, 1, fullPartitions, "b")), "partitions")
	}
}

// A client whose next metadata could be too large is replaced, and so is one whose metadata was refused.
func TestLargeMetadata(t *testing.T) {
	t.Parallel()
	var c cluster
	long := strings.Repeat("x", fullSize)
	require.True(t, c.accept(12, response(12, 1, 1, long)))
	require.False(t, c.full(), "one topic")
	require.True(t, c.accept(12, response(12, 1, 1, long, "a")))
	require.True(t, c.full())
	c = cluster{}
	require.False(t, c.accept(12, response(12, maxBrokers+1, 1, "a")))
	require.True(t, c.full())
	c = cluster{}
	require.False(t, c.accept(12, []byte("garbage")))
	require.True(t, c.full())
}

// A client that knows many topics is replaced. Topics that were not asked for are refused before that.
func TestManyTopics(t *testing.T) {
	t.Parallel()
	var c cluster
	for n := range maxTopics {
		require.True(t, c.accept(12, response(12, 1, 1, strconv.Itoa(n))))
		require.False(t, c.full())
	}
	require.True(t, c.accept(12, response(12, 1, 1, "one more")))
	require.True(t, c.full())
	names := make([]string, 2*maxTopics+1)
	for n := range names {
		names[n] = "x" + strconv.Itoa(n)
	}
	require.False(t, (&cluster{}).accept(12, response(12, 1, 0, names...)))
}

// A client has a limited number of connections.
func TestSockets(t *testing.T) {
	t.Parallel()
	var c cluster
	for range maxSockets {
		require.True(t, c.open())
	}
	require.False(t, c.open())
	c.closed()
	require.True(t, c.open())
}
