package throttle_test

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/target/throttle"
)

// endless is a server that sends without end, and its dialer.
type endless struct{ net.Conn }

func (endless) Read(b []byte) (int, error) { return len(b), nil }

func (endless) DialContext(context.Context, string, string) (net.Conn, error) { return endless{}, nil }

// A server that sends without end is read at a limited rate.
func TestThrottle(t *testing.T) {
	t.Parallel()
	const (
		burst, rate = 1 << 20, 64 << 10
		pause       = 50 * time.Millisecond
		buffer      = 32 << 10
	)
	dialer := throttle.New(endless{}, burst)
	conn, err := dialer.DialContext(t.Context(), "tcp", "")
	require.NoError(t, err)
	began := clock.Elapsed()
	read := func(until func(n int) bool) (n int) {
		for b := make([]byte, buffer); !until(n); {
			more, err := conn.Read(b)
			require.NoError(t, err)
			n += more
		}
		return n
	}
	limit := func() int {
		elapsed := clock.Elapsed() - began
		return burst + int(elapsed*rate/time.Second) + int(elapsed/pause)*512 + buffer
	}
	n := read(func(n int) bool { return n >= burst+rate/2 })
	require.LessOrEqual(t, n, limit())
	require.GreaterOrEqual(t, clock.Elapsed()-began, pause)
}

// Each delivery in progress allows its whole response, however many there are. What is left when they end is limited.
func TestInProgress(t *testing.T) {
	t.Parallel()
	const each, most = 1 << 20, 16 << 20
	opened, err := throttle.New(endless{}, 0).DialContext(t.Context(), "tcp", "")
	require.NoError(t, err)
	conn := opened.(*throttle.Conn)
	// A read gets as much as is allowed, or a few bytes after a pause.
	read := func() int {
		n, err := conn.Read(make([]byte, 100*each))
		require.NoError(t, err)
		return n
	}
	for range 40 {
		conn.Begin(each)
	}
	require.Equal(t, 40*each, read())
	for range 40 {
		conn.End(each)
	}
	require.Less(t, read(), each)
	for range 40 {
		conn.Begin(each)
		conn.End(each)
	}
	require.Equal(t, most, read())
}
