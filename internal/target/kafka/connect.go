package kafka

import (
	"context"
	"errors"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/belfry-dev/belfry/internal/target/broker"
	"github.com/belfry-dev/belfry/internal/target/guard"
)

const (
	linger        = 5 * time.Millisecond
	recordTimeout = time.Minute
	recordRetries = 8                // within some 7 s: as long as a partition may look for a leader
	produceLimit  = 20 * time.Second // that a broker may take for one request
	maxBuffered   = 100_000          // records
	maxBatch      = 1 << 20          // bytes
	downGrace     = time.Second
)

// producer is a client, and whether any broker can be reached through it.
type producer struct {
	client *kgo.Client
	down   chan struct{} // closed when none can be

	mu     sync.Mutex
	open   int
	err    error // of the last try to connect, if it failed
	timer  *time.Timer
	so     moment
	failed map[int32]failure // to connect the last time, by broker
}

// dialError says that a broker could not be connected to.
type dialError struct{ error }

func (e *dialError) Unwrap() error { return e.error }

// moment in the life of a producer: how much it has done by then.
type moment struct{ connects, writes int }

// failure to connect, and as which try that was.
type failure struct {
	err error
	at  int
}

func (p *producer) now() moment {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.so
}

// whyNot is why brokers that others lead to could not be connected to since then;
// nil: they could, or it was not tried.
func (p *producer) whyNot(since moment) (err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(p.failed)) {
		if f := p.failed[id]; id >= 0 && f.at > since.connects { // servers of the config have numbers below 0
			err = broker.Kinder(err, f.err)
		}
	}
	return err
}

// OnBrokerWrite is for kgo.
func (p *producer) OnBrokerWrite(_ kgo.BrokerMetadata, key int16, bytes int, _, _ time.Duration, _ error) { //nolint:revive // kgo's
	if key != int16(kmsg.Produce) || bytes == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.so.writes++
}

// OnBrokerConnect is for kgo.
func (p *producer) OnBrokerConnect(to kgo.BrokerMetadata, _ time.Duration, conn net.Conn, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.err = err
	p.so.connects++
	if delete(p.failed, to.NodeID); err != nil {
		p.failed[to.NodeID] = failure{err, p.so.connects}
	}
	switch {
	case err == nil:
		p.open++
		if p.isDown() {
			_ = conn.Close() // what was not sent by then was said not to be
		}
		if p.timer != nil {
			p.timer.Stop()
			p.timer = nil
		}
	case errors.Is(err, guard.ErrRefused):
		p.giveUp() // an address that a broker advertises, and that stays what it is
	case p.open == 0 && p.timer == nil:
		p.timer = time.AfterFunc(downGrace, func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			if p.open == 0 {
				p.giveUp()
			}
		})
	}
}

// OnBrokerDisconnect is for kgo.
func (p *producer) OnBrokerDisconnect(kgo.BrokerMetadata, net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open--
}

func (p *producer) giveUp() {
	if !p.isDown() {
		close(p.down)
	}
}

func (p *producer) isDown() bool {
	select {
	case <-p.down:
		return true
	default:
		return false
	}
}

// why is the last error of a connection.
func (p *producer) why() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil {
		return broker.OwnError("the connection was lost")
	}
	return p.err
}

// open makes a client and sees whether it works.
func (t *Target) open(c *config, access broker.Access) func(context.Context) (*producer, error) {
	return func(ctx context.Context) (p *producer, err error) {
		err = access.Try(ctx, func(ctx context.Context, server string) (err error) {
			p, err = t.openOne(ctx, c, access, server)
			return err
		})
		return p, err
	}
}

// openOne learns from one server which others there are.
func (t *Target) openOne(ctx context.Context, c *config, access broker.Access, server string) (*producer, error) {
	// The client goes on trying for long, and does not say why.
	if conn, err := access.Dial(ctx, t.opts.Dialer, server); err != nil {
		return nil, err
	} else if err := conn.Close(); err != nil {
		return nil, err
	}
	p := &producer{down: make(chan struct{}), failed: map[int32]failure{}}
	client, err := kgo.NewClient(t.options(c, access, server, p)...)
	if err != nil {
		return nil, &broker.FinalError{Err: errors.New("the client does not take these settings")}
	}
	if err := ping(ctx, client, p); err != nil {
		go client.Close() // it may wait for the broker
		if early := (&kgo.ErrFirstReadEOF{}); errors.As(err, &early) && access.User == "" {
			err = broker.OwnError("it closed the connection without an answer; if it asks for a login, give user and password")
		}
		return nil, err
	}
	p.client = client
	return p, nil
}

func (t *Target) options(c *config, access broker.Access, server string, p *producer) []kgo.Opt {
	options := []kgo.Opt{
		kgo.SeedBrokers(server), kgo.ClientID("belfry"), kgo.WithHooks(p),
		kgo.Dialer(func(ctx context.Context, _, address string) (net.Conn, error) {
			conn, err := access.Dial(ctx, t.opts.Dialer, address)
			if err != nil {
				return nil, &dialError{err}
			}
			return conn, nil
		}),
		kgo.RequiredAcks(kgo.AllISRAcks()), kgo.ProducerLinger(linger), kgo.ProducerBatchMaxBytes(maxBatch), kgo.MaxBufferedRecords(maxBuffered),
		kgo.RecordDeliveryTimeout(recordTimeout), kgo.ProduceRequestTimeout(produceLimit), kgo.RequestTimeoutOverhead(produceLimit),
		kgo.UnknownTopicRetries(2), kgo.RecordRetries(recordRetries), kgo.MetadataMinAge(250 * time.Millisecond), kgo.MetadataMaxAge(time.Minute),
		kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.DisableClientMetrics(),
		kgo.RetryBackoffFn(func(n int) time.Duration { return min(50*time.Millisecond<<min(n, 6), 2*time.Second) }),
		// As Kafka's own clients choose a partition for a key.
		kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)),
	}
	if access.User != "" {
		options = append(options, kgo.SASL(mechanism(c.sasl, access)))
	}
	return options
}

// ping asks a broker who it is.
func ping(ctx context.Context, client *kgo.Client, p *producer) error {
	var err error
	answer := make(chan error, 1)
	go func() { answer <- client.Ping(ctx) }() // the first words to a broker heed no context
	select {
	case err = <-answer:
	case <-p.down:
		err = p.why()
	case <-ctx.Done():
		err = ctx.Err()
	}
	said := func(what error) bool { return errors.Is(err, what) || errors.Is(p.why(), what) }
	switch {
	case err == nil:
		return nil
	case errors.Is(p.why(), guard.ErrRefused):
		return p.why()
	case said(kerr.SaslAuthenticationFailed), said(kerr.UnsupportedSaslMechanism):
		return &broker.FinalError{Err: errors.New("the brokers do not take these credentials; mend user, password and sasl")}
	case said(kerr.IllegalSaslState):
		return &broker.FinalError{Err: errors.New("the brokers ask for no login there; remove user and password, or give the port where they do")}
	default:
		return err
	}
}

func mechanism(name string, a broker.Access) sasl.Mechanism {
	switch name {
	case "PLAIN":
		return plain.Auth{User: a.User, Pass: a.Password}.AsMechanism()
	case "SCRAM-SHA-256":
		return scram.Auth{User: a.User, Pass: a.Password}.AsSha256Mechanism()
	default:
		return scram.Auth{User: a.User, Pass: a.Password}.AsSha512Mechanism()
	}
}
