package postgres_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/pgtest"
	"github.com/belfry-dev/belfry/internal/postgres"
	"github.com/belfry-dev/belfry/internal/seal"
	"github.com/belfry-dev/belfry/internal/store"
)

// aReport is a right to report.
var aReport = access.Report{
	Namespace: access.DefaultNamespace, Key: job.Key{Job: uuid.New(), DueAt: time.Unix(1, 0).UTC()},
	Session: uuid.New(), Attempt: 1, Until: time.Unix(2, 0).UTC(),
}

// reportKeyBundle is a cluster, with an owner and a login for nodes.
type reportKeyBundle struct {
	*testing.T
	asOwner, asServer string
	keys              *seal.Keyset
}

func setupReportKeys(t *testing.T) *reportKeyBundle {
	t.Helper()
	b := &reportKeyBundle{T: t}
	b.asOwner, b.asServer, _ = cluster(t)
	var err error
	b.keys, err = seal.New()
	require.NoError(t, err)
	return b
}

func (b *reportKeyBundle) open(url string, k postgres.Sealer) *pgtest.Store {
	b.Helper()
	s, err := postgres.Open(b.Context(), url, 2, postgres.Options{Sealer: k})
	require.NoError(b, err)
	b.Cleanup(s.Close)
	return pgtest.StoreOf(s)
}

func (b *reportKeyBundle) rotate(k postgres.Sealer, keep time.Duration) access.ReportKey {
	b.Helper()
	key, err := b.open(b.asOwner, k).RotateReportKey(b.Context(), keep)
	require.NoError(b, err)
	require.Equal(b, k != nil, key.Sealed)
	return key
}

// read returns the keys as a node of the cluster reads them.
func (b *reportKeyBundle) read() access.ReportKeys {
	b.Helper()
	keys, err := b.open(b.asServer, b.keys).ReportKeys(b.Context())
	require.NoError(b, err)
	require.NotEmpty(b, keys)
	return keys.After(0)
}

// ended is when the keys end that a rotation with keep 0 replaces.
const ended = access.ReportKeyLead + access.ReportKeyGrace + time.Second

// trust sets the time of the clock that nodes trusted last.
func (b *reportKeyBundle) trust(at string) {
	b.Helper()
	execAs(b.T, b.asOwner, `UPDATE cluster SET trusted_at = `+at)
}

// pass lets a time pass, for the keys.
func (b *reportKeyBundle) pass(d time.Duration) {
	b.Helper()
	execAs(b.T, b.asOwner, fmt.Sprintf(
		`UPDATE cluster_key SET use_at = use_at - interval '%[1]d s', until = until - interval '%[1]d s'`, d/time.Second))
}

// dump returns all bytes of the table.
func (b *reportKeyBundle) dump() []byte {
	b.Helper()
	conn, err := pgx.Connect(b.Context(), b.asOwner)
	require.NoError(b, err)
	defer func() { require.NoError(b, conn.Close(b.Context())) }()
	var out []byte
	require.NoError(b, conn.QueryRow(b.Context(), `
		SELECT string_agg(coalesce(secret, '') || coalesce(sealed, ''), '') FROM cluster_key`).Scan(&out))
	return out
}

// TestRotateReportKey: a new key signs only when all nodes have read it, tokens of the old one are accepted until its
// end and not after it, and then no key is in the database in the clear.
func TestRotateReportKey(t *testing.T) {
	t.Parallel()
	b := setupReportKeys(t)
	before := b.read()
	require.Len(t, before, 1)
	old := before.Token(aReport)
	inTheClear := func() bool {
		_, c, err := b.open(b.asServer, b.keys).Inspect(t.Context())
		require.NoError(t, err)
		return c.ClearReportKey
	}
	require.True(t, inTheClear())
	k := b.rotate(b.keys, access.ReportLife)
	require.False(t, inTheClear())
	require.WithinDuration(t, clock.Now().Add(access.ReportKeyLead), k.UseAt, time.Minute)

	// Before the use of the new key, a node that has read it signs with the old one, so that others accept it.
	pending := b.read()
	require.Len(t, pending, 2)
	require.Equal(t, old, pending.Token(aReport))
	_, err := before.Parse(pending.Token(aReport))
	require.NoError(t, err, "a node that has not read the new key")
	b.pass(access.ReportKeyLead + time.Second)
	used := b.read()
	fresh := used.Token(aReport)
	require.NotEqual(t, old, fresh)
	// Nodes that read the keys before and after that accept each other's tokens.
	for _, keys := range []access.ReportKeys{pending, used} {
		for _, token := range []string{old, fresh} {
			_, err := keys.Parse(token)
			require.NoError(t, err)
		}
	}

	store := b.open(b.asServer, b.keys)
	b.pass(access.ReportLife - time.Hour)
	_, err = b.read().Parse(old)
	require.NoError(t, err, "until its end")
	dropped, err := store.DropReportKeys(t.Context())
	require.NoError(t, err)
	require.Zero(t, dropped)
	require.True(t, bytes.Contains(b.dump(), before.First()))
	b.pass(time.Hour + access.ReportKeyGrace)
	after := b.read()
	_, err = after.Parse(old)
	require.ErrorIs(t, err, access.ErrBadReport, "after its end")
	_, err = after.Parse(fresh)
	require.NoError(t, err)

	b.trust(`now() - interval '1 day'`)
	doubtful := b.read()
	_, err = doubtful.Parse(old)
	require.NoError(t, err, "the clock is in doubt")
	require.Equal(t, fresh, doubtful.Token(aReport))
	dropped, err = store.DropReportKeys(t.Context())
	require.NoError(t, err)
	require.Zero(t, dropped, "the clock is in doubt")
	b.trust("NULL")
	dropped, err = store.DropReportKeys(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, dropped)
	for _, keys := range []access.ReportKeys{before, after} {
		require.False(t, bytes.Contains(b.dump(), keys.First()), "not in the clear")
	}
	all, err := store.ReportKeyList(t.Context())
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.True(t, all[0].Sealed)
	require.Zero(t, all[0].Until)
}

// TestReportKeyEndsEarly: after a leak, the operator ends all old keys as soon as all nodes use the new one, also if
// there are as many keys as may be.
func TestReportKeyEndsEarly(t *testing.T) {
	t.Parallel()
	b := setupReportKeys(t)
	first := b.read().Token(aReport)
	b.rotate(b.keys, access.ReportLife)
	b.pass(access.ReportKeyLead + time.Second)
	second := b.read().Token(aReport)
	b.rotate(b.keys, 0)
	for _, token := range []string{first, second} {
		_, err := b.read().Parse(token)
		require.NoError(t, err, "nodes sign with it until then")
	}
	b.pass(access.ReportKeyLead + time.Second)
	require.Len(t, b.read(), 3, "a node that signs with the new one late")
	b.pass(access.ReportKeyGrace)
	require.Len(t, b.read(), 1)
	for _, token := range []string{first, second} {
		_, err := b.read().Parse(token)
		require.ErrorIs(t, err, access.ErrBadReport)
	}
	owner := b.open(b.asOwner, b.keys)
	for _, bad := range []time.Duration{-1, access.ReportLife + 1} {
		_, err := owner.RotateReportKey(t.Context(), bad)
		require.ErrorContains(t, err, "from 0s to 30d")
	}
	for range access.MaxReportKeys - 1 {
		b.rotate(b.keys, access.ReportLife)
	}
	_, err := owner.RotateReportKey(t.Context(), time.Second)
	require.ErrorIs(t, err, job.ErrConflict)
	require.ErrorContains(t, err, "--keep 0s ends them")
	for range access.MaxReportKeys {
		b.rotate(b.keys, 0)
	}
	require.Len(t, b.read(), 2*access.MaxReportKeys)
	_, err = owner.RotateReportKey(t.Context(), 0)
	require.ErrorIs(t, err, job.ErrConflict)
	b.pass(ended)
	require.Len(t, b.read(), 1)
	b.rotate(b.keys, access.ReportLife)
}

// TestNoReportKey: a node without a key would sign with one that everyone knows.
func TestNoReportKey(t *testing.T) {
	t.Parallel()
	b := setupReportKeys(t)
	execAs(t, b.asOwner, `UPDATE cluster_key SET until = now()`)
	_, err := b.open(b.asServer, b.keys).ReportKeys(t.Context())
	require.ErrorIs(t, err, access.ErrNoReportKey)
	b.rotate(b.keys, 0)
	require.Len(t, b.read(), 1, "nodes need not wait for its use")
}

// TestWrongKeysetOfReportKeys: a node that cannot decrypt a key gets no keys and an error that says what to do, and a
// sealed key opens under its own name only.
func TestWrongKeysetOfReportKeys(t *testing.T) {
	t.Parallel()
	b := setupReportKeys(t)
	b.rotate(b.keys, access.ReportLife)
	other, err := seal.New()
	require.NoError(t, err)
	for name, k := range map[string]postgres.Sealer{"none": nil, "wrong": other} {
		_, err := b.open(b.asServer, k).ReportKeys(t.Context())
		require.ErrorIs(t, err, access.ErrSealedReportKey, name)
		require.ErrorContains(t, err, "secrets.keyset_file", name)
	}
	b.read()
	execAs(t, b.asOwner, `UPDATE cluster_key SET name = 'report-x' WHERE sealed IS NOT NULL`)
	_, err = b.open(b.asServer, b.keys).ReportKeys(t.Context())
	require.ErrorContains(t, err, "another place")

	// Without nodes, only the keys show that a keyset is the wrong one.
	_, err = b.open(b.asOwner, other).RotateReportKey(t.Context(), access.ReportLife)
	require.ErrorIs(t, err, access.ErrSealedReportKey)

	// A lost keyset: a new key with another one, and the old ones end. The clock is in doubt, because no node runs.
	b.keys = other
	const node = `INSERT INTO session (id, name, started_at, expires_at, may_own, info)
		VALUES (gen_random_uuid(), 'node', now(), now() + interval '1 h', true, '{}')`
	execAs(t, b.asOwner, node)
	b.trust(`now() - interval '1 h'`)
	_, err = b.open(b.asOwner, b.keys).RotateReportKey(t.Context(), 0)
	require.True(t, store.ClockInDoubt(err), "a node runs")
	require.ErrorContains(t, err, "if the clock of the database is right, run belfry clock confirm")
	execAs(t, b.asOwner, `DELETE FROM session`)
	b.rotate(b.keys, 0)
	b.pass(access.ReportKeyLead + time.Second)
	_, err = b.open(b.asServer, b.keys).ReportKeys(t.Context())
	require.ErrorIs(t, err, access.ErrSealedReportKey)
	b.pass(access.ReportKeyGrace)
	signs := b.read().Token(aReport)
	b.trust("now()")
	require.Len(t, b.read(), 1)
	require.Equal(t, signs, b.read().Token(aReport))
}

// TestReportKeyWithoutAKeyset: the new key is in the clear, and can be replaced by a sealed one later.
func TestReportKeyWithoutAKeyset(t *testing.T) {
	t.Parallel()
	b := setupReportKeys(t)
	b.rotate(nil, 0)
	b.pass(ended)
	old := b.read()
	require.True(t, bytes.Contains(b.dump(), old.First()))
	b.rotate(b.keys, 0)
	b.pass(ended)
	dropped, err := b.open(b.asServer, b.keys).DropReportKeys(t.Context())
	require.NoError(t, err)
	require.Equal(t, 2, dropped)
	for _, keys := range []access.ReportKeys{old, b.read()} {
		require.False(t, bytes.Contains(b.dump(), keys.First()))
	}
}

// TestResealReportKeys: after a change of the keyset, its old key can be dropped.
func TestResealReportKeys(t *testing.T) {
	t.Parallel()
	b := setupReportKeys(t)
	b.rotate(b.keys, 0)
	b.pass(ended)
	want := b.read()
	added, err := b.keys.Add()
	require.NoError(t, err)
	used, err := added.Use()
	require.NoError(t, err)
	done, left, err := b.open(b.asServer, used).ResealSecrets(t.Context())
	require.NoError(t, err)
	require.Equal(t, []int{1, 0}, []int{done, left})
	b.keys, _, err = used.Drop()
	require.NoError(t, err)
	require.Equal(t, want, b.read())
	other, err := seal.New()
	require.NoError(t, err)
	done, left, err = b.open(b.asServer, other).ResealSecrets(t.Context())
	require.NoError(t, err)
	require.Equal(t, []int{0, 1}, []int{done, left})
}

// TestNodesCannotChangeReportKeys: the login of nodes adds no key, changes no time, and deletes only keys that have
// ended.
func TestNodesCannotChangeReportKeys(t *testing.T) {
	t.Parallel()
	b := setupReportKeys(t)
	_, err := b.open(b.asServer, b.keys).RotateReportKey(t.Context(), 0)
	require.ErrorContains(t, err, "permission denied")
	require.ErrorContains(t, err, "the owner of the database")
	b.rotate(b.keys, 0)
	conn, err := pgx.Connect(t.Context(), b.asServer)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(t.Context())) }()
	for _, sql := range []string{
		`UPDATE cluster_key SET until = now()`, `UPDATE cluster_key SET use_at = now()`,
		`UPDATE cluster_key SET secret = sealed`,
		`INSERT INTO cluster_key (name, secret) SELECT 'x', secret FROM cluster_key`,
	} {
		_, err := conn.Exec(t.Context(), sql)
		require.ErrorContains(t, err, "permission denied", sql)
	}
	tag, err := conn.Exec(t.Context(), `DELETE FROM cluster_key`)
	require.NoError(t, err)
	require.Zero(t, tag.RowsAffected())
	b.pass(ended)
	tag, err = conn.Exec(t.Context(), `DELETE FROM cluster_key`)
	require.NoError(t, err)
	require.EqualValues(t, 1, tag.RowsAffected())
	var entries int
	require.NoError(t, conn.QueryRow(t.Context(), `
		SELECT count(*) FROM audit_log WHERE namespace_id = $1 AND action = 'report_key.rotate' AND seal IS NOT NULL`,
		access.DefaultNamespace).Scan(&entries))
	require.Equal(t, 1, entries)
}
