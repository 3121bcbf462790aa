package broker_test

import (
	"context"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/target/broker"
	"github.com/belfry-dev/belfry/internal/target/gate"
)

// fake is the config of a broker that does what the test says.
type fake struct {
	broker.Config
	Server string
}

func (*fake) NewMessage(context.Context, *broker.Options, *job.Attempt) (string, error) {
	return "", nil
}

func (f *fake) Publish(ctx context.Context, _, _ string) (out job.Outcome, broken bool) {
	switch f.Server {
	case "silent":
		<-ctx.Done()
		return broker.Unconfirmed(ctx, f.Server, ctx.Err()), false
	case "full":
		return job.Outcome{Kind: job.Failed, Retryable: true, Message: "nack"}, false
	default:
		return job.Outcome{Kind: job.Succeeded}, false
	}
}

// one is a broker.Source that has one broker, or fails.
type one struct {
	broker access.Broker
	err    error
}

func (o one) Broker(context.Context, uuid.UUID, string) (*access.Broker, error) {
	return &o.broker, o.err
}

func newFake(o broker.Options) *broker.Target[*fake, string, string] {
	if o.Brokers == nil {
		o.Brokers = one{broker: access.Broker{Kind: "fake"}}
	}
	return newFakeOf(o, func(context.Context, *access.Broker) (string, error) { return "", nil })
}

func newFakeOf(
	o broker.Options, open func(context.Context, *access.Broker) (string, error),
) *broker.Target[*fake, string, string] {
	return broker.NewTarget(o, broker.Kind[*fake, string, string]{
		Name: "fake", Open: open, Close: func(string) {},
		Parse: func(text string) (*fake, error) {
			return &fake{Config: broker.Config{Broker: text}, Server: text}, nil
		},
	})
}

func attemptAt(namespace uuid.UUID, f fake) job.Attempt {
	return job.Attempt{Namespace: namespace, Config: f.Server, Timeout: time.Duration(job.MaxTimeout)}
}

// TestASilentBrokerLeavesSlots: a namespace whose brokers never confirm does not take all slots. Its other runs are
// deferred, and runs of another namespace are delivered.
func TestASilentBrokerLeavesSlots(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const slots = 100
		target := newFake(broker.Options{Gate: gate.New(gate.Options{Slots: slots})})
		ctx, cancel := context.WithCancel(t.Context())
		attacker := uuid.New()
		var all sync.WaitGroup
		var deferred, failed atomic.Int64
		for range 10 * slots {
			all.Go(func() {
				switch out := target.Deliver(ctx, attemptAt(attacker, fake{Server: "silent"})); out.Kind {
				case job.Deferred:
					deferred.Add(1)
				case job.Failed:
					failed.Add(1)
				default:
					t.Errorf("%+v", out)
				}
			})
		}
		synctest.Wait()
		require.Zero(t, failed.Load())
		victim := target.Deliver(t.Context(), attemptAt(uuid.New(), fake{Server: "good"}))
		require.Equal(t, job.Succeeded, victim.Kind)
		cancel()
		all.Wait()
		require.Positive(t, deferred.Load())
		require.LessOrEqual(t, failed.Load(), int64(slots*9/10), "those that had a slot, or waited for one")
		require.EqualValues(t, 10*slots, failed.Load()+deferred.Load())
		target.Close()
	})
}

// TestBreaker: a broker that is down gets no deliveries for a while. One that answers does, whatever it answers.
func TestBreaker(t *testing.T) {
	t.Parallel()
	for server, want := range map[string]job.OutcomeKind{
		"down": job.Deferred, "silent": job.Deferred, "full": job.Failed, "good": job.Succeeded,
	} {
		t.Run(server, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				target, namespace := newFakeOf(broker.Options{Brokers: one{broker: access.Broker{Kind: "fake"}}},
					func(context.Context, *access.Broker) (string, error) {
						if server == "down" {
							return "", syscall.ECONNREFUSED
						}
						return "", nil
					}), uuid.New()
				var last job.Outcome
				for range 30 {
					last = target.Deliver(t.Context(), attemptAt(namespace, fake{Server: server}))
				}
				require.Equal(t, want, last.Kind, last.Message)
				other := target.Deliver(t.Context(), attemptAt(uuid.New(), fake{Server: server}))
				require.NotEqual(t, job.Deferred, other.Kind, "another namespace has its own breaker")
				target.Close()
			})
		})
	}
}
