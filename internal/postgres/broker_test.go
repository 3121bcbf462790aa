package postgres_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/pgtest"
	"github.com/belfry-dev/belfry/internal/postgres"
)

// aBroker has everything.
func aBroker() *access.Broker {
	return &access.Broker{
		Name: "orders", Kind: "kafka",
		Config: access.BrokerConfig{
			Servers: []string{"a:1", "b:2"}, User: "<u>", SASL: "PLAIN",
			TLS: &access.BrokerTLS{CA: "ca", ServerName: "s", Certificate: "c"},
		},
		Credentials: access.BrokerCredentials{Password: "canary-one", Key: "canary-two"},
		Namespaces:  []string{"secrets"},
	}
}

// TestBrokers: a namespace reads the brokers that it may use, with their credentials, and no other ones. A server cannot
// write them.
func TestBrokers(t *testing.T) {
	t.Parallel()
	b := setupSecrets(t)
	owner := pgtest.StoreOf(postgres.New(b.pool, postgres.Options{Sealer: b.keys}))
	require.NoError(t, owner.PutBroker(t.Context(), aBroker()))
	got, err := b.store.Broker(t.Context(), b.namespace, "orders")
	require.NoError(t, err)
	want := aBroker()
	want.Namespaces = nil
	require.Equal(t, want, got)
	_, err = b.store.Broker(t.Context(), access.DefaultNamespace, "orders")
	require.ErrorIs(t, err, access.ErrNoBroker)
	_, err = b.store.Broker(t.Context(), b.namespace, "others")
	require.ErrorIs(t, err, access.ErrNoBroker)
	infos, err := b.store.Brokers(t.Context(), b.namespace)
	require.NoError(t, err)
	require.Equal(t, []access.BrokerInfo{{Name: "orders", Kind: "kafka"}}, infos)
	infos, err = b.store.Brokers(t.Context(), access.DefaultNamespace)
	require.NoError(t, err)
	require.Empty(t, infos)

	list, err := owner.BrokerList(t.Context())
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.False(t, list[0].Credentials.Any())
	require.Equal(t, []string{"secrets"}, list[0].Namespaces)
	require.Equal(t, want.Config, list[0].Config)

	all := aBroker()
	all.Namespaces, all.Credentials = nil, access.BrokerCredentials{}
	require.NoError(t, owner.PutBroker(t.Context(), all))
	got, err = b.store.Broker(t.Context(), access.DefaultNamespace, "orders")
	require.NoError(t, err)
	require.False(t, got.Credentials.Any(), "what is left out is removed")
	require.ErrorContains(t, b.store.PutBroker(t.Context(), all), "use the database URL of the owner")
	require.ErrorContains(t, b.store.DeleteBroker(t.Context(), "orders"), "use the database URL of the owner")
	require.NoError(t, owner.DeleteBroker(t.Context(), "orders"))
	_, err = b.store.Broker(t.Context(), b.namespace, "orders")
	require.ErrorIs(t, err, access.ErrNoBroker)
	noKeys := pgtest.StoreOf(postgres.New(b.pool, postgres.Options{}))
	require.ErrorIs(t, noKeys.PutBroker(t.Context(), aBroker()), access.ErrNoKeyset)
}

// TestCredentialsOfBrokersAreBound: they are sealed, open only for the servers that they were set for, and are sealed
// again with a new key.
func TestCredentialsOfBrokersAreBound(t *testing.T) {
	t.Parallel()
	b := setupSecrets(t)
	owner := pgtest.StoreOf(postgres.New(b.pool, postgres.Options{Sealer: b.keys}))
	require.NoError(t, owner.PutBroker(t.Context(), aBroker()))
	var dump string
	require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT string_agg(b::text, '') FROM broker b`).Scan(&dump))
	require.NotContains(t, dump, "canary")
	rotated, err := b.keys.Add()
	require.NoError(t, err)
	rotated, err = rotated.Use()
	require.NoError(t, err)
	b.useSealer(rotated)
	done, left, err := b.store.ResealSecrets(t.Context())
	require.NoError(t, err)
	require.Equal(t, []int{1, 0}, []int{done, left})
	got, err := b.store.Broker(t.Context(), b.namespace, "orders")
	require.NoError(t, err)
	require.Equal(t, "canary-one", got.Credentials.Password)

	for _, change := range []string{
		`config = jsonb_set(config, '{servers}', '["evil:1"]')`, `config = config - 'tls'`, `kind = 'nats'`,
	} {
		b.exec(`CREATE TABLE kept AS SELECT * FROM broker`)
		b.exec(`UPDATE broker SET ` + change)
		_, err = b.store.Broker(t.Context(), b.namespace, "orders")
		require.ErrorContains(t, err, "sealed for another place", change)
		b.exec(`DELETE FROM broker`)
		b.exec(`INSERT INTO broker SELECT * FROM kept`)
		b.exec(`DROP TABLE kept`)
	}
}
