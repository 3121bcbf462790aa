package broker_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/target/broker"
)

// TestServersArePlain: a host that a resolver could take for another one is refused, because secrets are bound to hosts.
func TestServersArePlain(t *testing.T) {
	t.Parallel()
	for server, good := range map[string]bool{
		"broker.example": true, "xn--bcher-kva.example:4222": true, "[fd00::1]:4222": true, "127.0.0.1:1": true,
		"ap\u0130.example": false, "\u212aafka.example:1": false, "a\u3002example": false, "[fe80::1%eth0]:4222": false,
		"[fe80::1%25.example.org]:4222": false, "a%2eexample": false,
	} {
		r, c := broker.Read(fmt.Appendf(nil, `{"servers": [%q]}`, server), broker.Form{Port: "4222"})
		if good {
			require.NoError(t, r.Err(), server)
			require.Len(t, c.Uses().Hosts, 1)
			continue
		}
		require.ErrorContains(t, r.Err(), "servers.0: it is not host:port", server)
		require.Empty(t, c.Servers, server)
	}
}
