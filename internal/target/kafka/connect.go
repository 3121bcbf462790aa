package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/target/broker"
)

const (
	linger        = 5 * time.Millisecond
	recordTimeout = time.Minute
	recordRetries = 8                // takes about 7 s, enough for a partition to elect a leader
	produceLimit  = 20 * time.Second // how long a broker may take for one request
	maxBuffered   = 100_000          // records
	maxBatch      = 1 << 20          // bytes
)

// producer is a client that knows why it could not connect.
type producer struct {
	client *kgo.Client
	failed atomic.Pointer[error] // the last try to connect, if it failed
}

// OnBrokerConnect implements kgo.HookBrokerConnect.
func (p *producer) OnBrokerConnect(_ kgo.BrokerMetadata, _ time.Duration, _ net.Conn, err error) {
	p.failed.Store(nil)
	if err != nil {
		p.failed.Store(&err)
	}
}

// down returns why the last try to connect failed; nil: it did not.
func (p *producer) down() error {
	if err := p.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// dialFunc opens a connection.
type dialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// open creates a client and checks that a broker responds. dial is for tests; nil: the client's own.
func open(ctx context.Context, b *access.Broker, dial dialFunc) (*producer, error) {
	p := &producer{}
	options := []kgo.Opt{
		kgo.SeedBrokers(b.Config.Servers...), kgo.ClientID("belfry"), kgo.WithHooks(p), kgo.DisableClientMetrics(),
		kgo.DialTimeout(broker.ShareTime(len(b.Config.Servers))),
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.ProducerLinger(linger), kgo.ProducerBatchMaxBytes(maxBatch), kgo.MaxBufferedRecords(maxBuffered),
		kgo.ProducerBatchCompression(kgo.NoCompression()),
		// No record is sent after its attempt has ended.
		kgo.AllowIdempotentProduceCancellation(),
		kgo.RecordDeliveryTimeout(recordTimeout), kgo.RecordRetries(recordRetries), kgo.UnknownTopicRetries(2),
		kgo.ProduceRequestTimeout(produceLimit), kgo.RequestTimeoutOverhead(produceLimit),
		kgo.RetryBackoffFn(func(n int) time.Duration { return min(50*time.Millisecond<<min(n, 6), 2*time.Second) }),
		kgo.MetadataMinAge(250 * time.Millisecond), kgo.MetadataMaxAge(time.Minute),
		// Chooses the partition of a key like Kafka's own clients.
		kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)),
	}
	secure, err := broker.TLSConfig(b)
	if err != nil {
		return nil, err
	}
	switch {
	case dial != nil:
		options = append(options, kgo.Dialer(dial))
	case secure != nil:
		options = append(options, kgo.DialTLSConfig(secure))
	}
	if b.Config.User != "" {
		options = append(options, kgo.SASL(mechanism(b)))
	}
	if p.client, err = kgo.NewClient(options...); err != nil {
		return nil, err
	}
	response := make(chan error, 1)
	go func() { response <- p.client.Ping(ctx) }() // it may ignore ctx while it logs in
	select {
	case err = <-response:
	case <-ctx.Done():
		err = cmp.Or(p.down(), ctx.Err())
	}
	if err != nil {
		go p.client.Close() // it may wait for the broker
		return nil, explain(b, err)
	}
	return p, nil
}

// explain names the failures of a login.
func explain(b *access.Broker, err error) error {
	early := &kgo.ErrFirstReadEOF{}
	switch {
	case errors.Is(err, kerr.SaslAuthenticationFailed), errors.Is(err, kerr.UnsupportedSaslMechanism),
		errors.Is(err, kerr.IllegalSaslState):
		return fmt.Errorf("%w: %w", broker.ErrLogin, err)
	case errors.As(err, &early) && b.Config.User == "":
		return errors.New("it closed the connection without an answer, as brokers do that want a login or TLS")
	default:
		return err
	}
}

func mechanism(b *access.Broker) sasl.Mechanism {
	user, password := b.Config.User, b.Credentials.Password
	switch b.Config.SASL {
	case "PLAIN":
		return plain.Auth{User: user, Pass: password}.AsMechanism()
	case "SCRAM-SHA-256":
		return scram.Auth{User: user, Pass: password}.AsSha256Mechanism()
	default:
		return scram.Auth{User: user, Pass: password}.AsSha512Mechanism()
	}
}
