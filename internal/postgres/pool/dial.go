package pool

import (
	"context"
	"net"
	"time"
)

// How long a peer may be silent. A server that is gone without a word, its
// machine or the network between, would otherwise be waited for a quarter of an
// hour: so long does TCP try.
const (
	maxSilence    = 10 * time.Second // with something sent and not acknowledged
	probeAfter    = 5 * time.Second  // of waiting for an answer
	probeInterval = 2 * time.Second
	probes        = 3
)

func dial(ctx context.Context, network, address string) (net.Conn, error) {
	d := net.Dialer{
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: probeAfter, Interval: probeInterval, Count: probes},
		Control:         limitSilence,
	}
	return d.DialContext(ctx, network, address)
}
