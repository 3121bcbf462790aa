package hostile

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// kafkaTopic is the topic that the target produces to.
const kafkaTopic = "x"

var kafkaLong = strings.Repeat("x", 32<<10)

func kafkaAttacks() []Attack {
	attacks := slices.Concat(kafkaResponses(), kafkaMetadata(), kafkaLogins())
	for i := range attacks {
		attacks[i].Kind = "kafka"
	}
	return attacks
}

// kafkaConn is a connection from a producer, with a request.
type kafkaConn struct {
	*Conn
	key         kmsg.Key
	version     int16
	correlation int32
}

// header returns the size and the header of a response with a body of that many bytes.
func (k *kafkaConn) header(body int) string {
	response := kmsg.ResponseForKey(int16(k.key))
	response.SetVersion(k.version)
	head := string(binary.BigEndian.AppendUint32(nil, uint32(k.correlation)))
	if response.IsFlexible() && k.key != kmsg.ApiVersions {
		head += "\x00" // no tags
	}
	return string(binary.BigEndian.AppendUint32(nil, uint32(len(head)+body))) + head
}

// encode returns a response.
func (k *kafkaConn) encode(response kmsg.Response) string {
	response.SetVersion(k.version)
	body := string(response.AppendTo(nil))
	return k.header(len(body)) + body
}

// honest returns the response of an honest broker.
func (k *kafkaConn) honest() string {
	switch k.key {
	case kmsg.ApiVersions:
		return k.encode(k.versions(kmsg.SASLHandshake, kmsg.SASLAuthenticate))
	case kmsg.Metadata:
		return k.encode(k.metadata(1, 1, 1))
	case kmsg.InitProducerID:
		r := kmsg.NewPtrInitProducerIDResponse()
		r.ProducerID = 1
		return k.encode(r)
	case kmsg.Produce:
		return k.encode(k.produced(0))
	default:
		return k.encode(kmsg.ResponseForKey(int16(k.key)))
	}
}

func (k *kafkaConn) versions(more ...kmsg.Key) *kmsg.ApiVersionsResponse {
	r := kmsg.NewPtrApiVersionsResponse()
	most := map[kmsg.Key]int16{
		kmsg.Produce: 9, kmsg.Metadata: 12, kmsg.ApiVersions: 3, kmsg.InitProducerID: 4, kmsg.SASLHandshake: 1,
		kmsg.SASLAuthenticate: 2,
	}
	for _, key := range append(more, kmsg.Produce, kmsg.Metadata, kmsg.ApiVersions, kmsg.InitProducerID) {
		one := kmsg.NewApiVersionsResponseApiKey()
		one.ApiKey, one.MaxVersion = int16(key), most[key]
		r.ApiKeys = append(r.ApiKeys, one)
	}
	return r
}

// metadata returns a cluster of that size, all at the address of this server.
func (k *kafkaConn) metadata(brokers, partitions, replicas int) *kmsg.MetadataResponse {
	r := kmsg.NewPtrMetadataResponse()
	host, text, _ := net.SplitHostPort(k.LocalAddr().String())
	port, _ := strconv.ParseInt(text, 10, 32)
	for id := range brokers {
		b := kmsg.NewMetadataResponseBroker()
		b.NodeID, b.Host, b.Port = int32(id+1), host, int32(port)
		r.Brokers = append(r.Brokers, b)
	}
	t := kmsg.NewMetadataResponseTopic()
	t.Topic = kmsg.StringPtr(kafkaTopic)
	for n := range partitions {
		p := kmsg.NewMetadataResponseTopicPartition()
		p.Partition, p.Leader = int32(n), int32(n%brokers+1)
		for i := range replicas {
			p.Replicas = append(p.Replicas, int32(n*replicas+i+1))
		}
		t.Partitions = append(t.Partitions, p)
	}
	r.Topics = append(r.Topics, t)
	return r
}

// produced is the response to a record.
func (k *kafkaConn) produced(code int16) *kmsg.ProduceResponse {
	r := kmsg.NewPtrProduceResponse()
	t := kmsg.NewProduceResponseTopic()
	t.Topic = kafkaTopic
	p := kmsg.NewProduceResponseTopicPartition()
	p.ErrorCode = code
	t.Partitions = append(t.Partitions, p)
	r.Topics = append(r.Topics, t)
	return r
}

// on attacks when a request of that kind arrives, and is honest otherwise.
func on(key kmsg.Key, attack func(k *kafkaConn)) func(c *Conn) {
	return func(c *Conn) {
		for {
			head := make([]byte, 12)
			if _, err := io.ReadFull(c.in, head); err != nil {
				return
			}
			k := &kafkaConn{
				Conn: c, key: kmsg.Key(binary.BigEndian.Uint16(head[4:])),
				version:     int16(binary.BigEndian.Uint16(head[6:])),
				correlation: int32(binary.BigEndian.Uint32(head[8:])),
			}
			size := binary.BigEndian.Uint32(head)
			if _, err := io.CopyN(io.Discard, c.in, int64(size)-8); err != nil || kmsg.ResponseForKey(int16(k.key)) == nil {
				return
			}
			if k.key == key {
				attack(k)
			} else {
				c.say(k.honest())
			}
		}
	}
}

// kafkaResponses are attacks with responses of any kind.
func kafkaResponses() []Attack {
	huge := func(key kmsg.Key) func(*Conn) {
		return on(key, func(k *kafkaConn) { k.say("\x7f\xff\xff\xff"); k.flood(kafkaLong) })
	}
	return []Attack{
		{Name: "versions of 2^31 bytes", Serve: huge(kmsg.ApiVersions)},
		{Name: "metadata of 2^31 bytes", Worst: true, Serve: huge(kmsg.Metadata)},
		{Name: "a confirmation of 2^31 bytes", Serve: huge(kmsg.Produce)},
		{Name: "a confirmation of 100 MB", Serve: on(kmsg.Produce, func(k *kafkaConn) {
			k.say(k.header(100 << 20))
			k.flood(kafkaLong)
		})},
		{Name: "a confirmation of -1 bytes", Serve: on(kmsg.Produce, func(k *kafkaConn) { k.flood("\xff\xff\xff\xff") })},
		{Name: "wrong correlation ids", Serve: on(kmsg.Produce, func(k *kafkaConn) { k.correlation++; k.say(k.honest()) })},
		{Name: "responses that were not asked for", Serve: on(kmsg.Produce, func(k *kafkaConn) { k.flood(k.honest()) })},
		{Name: "many confirmed partitions", Serve: on(kmsg.Produce, func(k *kafkaConn) {
			r := k.produced(0)
			r.Topics[0].Partitions = slices.Repeat(r.Topics[0].Partitions, 3000)
			for i := range r.Topics[0].Partitions {
				r.Topics[0].Partitions[i].Partition = int32(i)
			}
			k.say(k.encode(r))
		})},
		{Name: "as many topics as bytes", Serve: on(kmsg.Produce, func(k *kafkaConn) {
			const size = 120 << 10
			k.say(k.header(size) + "\xc0\xa9\x07" + strings.Repeat("\x01", size-3))
		})},
		{Name: "impossible offsets", Serve: on(kmsg.Produce, func(k *kafkaConn) {
			r := k.produced(0)
			r.Topics[0].Partitions[0].BaseOffset, r.Topics[0].Partitions[0].Partition = math.MinInt64, math.MaxInt32
			k.say(k.encode(r))
		})},
		{Name: "throttled for ever", Serve: on(kmsg.Produce, func(k *kafkaConn) {
			r := k.produced(kerr.NotLeaderForPartition.Code)
			r.ThrottleMillis = math.MaxInt32
			k.say(k.encode(r))
		})},
		{Name: "never the leader", Serve: on(kmsg.Produce, func(k *kafkaConn) {
			k.say(k.encode(k.produced(kerr.NotLeaderForPartition.Code)))
		})},
		{Name: "a confirmation, slowly", Serve: on(kmsg.Produce, func(k *kafkaConn) { k.trickle(k.honest()) })},
		{Name: "no confirmation", Serve: on(kmsg.Produce, func(*kafkaConn) {})},
		{Name: "garbage for a confirmation", Serve: on(kmsg.Produce, func(k *kafkaConn) { k.flood("\xff\xfe\x00\x01\x02") })},
		{Name: "does not read", Serve: on(kmsg.Produce, func(*kafkaConn) { <-time.After(10 * time.Second) })},
	}
}

// kafkaMetadata are attacks with metadata.
func kafkaMetadata() []Attack {
	large := func(build func(k *kafkaConn) *kmsg.MetadataResponse) func(*Conn) {
		return on(kmsg.Metadata, func(k *kafkaConn) { k.say(k.encode(build(k))) })
	}
	again := func(partitions, replicas int) func(*Conn) {
		return large(func(k *kafkaConn) *kmsg.MetadataResponse {
			r := k.metadata(1, partitions, 0)
			for i := range r.Topics[0].Partitions {
				r.Topics[0].Partitions[i].Replicas = slices.Repeat([]int32{1}, replicas)
			}
			r.Topics[0].Partitions[0].ErrorCode = kerr.LeaderNotAvailable.Code
			return r
		})
	}
	next := int32(0)
	return []Attack{
		{Name: "10,000 brokers", Worst: true, Serve: large(func(k *kafkaConn) *kmsg.MetadataResponse {
			return k.metadata(10_000, 1, 1)
		})},
		{Name: "120,000 replicas", Worst: true, Serve: large(func(k *kafkaConn) *kmsg.MetadataResponse {
			return k.metadata(1, 120, 1000)
		})},
		{Name: "25,000 partitions", Serve: large(func(k *kafkaConn) *kmsg.MetadataResponse {
			return k.metadata(1, 25_000, 0)
		})},
		{Name: "900 brokers with 900 partitions", Serve: large(func(k *kafkaConn) *kmsg.MetadataResponse {
			return k.metadata(900, 900, 0)
		})},
		{Name: "18,000 topics that were not asked for", Serve: large(func(k *kafkaConn) *kmsg.MetadataResponse {
			r := k.metadata(1, 1, 1)
			for i := range 18_000 {
				t := kmsg.NewMetadataResponseTopic()
				t.Topic = kmsg.StringPtr(fmt.Sprint(i))
				r.Topics = append(r.Topics, t)
			}
			return r
		})},
		{Name: "other brokers each time", Serve: on(kmsg.Metadata, func(k *kafkaConn) {
			r := k.metadata(900, 900, 0)
			for i := range r.Brokers {
				r.Brokers[i].NodeID += next
				r.Topics[0].Partitions[i].Leader += next
			}
			next += 900
			k.say(k.encode(r))
		})},
		{Name: "as many topics as bytes of metadata", Serve: on(kmsg.Metadata, func(k *kafkaConn) {
			const size = 2_000_000
			body := "\x00\x00\x00\x00\x01\x00\x00\x00\x00\x01\xe0\xe2\x79"
			k.say(k.header(size) + body + strings.Repeat("\x01", size-len(body)))
		})},
		{Name: "2^31 brokers", Serve: on(kmsg.Metadata, func(k *kafkaConn) {
			body := "\x00\x00\x00\x00\xff\xff\xff\xff\x07"
			k.say(k.header(len(body)) + body)
		})},
		{Name: "long names", Serve: large(func(k *kafkaConn) *kmsg.MetadataResponse {
			r := k.metadata(1, 1, 1)
			r.ClusterID, r.Topics[0].Topic = kmsg.StringPtr(kafkaLong), kmsg.StringPtr(kafkaLong)
			return r
		})},
		{Name: "metadata of 500 kB again and again", Serve: again(20_000, 0)},
		{Name: "metadata of 2 MB again and again", Worst: true, Serve: again(24_000, 15)},
	}
}

// kafkaLogins are attacks before the first record.
func kafkaLogins() []Attack {
	return []Attack{
		{Name: "SCRAM with 2^31 rounds", Worst: true, Login: true, Serve: scramRounds("2147483647")},
		{Name: "SCRAM with a million rounds", Login: true, Serve: scramRounds("1000000")},
		{Name: "SCRAM without end", Login: true, Serve: on(kmsg.SASLAuthenticate, func(k *kafkaConn) {
			k.say(k.header(100<<20) + "\x00\x00")
			k.flood(kafkaLong)
		})},
		{Name: "login of old brokers", Login: true, Serve: on(kmsg.ApiVersions, func(k *kafkaConn) {
			k.say(k.encode(k.versions()))
		})},
		{Name: "10,000 versions", Serve: on(kmsg.ApiVersions, func(k *kafkaConn) {
			r := k.versions()
			for i := range 10_000 {
				one := kmsg.NewApiVersionsResponseApiKey()
				one.ApiKey, one.MinVersion, one.MaxVersion = int16(i+100), math.MinInt16, math.MaxInt16
				r.ApiKeys = append(r.ApiKeys, one)
			}
			k.say(k.encode(r))
		})},
		{Name: "negative versions", Serve: on(kmsg.ApiVersions, func(k *kafkaConn) {
			r := k.versions()
			for i := range r.ApiKeys {
				r.ApiKeys[i].ApiKey, r.ApiKeys[i].MaxVersion = -r.ApiKeys[i].ApiKey, math.MinInt16
			}
			k.say(k.encode(r))
		})},
		{Name: "versions, slowly", Serve: on(kmsg.ApiVersions, func(k *kafkaConn) { k.trickle(k.honest()) })},
		{Name: "flood before the login", Serve: func(c *Conn) { c.flood("\x00\x00\x00\x04\x00\x00\x00\x00") }},
		{Name: "garbage", Serve: func(c *Conn) { c.flood("\xff\xfe\xfd\xfc\xfb\xfa") }},
		{Name: "hangs up", Serve: func(*Conn) {}},
		{Name: "garbage instead of TLS", Only: TLSOnly, SelfSecuring: true, Serve: func(c *Conn) { c.flood(kafkaLong) }},
		{Name: "endless TLS records", Only: TLSOnly, SelfSecuring: true, Serve: func(c *Conn) {
			c.flood("\x16\x03\x03\x40\x00" + kafkaLong[:16<<10])
		}},
	}
}

// scramRounds demands that many rounds for a login.
func scramRounds(rounds string) func(c *Conn) {
	return func(c *Conn) {
		for {
			head := make([]byte, 12)
			if _, err := io.ReadFull(c.in, head); err != nil {
				return
			}
			body := make([]byte, binary.BigEndian.Uint32(head)-8)
			if _, err := io.ReadFull(c.in, body); err != nil {
				return
			}
			k := &kafkaConn{
				Conn: c, key: kmsg.Key(binary.BigEndian.Uint16(head[4:])),
				version:     int16(binary.BigEndian.Uint16(head[6:])),
				correlation: int32(binary.BigEndian.Uint32(head[8:])),
			}
			_, nonce, ok := strings.Cut(string(body), ",r=")
			if k.key != kmsg.SASLAuthenticate || !ok {
				c.say(k.honest())
				continue
			}
			r := kmsg.NewPtrSASLAuthenticateResponse()
			r.SASLAuthBytes = []byte("r=" + strings.TrimRight(nonce, "\x00") + "server,s=c2FsdHNhbHQ=,i=" + rounds)
			k.say(k.encode(r))
		}
	}
}
