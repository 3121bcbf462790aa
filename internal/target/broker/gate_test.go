package broker_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/target/broker"
	"github.com/belfry-dev/belfry/internal/target/gate"
	"github.com/belfry-dev/belfry/internal/target/secret"
)

// fake is the config of a broker that does what the test says.
type fake struct {
	Server string
	User   string
}

func (f *fake) Where() string { return f.Server }

func (*fake) Uses() secret.Uses { return secret.Uses{} }

func (f *fake) NewMessage(context.Context, *broker.Options, *job.Attempt) (string, error) {
	return "", nil
}

func (f *fake) Connection(
	_ context.Context, _ *broker.Options, namespace uuid.UUID,
) (string, broker.OpenFunc[string], error) {
	return fmt.Sprint(namespace, f), func(context.Context) (string, error) {
		if f.Server == "down" {
			return "", syscall.ECONNREFUSED
		}
		return f.Server, nil
	}, nil
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

func newFake(o broker.Options) *broker.Target[*fake, string, string] {
	return broker.NewTarget(o, func(text string) (f *fake, err error) {
		err = json.Unmarshal([]byte(text), &f)
		return f, err
	}, func(string) {})
}

func attemptAt(namespace uuid.UUID, f fake) job.Attempt {
	text, _ := json.Marshal(f)
	return job.Attempt{Namespace: namespace, Config: string(text), Timeout: time.Duration(job.MaxTimeout)}
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
				target, namespace := newFake(broker.Options{}), uuid.New()
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

// TestNoConnectionLeft: a namespace that has used up its connections waits, without using attempts, and others connect.
func TestNoConnectionLeft(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		target := newFake(broker.Options{})
		ctx, cancel := context.WithCancel(t.Context())
		attacker := uuid.New()
		var all sync.WaitGroup
		for i := range broker.MaxConnections * 4 / 5 {
			all.Go(func() { target.Deliver(ctx, attemptAt(attacker, fake{"silent", fmt.Sprint(i)})) })
		}
		synctest.Wait()
		out := target.Deliver(t.Context(), attemptAt(attacker, fake{"good", "one more"}))
		require.Equal(t, job.Deferred, out.Kind)
		require.Contains(t, out.Message, "use fewer different connection settings")
		require.Positive(t, out.RetryAfter)
		require.Less(t, out.RetryAfter, time.Minute)
		out = target.Deliver(t.Context(), attemptAt(uuid.New(), fake{"good", ""}))
		require.Equal(t, job.Succeeded, out.Kind)
		cancel()
		all.Wait()
		target.Close()
	})
}
