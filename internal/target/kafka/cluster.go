package kafka

import (
	"sync"

	"github.com/twmb/franz-go/pkg/kbin"
)

// What the brokers of a client may report. The client keeps an object of several hundred bytes for each broker,
// replica and partition.
const (
	maxBrokers    = 1000 // different ids, as long as the client lives
	maxTopics     = 500  // the client is replaced after these, and so are the topics it knows
	maxPartitions = 25_000
	// The client is replaced before the metadata of all its topics, which it asks for together, is too large.
	fullSize       = maxMetadata / 2
	fullPartitions = maxPartitions / 2
)

// cluster is what the brokers of one client have reported, and its connections to them.
type cluster struct {
	mu         sync.Mutex
	brokers    map[int32]struct{}
	topics     map[string]int // number of partitions
	partitions int
	size       int  // of the last metadata, in bytes
	refused    bool // metadata was refused, and would be again
	sockets    int
}

// open reports whether one more connection may be opened.
func (c *cluster) open() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sockets >= maxSockets {
		return false
	}
	c.sockets++
	return true
}

func (c *cluster) closed() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sockets--
}

// full reports whether the client should be replaced, because it knows too many topics.
func (c *cluster) full() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.refused || len(c.topics) > maxTopics ||
		len(c.topics) > 1 && (c.partitions > fullPartitions || c.size > fullSize)
}

// refuse notes that metadata was refused. The client asks for the same topics again, so it has to be replaced.
func (c *cluster) refuse() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refused = true
}

// accept reads metadata and reports whether the client may read it.
func (c *cluster) accept(version int16, response []byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := &metadata{Reader: kbin.Reader{Src: response}, cluster: c, version: version}
	m.read()
	c.size, c.refused = len(response), c.refused || !m.Ok() || m.excess
	return m.Ok() && !m.excess
}

func (c *cluster) broker(id int32) bool {
	if c.brokers == nil {
		c.brokers = map[int32]struct{}{}
	}
	c.brokers[id] = struct{}{}
	return len(c.brokers) <= maxBrokers
}

func (c *cluster) topic(name string, partitions int) bool {
	if c.topics == nil {
		c.topics = map[string]int{}
	}
	c.partitions += partitions - c.topics[name]
	c.topics[name] = partitions
	return len(c.topics) <= 2*maxTopics && c.partitions <= maxPartitions
}

// metadata reads a response without reserving memory for it: see Kafka's MetadataResponse.
type metadata struct {
	kbin.Reader
	cluster *cluster
	version int16
	excess  bool
}

const flexible = 9 // the first version with compact strings and tags

func (m *metadata) read() {
	const correlation = 4
	m.Span(correlation)
	m.tags()
	if m.version >= 3 {
		m.Int32() // throttled
	}
	for range m.array() {
		m.broker()
	}
	if m.version >= 2 {
		m.text() // the cluster's id
	}
	if m.version >= 1 {
		m.Int32() // the controller
	}
	for range m.array() {
		m.topic()
	}
}

func (m *metadata) broker() {
	m.id()
	m.text() // host
	m.Int32()
	if m.version >= 1 {
		m.text() // rack
	}
	m.tags()
}

func (m *metadata) topic() {
	m.Int16() // error
	name := m.text()
	if m.version >= 10 {
		m.Uuid()
	}
	if m.version >= 1 {
		m.Bool() // internal
	}
	partitions := m.array()
	for range partitions {
		m.partition()
	}
	if m.version >= 8 {
		m.Int32() // allowed operations
	}
	m.tags()
	m.excess = m.excess || !m.cluster.topic(name, partitions)
}

func (m *metadata) partition() {
	m.Int16() // error
	m.Int32() // number
	m.id()    // leader
	if m.version >= 7 {
		m.Int32() // epoch
	}
	arrays := 2 // replicas, and those in sync
	if m.version >= 5 {
		arrays = 3 // those offline
	}
	for range arrays {
		for range m.array() {
			m.id()
		}
	}
	m.tags()
}

// id reads the id of a broker.
func (m *metadata) id() {
	if id := m.Int32(); !m.cluster.broker(id) {
		m.excess = true
	}
}

// array returns the length of an array. It is 0 after an error or an excess, so that reading ends.
func (m *metadata) array() int {
	var n int32
	if m.version >= flexible {
		n = m.CompactArrayLen()
	} else {
		n = m.ArrayLen()
	}
	if !m.Ok() || m.excess {
		return 0
	}
	return max(int(n), 0)
}

// text returns a string. One that is null is empty.
func (m *metadata) text() (text string) {
	var p *string
	if m.version >= flexible {
		p = m.CompactNullableString()
	} else {
		p = m.NullableString()
	}
	if p != nil {
		text = *p
	}
	return text
}

// tags reads fields that later versions have added.
func (m *metadata) tags() {
	if m.version < flexible {
		return
	}
	for n := m.Uvarint(); n > 0 && m.Ok(); n-- {
		m.Uvarint()
		m.Span(int(m.Uvarint()))
	}
}
