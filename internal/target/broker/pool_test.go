package broker_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/target/broker"
)

// opener counts the connections it opens and closes.
type opener struct {
	opened, closed atomic.Int64
	fails          atomic.Bool
	takes          time.Duration
}

func (o *opener) open(ctx context.Context) (int64, error) {
	select {
	case <-time.After(o.takes):
	case <-ctx.Done():
	}
	if o.fails.Load() {
		o.opened.Add(1)
		return 0, errors.New("down")
	}
	return o.opened.Add(1), nil
}

func (o *opener) pool() *broker.Pool[int64] {
	return &broker.Pool[int64]{CloseConn: func(int64) { o.closed.Add(1) }}
}

// Callers with the same key share one connection, which is opened once.
func TestPoolShares(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := &opener{takes: time.Second}
		p := o.pool()
		var all sync.WaitGroup
		for n := range 100 {
			all.Go(func() {
				lease, err := p.Get(t.Context(), fmt.Sprint(n%2), o.open)
				if err != nil {
					t.Error(err)
					return
				}
				lease.Release(false)
			})
		}
		all.Wait()
		require.EqualValues(t, 2, o.opened.Load())
		time.Sleep(59 * time.Second) //nolint:forbidigo // virtual
		require.Zero(t, o.closed.Load())
		time.Sleep(2 * time.Second) //nolint:forbidigo // virtual
		synctest.Wait()
		require.EqualValues(t, 2, o.closed.Load(), "idle ones are closed")
		require.Zero(t, p.Len())
	})
}

// own is a connection that may end by itself.
type own struct{ retired bool }

func (o *own) Retired() bool { return o.retired }

// A connection that retires is replaced for the next caller, and closed once its last user has released it.
func TestPoolReplacesRetired(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var closed []*own
		p := &broker.Pool[*own]{CloseConn: func(o *own) { closed = append(closed, o) }}
		open := func(context.Context) (*own, error) { return &own{}, nil }
		first, err := p.Get(t.Context(), "a", open)
		require.NoError(t, err)
		first.Conn.retired = true
		second, err := p.Get(t.Context(), "a", open)
		require.NoError(t, err)
		require.NotSame(t, first.Conn, second.Conn)
		synctest.Wait()
		require.Empty(t, closed)
		first.Release(false)
		synctest.Wait()
		require.Equal(t, []*own{first.Conn}, closed)
		third, err := p.Get(t.Context(), "a", open)
		require.NoError(t, err)
		require.Same(t, second.Conn, third.Conn)
		second.Release(false)
		third.Release(true)
	})
}

// A connection in use is never closed, neither as idle nor when the pool is closed. A broken one is replaced
// immediately and closed once its last user has released it.
func TestPoolKeepsWhatIsUsed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := &opener{}
		p := o.pool()
		first, err := p.Get(t.Context(), "a", o.open)
		require.NoError(t, err)
		time.Sleep(time.Hour) //nolint:forbidigo // virtual
		require.Zero(t, o.closed.Load())
		second, err := p.Get(t.Context(), "a", o.open)
		require.NoError(t, err)
		require.Equal(t, first.Conn, second.Conn)
		second.Release(true)
		third, err := p.Get(t.Context(), "a", o.open)
		require.NoError(t, err)
		require.NotEqual(t, first.Conn, third.Conn)
		synctest.Wait()
		require.Zero(t, o.closed.Load(), "the first still uses it")
		first.Release(true)
		synctest.Wait()
		require.EqualValues(t, 1, o.closed.Load())
		p.Close()
		_, err = p.Get(t.Context(), "a", o.open)
		require.ErrorIs(t, err, broker.ErrClosed)
		synctest.Wait()
		require.EqualValues(t, 1, o.closed.Load())
		third.Release(false)
		synctest.Wait()
		require.EqualValues(t, 2, o.closed.Load())
	})
}

// After a failure the pool waits before it retries, longer each time. Callers wait meanwhile and do not
// get the old error.
func TestPoolBacksOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := &opener{}
		o.fails.Store(true)
		p := o.pool()
		began := time.Now() //nolint:forbidigo // virtual
		for range 12 {
			_, err := p.Get(t.Context(), "a", o.open)
			require.ErrorContains(t, err, "down")
		}
		took := time.Since(began) //nolint:forbidigo // virtual
		require.EqualValues(t, 12, o.opened.Load())
		require.Equal(t, 100*time.Millisecond*(1+2+4+8+16)+6*2*time.Second, took)
		o.fails.Store(false)
		lease, err := p.Get(t.Context(), "a", o.open)
		require.NoError(t, err)
		lease.Release(false)
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		o.fails.Store(true)
		_, err = p.Get(t.Context(), "b", o.open)
		require.Error(t, err)
		_, err = p.Get(ctx, "b", o.open)
		require.ErrorIs(t, err, context.DeadlineExceeded, "waiting ends with the caller's context")
		time.Sleep(2 * time.Minute) //nolint:forbidigo // virtual
		require.Zero(t, p.Len(), "failures are forgotten")
	})
}
