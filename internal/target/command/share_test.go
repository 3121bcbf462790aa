package command_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/target/command"
)

// endless is a source of secrets that answers when the delivery is stopped. Until then its command has a slot.
type endless chan struct{}

func (e endless) Secret(ctx context.Context, _ uuid.UUID, _ string, _ access.SecretUse) (access.Secret, error) {
	e <- struct{}{}
	<-ctx.Done()
	return access.Secret{}, ctx.Err()
}

// TestNamespacesShareSlots: commands of one namespace that never end leave a slot to another one, and those over the
// share are deferred.
func TestNamespacesShareSlots(t *testing.T) {
	t.Parallel()
	for slots, alone := range map[int]int{1: 1, 2: 1, 3: 2, 4: 3, 5: 4, 16: 12, 1000: 800} {
		t.Run(fmt.Sprint(slots), func(t *testing.T) {
			t.Parallel()
			begun := make(endless)
			target := command.New(command.Options{Slots: slots, Secrets: begun})
			ctx, stop := context.WithCancel(t.Context())
			var all sync.WaitGroup
			t.Cleanup(all.Wait)
			t.Cleanup(stop)
			// fill starts commands until one is deferred, and returns how many have a slot.
			fill := func(namespace uuid.UUID) (n int, deferred job.Outcome) {
				for {
					ended := make(chan job.Outcome, 1)
					all.Go(func() {
						ended <- target.Deliver(ctx, job.Attempt{
							Namespace: namespace, Number: 1, Timeout: time.Hour,
							Config: `{"program": "/bin/true", "stdin": {"secret": "a"}}`,
						})
					})
					select {
					case <-begun:
						n++
					case deferred = <-ended:
						return n, deferred
					}
				}
			}
			first, second := uuid.New(), uuid.New()
			n, over := fill(first)
			require.Equal(t, job.Deferred, over.Kind)
			require.Positive(t, over.RetryAfter)
			if slots > 1 {
				others, _ := fill(second)
				require.Positive(t, others, "another namespace finds a slot")
				require.Equal(t, fmt.Sprintf("not run yet: the namespace has its share of the %d commands that this node runs "+
					"at the same time; waiting until one of them ends", slots), over.Message)
				n += others
				for range 10 { // each further namespace gets something, until nothing is left
					others, over = fill(uuid.New())
					n += others
				}
				require.Equal(t, slots, n)
			}
			require.Equal(t, job.Deferred, over.Kind)
			require.Equal(t, fmt.Sprintf("not run yet: this node already runs %d commands, its limit; waiting for a free slot",
				slots), over.Message)

			stop()
			all.Wait()
			ctx, stop = context.WithCancel(t.Context())
			t.Cleanup(stop)
			n, _ = fill(first)
			require.Equal(t, alone, n, "slots are returned, and a namespace alone gets most of them")
		})
	}
}
