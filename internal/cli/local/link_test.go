package local_test

import (
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/cli"
)

// Every command that connects to the database refuses one on a network without verified TLS before it connects, and has
// the flag to accept it. 0.0.0.0 is not a loopback address, and a connection to it arrives on this machine.
func TestCommandsRefuseAnUnverifiedDatabase(t *testing.T) {
	t.Parallel()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = listener.Close() }()
	var connected atomic.Bool
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			connected.Store(true)
			_ = conn.Close()
		}
	}()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	require.NoError(t, err)
	arguments := map[string][]string{
		"namespace create": {"team"}, "namespace key": {"team"},
		"namespace quota": {"team"}, "broker set": {"b", "--all-namespaces"}, "broker delete": {"b"},
		"restore accept": {"--occurrences", "run"}, "archive runs": {"--job", "report"},
	}
	var tried []string
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		for _, c := range cmd.Commands() {
			walk(c)
		}
		name := strings.TrimPrefix(cmd.CommandPath(), "belfry ")
		if cmd.Flags().Lookup("database-url") == nil || name == "config show" { // which does not connect
			return
		}
		require.NotNil(t, cmd.Flags().Lookup("insecure-database"), name)
		out, err := run(t, slices.Concat(strings.Fields(name), arguments[name],
			[]string{"--database-url", "postgres://belfry:c4nary@0.0.0.0:" + port + "/belfry"})...)
		require.ErrorContains(t, err, "the database host 0.0.0.0 is reached over a network", name)
		require.ErrorContains(t, err, "set insecure_database: true", name)
		require.NotContains(t, err.Error()+out, "c4nary", name)
		tried = append(tried, name)
	}
	walk(cli.New("test"))
	require.Subset(t, tried, []string{"server", "migrate", "doctor", "bench steady", "namespace list", "audit ledger"})
	require.False(t, connected.Load(), "a command has connected")
}
