package target_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/target"
	"github.com/belfry-dev/belfry/internal/target/broker/brokertest"
	"github.com/belfry-dev/belfry/internal/target/guard"
)

func TestList(t *testing.T) {
	t.Parallel()
	all := target.New(target.Options{})
	require.Equal(t, []string{"amqp", "http", "kafka", "nats", "noop", "worker"}, slices.Sorted(maps.Keys(all)))
	require.NoError(t, all["http"].Check(json.RawMessage(`{"url": "https://example.com/hook"}`)))
	require.Error(t, all["noop"].Check(json.RawMessage(`{"url": "https://example.com/hook"}`)))
	for _, one := range all {
		one.Close()
	}
}

// password is the only secret.
type password struct{}

func (password) Secret(context.Context, uuid.UUID, string, access.SecretUse) (access.Secret, error) {
	return access.Secret{Values: []string{"canary"}}, nil
}

// configs of the kinds of targets whose server an editor chooses.
var configs = map[string]string{"http": `{"url": "http://%s/"}`}

// trusted are the kinds that connect to what the operator has set, or to nothing.
var trusted = []string{"noop", "worker", "kafka", "nats", "amqp"}

// allowed returns a guard that allows these addresses.
func allowed(t *testing.T, allow ...string) *guard.Guard {
	t.Helper()
	g, err := guard.New(guard.Options{Allow: allow})
	require.NoError(t, err)
	return g
}

// listen counts the connections to a port of this machine, which it closes.
func listen(t *testing.T) (port string, connects *atomic.Int64) {
	t.Helper()
	listener, err := net.Listen("tcp", ":0") // any address of this machine
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	connects = &atomic.Int64{}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			connects.Add(1)
			_ = conn.Close()
		}
	}()
	_, port, err = net.SplitHostPort(listener.Addr().String())
	require.NoError(t, err)
	return port, connects
}

// TestAllTargetsPassTheGuard (S6): no kind of target connects to a forbidden address, however it is
// spelled, with the options of a node. Their messages do not contain the address a name resolved to.
func TestAllTargetsPassTheGuard(t *testing.T) {
	t.Parallel()
	port, connects := listen(t)
	deliver := func(all map[string]target.Target, kind, host string) job.Outcome {
		at := net.JoinHostPort(host, port)
		config := fmt.Sprintf(configs[kind], at)
		require.NoError(t, all[kind].Check(json.RawMessage(config)), config)
		return all[kind].Deliver(t.Context(), brokertest.Attempt(kind, config))
	}
	all := target.New(target.Options{Secrets: password{}})
	for kind, one := range all {
		t.Cleanup(one.Close)
		if _, ok := configs[kind]; !ok {
			require.Contains(t, trusted, kind, "this test does not cover the target")
			continue
		}
		for _, host := range []string{
			"127.0.0.1", "127.9.9.9", "0.0.0.0", "localhost", "10.0.0.1", "169.254.169.254", "100.64.0.1",
			"::1", "::ffff:127.0.0.1", "64:ff9b::7f00:1", "fd00:ec2::254",
		} {
			out := deliver(all, kind, host)
			require.Equal(t, job.Failed, out.Kind, "%s %s", kind, host)
			require.Contains(t, out.Message, "may not connect to", "%s %s", kind, host)
			require.False(t, out.Retryable, "%s %s", kind, host)
			if host == "localhost" {
				require.NotContains(t, out.Message, "127.0.0.1", kind)
			}
		}
	}
	require.Zero(t, connects.Load(), "forbidden connections")
	// Check that the listener counts.
	open := target.New(target.Options{Secrets: password{}, Guard: allowed(t, "127.0.0.0/8")})
	for kind := range configs {
		before := connects.Load()
		t.Cleanup(open[kind].Close)
		deliver(open, kind, "127.0.0.1")
		require.Greater(t, connects.Load(), before, kind)
	}
}

// TestAllTargetsPassTheGuardOfTheirNamespace: an entry with a namespace lets no target of another one connect, whether
// the namespace is named in other entries or not.
func TestAllTargetsPassTheGuardOfTheirNamespace(t *testing.T) {
	t.Parallel()
	port, connects := listen(t)
	names := map[uuid.UUID]string{uuid.New(): "billing", uuid.New(): "named", uuid.New(): "unnamed"}
	g, err := guard.New(guard.Options{
		Allow: []string{"billing=127.0.0.0/8", "named=10.0.0.0/8"}, Deny: []string{"127.0.0.9/32"},
		Namespace: func(_ context.Context, id uuid.UUID) (string, error) {
			if names[id] == "" {
				return "", errors.New("no such namespace")
			}
			return names[id], nil
		},
	})
	require.NoError(t, err)
	all := target.New(target.Options{Secrets: password{}, Guard: g})
	deliver := func(kind, host string, namespace uuid.UUID) job.Outcome {
		a := brokertest.Attempt(kind, fmt.Sprintf(configs[kind], net.JoinHostPort(host, port)))
		a.Namespace = namespace
		return all[kind].Deliver(t.Context(), a)
	}
	for kind := range configs {
		t.Cleanup(all[kind].Close)
		for id, name := range names {
			before := connects.Load()
			out := deliver(kind, "127.0.0.1", id)
			if name == "billing" {
				require.NotContains(t, out.Message, "may not connect to", kind)
				require.Greater(t, connects.Load(), before, kind)
				require.Contains(t, deliver(kind, "127.0.0.9", id).Message, "may not connect to", "it is denied")
				continue
			}
			require.Contains(t, out.Message, "may not connect to", "%s %s", kind, name)
			require.False(t, out.Retryable, "%s %s", kind, name)
			require.Equal(t, before, connects.Load(), "%s %s", kind, name)
		}
		out := deliver(kind, "127.0.0.1", uuid.New())
		require.Equal(t, "not sent: the name of the namespace could not be read from the database just now", out.Message, kind)
		require.True(t, out.Retryable, kind)
	}
}

// TestConnectionsOfANamespaceAreItsOwn: no other namespace uses an idle connection that it may not open itself.
func TestConnectionsOfANamespaceAreItsOwn(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(server.Close)
	billing := uuid.New()
	g, err := guard.New(guard.Options{
		Allow: []string{"billing=127.0.0.0/8"},
		Namespace: func(_ context.Context, id uuid.UUID) (string, error) {
			if id == billing {
				return "billing", nil
			}
			return "other", nil
		},
	})
	require.NoError(t, err)
	all := target.New(target.Options{Guard: g})
	t.Cleanup(all["http"].Close)
	a := brokertest.Attempt("http", `{"url": "`+server.URL+`"}`)
	for range 3 {
		a.Namespace = billing
		require.Equal(t, job.Succeeded, all["http"].Deliver(t.Context(), a).Kind)
		a.Namespace = uuid.New()
		require.Contains(t, all["http"].Deliver(t.Context(), a).Message, "may not connect to")
	}
}
