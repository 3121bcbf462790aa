package kafka

import (
	"context"
	"errors"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/belfry-dev/belfry/internal/target/broker"
	"github.com/belfry-dev/belfry/internal/target/guard"
	"github.com/belfry-dev/belfry/internal/target/throttle"
)

const (
	linger        = 5 * time.Millisecond
	recordTimeout = time.Minute
	recordRetries = 8                // takes about 7 s, enough for a partition to elect a leader
	produceLimit  = 20 * time.Second // how long a broker may take for one request
	maxBuffered   = 100_000          // records
	maxBatch      = 1 << 20          // bytes
	downGrace     = time.Second      // how long no broker may be connected before the client is closed
)

// producer is a client that knows whether any broker can be reached through it.
type producer struct {
	client   *kgo.Client
	throttle *throttle.Dialer
	cluster  cluster
	down     chan struct{} // closed when no broker can be reached

	mu       sync.Mutex
	open     int   // connections
	err      error // of the last try to connect, if it failed
	timer    *time.Timer
	progress progress
	failed   map[int32]failure // brokers whose last connection failed
}

// dialError says that a broker could not be connected to.
type dialError struct{ error }

func (e *dialError) Unwrap() error { return e.error }

// progress counts what a producer has done so far.
type progress struct{ connects, writes int }

// failure is a failed try to connect. number is its number among all tries.
type failure struct {
	err    error
	number int
}

func (p *producer) now() progress {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.progress
}

// connectError returns why advertised brokers could not be connected to since then. It is nil if they could,
// or if it was not tried.
func (p *producer) connectError(since progress) (err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(p.failed)) {
		if f := p.failed[id]; id >= 0 && f.number > since.connects { // servers of the config have negative ids
			err = broker.PreferRetryable(err, f.err)
		}
	}
	return err
}

// OnBrokerWrite implements kgo.HookBrokerWrite.
//
//nolint:revive // kgo defines the parameters
func (p *producer) OnBrokerWrite(_ kgo.BrokerMetadata, key int16, bytes int, _, _ time.Duration, _ error) {
	if key != int16(kmsg.Produce) || bytes == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.progress.writes++
}

// OnBrokerConnect implements kgo.HookBrokerConnect.
func (p *producer) OnBrokerConnect(to kgo.BrokerMetadata, _ time.Duration, conn net.Conn, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.err = err
	p.progress.connects++
	if delete(p.failed, to.NodeID); err != nil {
		p.failed[to.NodeID] = failure{err, p.progress.connects}
	}
	switch {
	case err == nil:
		p.open++
		if p.isDown() {
			_ = conn.Close() // deliveries were already reported as not sent
		}
		if p.timer != nil {
			p.timer.Stop()
			p.timer = nil
		}
	case errors.Is(err, guard.ErrRefused):
		p.giveUp() // a broker advertises this address, and waiting does not change that
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

// OnBrokerDisconnect implements kgo.HookBrokerDisconnect.
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

// lastError returns the error of the last try to connect.
func (p *producer) lastError() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil {
		return broker.OwnError("the connection was lost")
	}
	return p.err
}

// Connection implements broker.Settings.
func (c *config) Connection(
	ctx context.Context, o *broker.Options, namespace uuid.UUID,
) (string, broker.OpenFunc[*producer], error) {
	access, err := c.Access(ctx, o, namespace, c.sasl)
	if err != nil {
		return "", nil, err
	}
	connect := &connector{config: c, access: access, dialer: o.Dialer}
	return access.Key, connect.open, nil
}

// connector opens clients.
type connector struct {
	config *config
	access broker.Access
	dialer broker.Dialer
}

// open creates a client and checks that it works.
func (o *connector) open(ctx context.Context) (p *producer, err error) {
	err = o.access.Try(ctx, func(ctx context.Context, server string) (err error) {
		p, err = o.openOne(ctx, server)
		return err
	})
	return p, err
}

// openOne creates a client that learns about the other brokers from one server.
func (o *connector) openOne(ctx context.Context, server string) (*producer, error) {
	p := &producer{throttle: throttle.New(o.dialer, burst), down: make(chan struct{}), failed: map[int32]failure{}}
	// Dial first: the client would retry for a long time without reporting why.
	if conn, err := o.access.Dial(ctx, p.throttle, server); err != nil {
		return nil, err
	} else if err := conn.Close(); err != nil {
		return nil, err
	}
	client, err := kgo.NewClient(o.options(server, p)...)
	if err != nil {
		return nil, &broker.FinalError{Err: errors.New("the client does not accept these settings")}
	}
	if err := ping(ctx, client, p); err != nil {
		go client.Close() // it may wait for the broker
		if early := (&kgo.ErrFirstReadEOF{}); errors.As(err, &early) && o.access.User == "" {
			err = broker.OwnError("it closed the connection without an answer; " +
				"if it asks for a login, give user and password")
		}
		return nil, err
	}
	p.client = client
	return p, nil
}

func (o *connector) options(server string, p *producer) []kgo.Opt {
	options := []kgo.Opt{
		kgo.SeedBrokers(server), kgo.ClientID("belfry"), kgo.WithHooks(p), kgo.DisableClientMetrics(),
		kgo.Dialer(func(ctx context.Context, _, address string) (net.Conn, error) {
			if !p.cluster.open() {
				return nil, &dialError{errSockets}
			}
			conn, err := o.access.Dial(ctx, p.throttle, address)
			if err != nil {
				p.cluster.closed()
				return nil, &dialError{err}
			}
			return &checked{Conn: conn, cluster: &p.cluster}, nil
		}),
		kgo.BrokerMaxReadBytes(maxMetadata), kgo.FetchMaxBytes(maxMetadata), // it does not fetch
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.ProducerLinger(linger), kgo.ProducerBatchMaxBytes(maxBatch), kgo.MaxBufferedRecords(maxBuffered),
		kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.RecordDeliveryTimeout(recordTimeout), kgo.RecordRetries(recordRetries), kgo.UnknownTopicRetries(2),
		kgo.ProduceRequestTimeout(produceLimit), kgo.RequestTimeoutOverhead(produceLimit),
		kgo.RetryBackoffFn(func(n int) time.Duration { return min(50*time.Millisecond<<min(n, 6), 2*time.Second) }),
		kgo.MetadataMinAge(250 * time.Millisecond), kgo.MetadataMaxAge(time.Minute),
		// Chooses the partition of a key like Kafka's own clients.
		kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)),
	}
	if o.access.User != "" {
		options = append(options, kgo.SASL(mechanism(o.config.sasl, o.access)))
	}
	return options
}

// ping checks that a broker responds.
func ping(ctx context.Context, client *kgo.Client, p *producer) error {
	var err error
	response := make(chan error, 1)
	go func() { response <- client.Ping(ctx) }() // it ignores ctx while it logs in
	select {
	case err = <-response:
	case <-p.down:
		err = p.lastError()
	case <-ctx.Done():
		err = ctx.Err()
	}
	is := func(target error) bool { return errors.Is(err, target) || errors.Is(p.lastError(), target) }
	switch {
	case err == nil:
		return nil
	case errors.Is(p.lastError(), guard.ErrRefused):
		return p.lastError()
	case is(kerr.SaslAuthenticationFailed), is(kerr.UnsupportedSaslMechanism):
		return &broker.FinalError{Err: errors.New("the brokers do not take these credentials; " +
			"fix user, password and sasl")}
	case is(kerr.IllegalSaslState):
		return &broker.FinalError{Err: errors.New("the brokers ask for no login there; " +
			"remove user and password, or give the port where they do")}
	default:
		return err
	}
}
