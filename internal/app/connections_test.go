//go:build unix

package app

import (
	"net"
	"net/http"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestOneAddressLeavesConnectionsOfANode: a node closes connections of an address that has its share, and serves another
// address. The number of files limits the whole process, so this test runs in its own.
func TestOneAddressLeavesConnectionsOfANode(t *testing.T) {
	t.Parallel()
	if os.Getenv("FEW_FILES") == "" {
		child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
		child.Env = append(os.Environ(), "FEW_FILES=1")
		out, err := child.CombinedOutput()
		require.NoError(t, err, string(out))
		return
	}
	const files, many = 400, 100 // a quarter of the files
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: files, Max: files}))
	c := testConfig("postgres://127.0.0.1:1/none")
	c.Listen = freeAddress(t)
	s := serveNode(t, c)
	s.log.await(t, "database connection failed")
	for range many {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", c.Listen)
		require.NoError(t, err)
		defer func() { _ = conn.Close() }()
	}
	s.log.await(t, "connection rejected, too many are open")
	other := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+c.Listen+"/healthz", nil)
	require.NoError(t, err)
	response, err := (&http.Transport{DialContext: other.DialContext, DisableKeepAlives: true}).RoundTrip(request)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, http.StatusOK, response.StatusCode)
	require.NoError(t, s.end(t))
}
