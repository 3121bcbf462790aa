package postgres_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/pgtest"
	"github.com/belfry-dev/belfry/internal/postgres"
	"github.com/belfry-dev/belfry/internal/problem"
	"github.com/belfry-dev/belfry/internal/seal"
)

type secretBundle struct {
	*jobs
	server *pgxpool.Pool
	store  *pgtest.Store
	keys   *seal.Keyset
}

func setupSecrets(t *testing.T) *secretBundle {
	t.Helper()
	b := &secretBundle{jobs: setupJobs(t)}
	b.server = pgtest.AsServer(t, b.pool)
	b.exec(`INSERT INTO namespace (id, name) VALUES ($1, 'secrets')`, b.namespace)
	var err error
	b.keys, err = seal.New()
	require.NoError(t, err)
	b.useSealer(b.keys)
	return b
}

func (b *secretBundle) useSealer(k postgres.Sealer) {
	b.store = pgtest.StoreOf(postgres.New(b.server, postgres.Options{Sealer: k}))
}

func (b *secretBundle) put(name, value string, keep time.Duration) access.SecretInfo {
	b.t.Helper()
	info, err := b.store.PutSecret(b.t.Context(), access.SecretParams{
		Namespace: b.namespace, Name: name, Value: access.Secret{Values: []string{value}}, KeepPrevious: keep,
		Actor: "key:test",
	})
	require.NoError(b.t, err)
	return info
}

func (b *secretBundle) delete(name string, admin bool) error {
	return b.store.DeleteSecret(b.t.Context(), access.DeleteSecretParams{
		Namespace: b.namespace, Name: name, Admin: admin, Actor: "key:test",
	})
}

func (b *secretBundle) values(name string) []string {
	b.t.Helper()
	s, err := b.store.Secret(b.t.Context(), b.namespace, name)
	require.NoError(b.t, err)
	return s.Values
}

func TestSecretsHaveVersions(t *testing.T) {
	t.Parallel()
	b := setupSecrets(t)
	ctx := t.Context()
	first := b.put("a", "canary-one", time.Hour)
	require.Equal(t, int32(1), first.Version)
	require.Zero(t, first.PreviousUntil)
	require.Equal(t, []string{"canary-one"}, b.values("a"))
	second := b.put("a", "canary-two", time.Hour)
	require.Equal(t, int32(2), second.Version)
	require.Equal(t, second.UpdatedAt.Add(time.Hour), second.PreviousUntil)
	require.Equal(t, []string{"canary-two", "canary-one"}, b.values("a"))
	b.exec(`UPDATE secret SET previous_until = now() - interval '1 second'`)
	require.Equal(t, []string{"canary-two"}, b.values("a"), "its time is over")
	b.put("a", "canary-three", 0)
	require.Equal(t, []string{"canary-three"}, b.values("a"))
	var all string
	require.NoError(t, b.pool.QueryRow(ctx, `
SELECT string_agg(s::text || encode(value, 'escape') || coalesce(encode(previous, 'escape'), ''), '') ||
       (SELECT string_agg(a::text, '') FROM audit_log a)
FROM secret s`).Scan(&all))
	require.NotContains(t, all, "canary")

	list, err := b.store.Secrets(ctx, b.namespace, "", 10)
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.Equal(t, "key:test", list[0].UpdatedBy)
	require.NoError(t, b.delete("a", false))
	require.ErrorIs(t, b.delete("a", false), job.ErrNotFound)
	_, err = b.store.Secret(ctx, b.namespace, "a")
	require.ErrorIs(t, err, job.ErrNotFound)
}

// TestMovedSecretsDoNotOpen: a sealed value does not open under another name, in another namespace, or as a newer
// version.
func TestMovedSecretsDoNotOpen(t *testing.T) {
	t.Parallel()
	b := setupSecrets(t)
	ctx := t.Context()
	b.put("a", "one", 0)
	b.exec(`CREATE TABLE kept AS SELECT * FROM secret`)
	b.put("a", "two", 0)
	other := uuid.New()
	b.exec(
		`INSERT INTO secret SELECT namespace_id, 'b', version, value, NULL, NULL, created_at, updated_at, updated_by
			FROM secret`,
	)
	b.exec(
		`INSERT INTO secret SELECT $1, 'a', version, value, NULL, NULL, created_at, updated_at, updated_by FROM secret
			WHERE name = 'a'`,
		other,
	)
	_, err := b.store.Secret(ctx, b.namespace, "b")
	require.ErrorContains(t, err, "another place")
	_, err = b.store.Secret(ctx, other, "a")
	require.ErrorContains(t, err, "another place")
	require.Equal(t, []string{"two"}, b.values("a"))
	b.exec(`UPDATE secret SET value = kept.value FROM kept WHERE secret.name = 'a'`)
	_, err = b.store.Secret(ctx, b.namespace, "a")
	require.ErrorContains(t, err, "another place")
}

func TestResealSecrets(t *testing.T) {
	t.Parallel()
	b := setupSecrets(t)
	ctx := t.Context()
	for i := range 250 { // more than one batch
		b.put(fmt.Sprintf("s%d", i), "before", time.Hour)
	}
	b.put("s0", "now", time.Hour)
	b.exec(`UPDATE secret SET value = '\x0102030405060708090a' WHERE name = 's1'`) // sealed by no key
	done, left, err := b.store.ResealSecrets(ctx)
	require.NoError(t, err)
	require.Equal(t, []int{0, 1}, []int{done, left})
	added, err := b.keys.Add()
	require.NoError(t, err)
	used, err := added.Use()
	require.NoError(t, err)
	b.useSealer(used)
	done, left, err = b.store.ResealSecrets(ctx)
	require.NoError(t, err)
	require.Equal(t, []int{249, 1}, []int{done, left})
	dropped, _, err := used.Drop()
	require.NoError(t, err)
	b.useSealer(dropped)
	require.Equal(t, []string{"now", "before"}, b.values("s0"))
	_, err = b.store.Secret(ctx, b.namespace, "s1")
	require.Error(t, err)
	b.useSealer(nil)
	_, err = b.store.Secret(ctx, b.namespace, "s0")
	require.ErrorIs(t, err, access.ErrNoKeyset)
}

func TestSecretLimits(t *testing.T) {
	t.Parallel()
	b := setupSecrets(t)
	for _, c := range []struct {
		name string
		o    access.SecretParams
	}{
		{"name", access.SecretParams{Name: "A b", Value: access.Secret{Values: []string{"canary"}}}},
		{"value", access.SecretParams{Name: "a"}},
		{"value", access.SecretParams{Name: "a", Value: access.Secret{Values: []string{"whsec_"}}}},
		{"value", access.SecretParams{Name: "a", Value: access.Secret{Values: []string{"whsec_\n"}}}},
		{"keep_previous_for", access.SecretParams{
			Name: "a", Value: access.Secret{Values: []string{"canary"}}, KeepPrevious: -1,
		}},
	} {
		name, o := c.name, c.o
		_, err := b.store.PutSecret(t.Context(), o)
		problems := problem.All(err)
		require.Len(t, problems, 1)
		require.Equal(t, name, problems[0].Field)
		require.NotContains(t, err.Error(), "canary")
		require.NotContains(t, fmt.Sprintf("%v %+v %#v", o, o, o), "canary")
	}
	b.exec(
		`INSERT INTO secret SELECT $1, 'n' || g, 1, '', NULL, NULL, now(), now(), '' FROM generate_series(1, 1000) g`,
		b.namespace,
	)
	_, err := b.store.PutSecret(
		t.Context(),
		access.SecretParams{Namespace: b.namespace, Name: "x", Value: access.Secret{Values: []string{"1"}}},
	)
	require.ErrorIs(t, err, job.ErrConflict)
	b.put("n1", "1", 0) // in place of one
}

func (b *secretBundle) bind(name string, admin bool, hosts ...string) error {
	_, err := b.store.PutSecret(b.t.Context(), access.SecretParams{
		Namespace: b.namespace, Name: name, Value: access.Secret{Values: []string{"value"}},
		Change: access.BindingChange{Hosts: &hosts}, Admin: admin, Actor: "key:test",
	})
	return err
}

// TestOnlyAdminsChangeBindings: whoever may replace a secret may bind a new one, but neither widen nor remove the binding
// of one that exists, nor delete it to create it again without one.
func TestOnlyAdminsChangeBindings(t *testing.T) {
	t.Parallel()
	b := setupSecrets(t)
	ctx := t.Context()
	require.NoError(t, b.bind("a", false, "b.example", "a.example", "b.example"))
	bindings := func() map[string]access.SecretBinding {
		all, err := b.store.SecretBindings(ctx, b.namespace, []string{"a", "none"})
		require.NoError(t, err)
		return all
	}
	both := map[string]access.SecretBinding{"a": {Hosts: []string{"a.example", "b.example"}}}
	require.NoError(t, b.bind("other", false, "b.example"))
	require.Equal(t, both, bindings(), "only those that were named")
	require.NoError(t, b.bind("a", false, "b.example", "a.example"), "it is the same")
	require.ErrorIs(t, b.bind("a", false, "evil.example"), access.ErrNotAdmin)
	require.ErrorIs(t, b.bind("a", false), access.ErrNotAdmin)
	require.ErrorIs(t, b.delete("a", false), access.ErrNotAdmin)
	b.put("a", "next", 0)
	require.Equal(t, both, bindings(), "a new value changes nothing")
	found, err := b.store.Secret(ctx, b.namespace, "a")
	require.NoError(t, err)
	require.Equal(t, both["a"], found.Binding)

	kinds := []string{"http"}
	_, err = b.store.BindSecret(ctx, access.BindParams{
		Namespace: b.namespace, Name: "a", Change: access.BindingChange{Kinds: &kinds}, Actor: "key:test",
	})
	require.NoError(t, err)
	require.Equal(t, []string{"a.example", "b.example"}, bindings()["a"].Hosts)
	require.Equal(t, kinds, bindings()["a"].Kinds)
	_, err = b.store.BindSecret(ctx, access.BindParams{Namespace: b.namespace, Name: "none", Actor: "key:test"})
	require.ErrorIs(t, err, job.ErrNotFound)
	require.NoError(t, b.bind("a", true))
	require.NoError(t, b.delete("a", true))
	require.Empty(t, bindings())
}

// TestVersionsOfSecretsAreNotReused: a value that was deleted does not open in the place of a newer one.
func TestVersionsOfSecretsAreNotReused(t *testing.T) {
	t.Parallel()
	b := setupSecrets(t)
	b.put("a", "one", 0)
	b.put("a", "two", 0)
	b.exec(`CREATE TABLE kept AS SELECT * FROM secret`)
	require.NoError(t, b.delete("a", false))
	require.Equal(t, int32(3), b.put("a", "three", 0).Version)
	require.Equal(t, int32(4), b.put("a", "four", time.Hour).Version)
	require.Equal(t, []string{"four", "three"}, b.values("a"))
	b.exec(`UPDATE secret SET value = kept.value FROM kept`)
	_, err := b.store.Secret(t.Context(), b.namespace, "a")
	require.ErrorContains(t, err, "another place")

	b.put("b", "one", 0)
	require.NoError(t, b.delete("b", false))
	require.Equal(t, []string{"next", "three"}, func() []string {
		b.exec(`DELETE FROM secret`)
		b.put("a", "three", 0)
		b.put("a", "next", time.Hour)
		return b.values("a")
	}(), "the value before is of the version before, whatever was deleted meanwhile")
}
