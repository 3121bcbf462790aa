package app

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/app/brokers"
)

// TestJobsNameBrokers: a job that names a broker that is unknown, of another kind, or not for its namespace is rejected
// with a fix, and a node uses a changed broker without a restart.
func TestJobsNameBrokers(t *testing.T) {
	t.Parallel()
	w := newWalk(t)
	_, editor := w.key(access.DefaultNamespace, access.Editor, 0)
	const body = `{"name":"c","schedule":"every 24h","target":{"kind":"nats","config":{"broker":"events","subject":"s"}}}`
	refused := func(problem, fix string) {
		t.Helper()
		got := w.call(editor, "POST", "/api/v1/jobs", body)
		require.Equal(t, http.StatusUnprocessableEntity, got.status, got.text)
		require.Contains(t, got.text, `"target.config.broker"`)
		require.Contains(t, got.text, problem)
		require.Contains(t, got.text, fix)
	}
	_, err := w.store.CreateNamespace(t.Context(), "another")
	require.NoError(t, err)
	const none, set = "there is no broker of that name that this namespace may use", "belfry broker set"
	refused(none, set)
	there := access.BrokerConfig{Servers: []string{"127.0.0.1:1"}}
	w.broker(access.Broker{Name: "events", Kind: "kafka", Config: there})
	refused("the broker events is of kind kafka", "set target.kind to kafka")
	w.broker(access.Broker{Name: "events", Kind: "nats", Config: there, Namespaces: []string{"another"}})
	refused(none, set)
	require.NotContains(t, w.call(editor, "GET", "/api/v1/brokers", "").text, "events")
	w.broker(access.Broker{Name: "events", Kind: "nats", Config: there, Namespaces: []string{"default"}})
	require.JSONEq(t, `{"items":[{"name":"events","kind":"nats"}]}`, string(w.call(editor, "GET", "/api/v1/brokers", "").body))
	require.Equal(t, http.StatusCreated, w.call(editor, "POST", "/api/v1/jobs", body).status)

	w.broker(access.Broker{Name: "events", Kind: "kafka", Config: there})
	got := w.call(editor, "PATCH", "/api/v1/jobs/c", `{"target":{"config":{"subject":"t"}}}`)
	require.Contains(t, got.text, "is of kind kafka")
	at := Database{URL: w.pool.Config().ConnString(), Keyset: testKeyset}
	require.NoError(t, brokers.Delete(t.Context(), at, "events"))
	require.ErrorContains(t, brokers.Delete(t.Context(), at, "events"), "belfry broker list")
	_, err = brokers.Set(t.Context(), at, &access.Broker{
		Name: "events", Kind: "nats", Config: there, Namespaces: []string{"none"},
	})
	require.ErrorContains(t, err, "there is no namespace")
	all, err := brokers.List(t.Context(), at)
	require.NoError(t, err)
	require.Empty(t, all)
	w.eventually(`SELECT count(*) = 4 FROM audit_log WHERE action = 'broker.set' AND object = 'events'`)
	w.eventually(`SELECT count(*) = 1 FROM audit_log WHERE action = 'broker.delete'`)
}
