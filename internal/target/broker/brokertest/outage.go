package brokertest

import (
	"encoding/json"
	"maps"
	"sync"
	"testing"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/target/broker"
)

// Outage makes many concurrent deliveries over TLS while the server is up, down and up again: the target
// must reconnect. dialer redirects the target's connections to the proxy; nil: they go there anyway.
func (s *Secured) Outage(t *testing.T, dialer func(broker.Dialer) broker.Dialer) {
	t.Helper()
	proxy := NewProxy(t, s.Address)
	config := map[string]any{
		"servers": []string{proxy.Address()}, "user": s.User, "password": map[string]any{"secret": "password"},
		"tls": map[string]any{"ca": s.PEM(t, "ca", Certificate), "server_name": "localhost"},
	}
	maps.Copy(config, s.Settings)
	maps.Copy(config, s.Login)
	text, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	var connect broker.Dialer = Guard(t, "127.0.0.0/8")
	if dialer != nil {
		connect = dialer(connect)
	}
	target := s.New(broker.Options{Dialer: connect, Secrets: secrets{"password": s.Password}})
	defer target.Close()
	deliver := func(n int, want job.OutcomeKind) {
		var all sync.WaitGroup
		for range n {
			all.Go(func() {
				out := target.Deliver(t.Context(), Attempt(s.Kind, string(text)))
				if failed := want == job.Failed; out.Kind != want || out.Retryable != failed || out.Down != failed {
					t.Errorf("%+v; want kind %d", out, want)
				}
			})
		}
		all.Wait()
	}
	deliver(500, job.Succeeded)
	proxy.Down()
	deliver(10, job.Failed)
	proxy.Up()
	deliver(500, job.Succeeded)
}
