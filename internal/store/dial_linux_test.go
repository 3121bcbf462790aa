package store

import (
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/belfry-dev/belfry/internal/clock"
)

// A peer that is gone without a word, and acknowledges nothing, is given up in
// seconds: while a request is on its way, and while its answer is awaited.
func TestDialGivesUpOnSilence(t *testing.T) {
	t.Parallel()
	for name, request := range map[string]string{"request on its way": "hello", "answer awaited": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
			require.NoError(t, err)
			defer func() { _ = listener.Close() }()
			conn, err := dial(t.Context(), "tcp", listener.Addr().String())
			require.NoError(t, err)
			defer func() { _ = conn.Close() }()
			peer, err := listener.Accept()
			require.NoError(t, err)
			defer func() { _ = peer.Close() }()
			silence(t, peer)

			require.NoError(t, conn.SetDeadline(clock.Now().Add(maxSilence+probeAfter+time.Minute)))
			_, err = conn.Write([]byte(request))
			require.NoError(t, err)
			_, err = conn.Read(make([]byte, 1))
			require.ErrorIs(t, err, unix.ETIMEDOUT, "not the deadline")
		})
	}
}

// silence drops all that arrives at a connection before TCP sees it.
func silence(t *testing.T, c net.Conn) {
	t.Helper()
	raw, err := c.(*net.TCPConn).SyscallConn()
	require.NoError(t, err)
	drop := unix.SockFprog{Len: 1, Filter: &unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: 0}}
	require.NoError(t, raw.Control(func(fd uintptr) {
		err = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &drop)
	}))
	require.NoError(t, err)
}
