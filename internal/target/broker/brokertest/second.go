package brokertest

import (
	"context"
	"net"
	"sync"
	"testing"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/target/broker"
)

// firewalled is a dialer for which one address does not respond, like behind a firewall that drops packets.
type firewalled struct {
	broker.Dialer
	address string
}

func (f *firewalled) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	if address == f.address {
		<-ctx.Done()
		return nil, &net.OpError{Op: "dial", Net: network, Err: ctx.Err()}
	}
	return f.Dialer.DialContext(ctx, network, address)
}

// SecondServer delivers to two servers, of which the first does not accept connections or does not respond.
// It delivers several times, because some clients try the servers in random order.
func SecondServer(t *testing.T, deliver func(t *testing.T, o broker.Options, first string) job.Outcome) {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	const dropped = "127.0.0.1:1"
	o := broker.Options{Dialer: &firewalled{Guard(t, "127.0.0.0/8"), dropped}}
	var all sync.WaitGroup
	for _, first := range []string{dropped, listener.Addr().String()} {
		for range 8 {
			all.Go(func() {
				if out := deliver(t, o, first); out.Kind != job.Succeeded {
					t.Errorf("after %s: %+v", first, out)
				}
			})
		}
	}
	all.Wait()
}
