package brokertest

import (
	"context"
	"net"
	"sync"
	"testing"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/target/broker"
)

// unanswered is a dialer to whom one address does not answer, as behind a firewall
// that drops all.
type unanswered struct {
	broker.Dialer
	address string
}

func (u *unanswered) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	if address == u.address {
		<-ctx.Done()
		return nil, &net.OpError{Op: "dial", Net: network, Err: ctx.Err()}
	}
	return u.Dialer.DialContext(ctx, network, address)
}

// Second delivers to a server that works, with another one before it that does not
// answer when it is dialled, or when it is spoken to. Many times at once, as some
// clients choose by chance which server they try first.
func Second(t *testing.T, deliver func(t *testing.T, o broker.Options, first string) job.Outcome) {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	const undialled = "127.0.0.1:1"
	o := broker.Options{Dialer: &unanswered{Guard(t, "127.0.0.0/8"), undialled}}
	var all sync.WaitGroup
	for _, first := range []string{undialled, listener.Addr().String()} {
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
