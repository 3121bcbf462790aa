package reportkey_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/app/database"
	"github.com/belfry-dev/belfry/internal/app/reportkey"
	"github.com/belfry-dev/belfry/internal/doctor"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/pgtest"
	"github.com/belfry-dev/belfry/internal/postgres"
	"github.com/belfry-dev/belfry/internal/seal"
)

// bundle is a cluster with a keyset.
type bundle struct {
	*testing.T
	pool  *pgxpool.Pool // as the owner
	nodes *pgxpool.Pool
	keys  *seal.Keyset
	at    database.At
	log   bytes.Buffer
}

func setup(t *testing.T) *bundle {
	t.Helper()
	b := &bundle{T: t, pool: pgtest.New(t)}
	b.nodes = pgtest.AsServer(t, b.pool)
	var err error
	b.keys, err = seal.New()
	require.NoError(t, err)
	text, err := b.keys.Text()
	require.NoError(t, err)
	b.at = database.At{URL: b.pool.Config().ConnString(), Keyset: text}
	return b
}

func (b *bundle) node() *reportkey.Ring {
	b.Helper()
	store := postgres.New(b.nodes, postgres.Options{Sealer: b.keys}).Admin()
	r, err := reportkey.Read(b.Context(), store, slog.New(slog.NewTextHandler(&b.log, nil)))
	require.NoError(b, err)
	return r
}

func (b *bundle) exec(sql string, args ...any) {
	b.Helper()
	_, err := b.pool.Exec(b.Context(), sql, args...)
	require.NoError(b, err)
}

// await waits until what a node does by itself has happened.
func await(t *testing.T, done func() bool) {
	t.Helper()
	require.Eventually(t, done, time.Minute, 10*time.Millisecond)
}

func (b *bundle) reload(r *reportkey.Ring) {
	b.Helper()
	pause, err := r.Once(b.Context())
	require.NoError(b, err)
	require.Equal(b, access.ReportKeyPause, pause)
}

// TestNodesAcceptEachOther: in each step of a rotation, a node that has read the keys again and one that has not accept
// each other's tokens. The keys that have ended are deleted.
func TestNodesAcceptEachOther(t *testing.T) {
	t.Parallel()
	b := setup(t)
	one, two := b.node(), b.node()
	both := func() {
		t.Helper()
		r := right()
		for _, from := range []*reportkey.Ring{one, two} {
			for _, to := range []*reportkey.Ring{one, two} {
				got, err := to.Keys().Parse(from.Keys().Token(r))
				require.NoError(t, err)
				require.Equal(t, r, got)
			}
		}
	}
	both()
	old := one.Keys().First()
	_, err := reportkey.Rotate(t.Context(), b.at, access.ReportLife)
	require.NoError(t, err)
	b.reload(one) // the other one has not
	both()
	b.reload(two)
	require.NotContains(t, b.log.String(), "new key signs run tokens")
	b.exec(`UPDATE cluster_key SET use_at = use_at - interval '6 m', until = until - interval '6 m'`)
	b.reload(one)
	require.Contains(t, b.log.String(), "new key signs run tokens")
	require.NotEqual(t, old, one.Keys().First())
	require.Equal(t, old, two.Keys().First())
	both()
	b.reload(two)
	both()
	b.exec(`UPDATE cluster_key SET until = now() - interval '1 s' WHERE until IS NOT NULL`)
	b.reload(one)
	require.Contains(t, b.log.String(), `"old keys of run tokens deleted" keys=1`)
	require.Len(t, one.Keys(), 1)
	all, err := reportkey.List(t.Context(), b.at)
	require.NoError(t, err)
	require.Len(t, all, 1)
}

// right is a right to report.
func right() access.Report {
	r := access.Report{Key: job.Key{Job: uuid.New(), DueAt: time.Unix(1, 0).UTC()}, Until: time.Unix(2, 0).UTC()}
	r.Key.Partition = job.PartitionOf(r.Key.Job)
	return r
}

// TestAStaleNodeSignsWhatOthersAccept: also if old keys are not kept. It begins to use the new key, and stops accepting
// the old one, without another read.
func TestAStaleNodeSignsWhatOthersAccept(t *testing.T) {
	t.Parallel()
	b := setup(t)
	stale := b.node()
	old := stale.Keys()
	_, err := reportkey.Rotate(t.Context(), b.at, 0)
	require.NoError(t, err)
	b.reload(stale)
	b.exec(`UPDATE cluster_key SET use_at = use_at - $1::interval, until = until - $1::interval`,
		access.ReportKeyLead+access.ReportKeyPause)
	fresh := b.node()
	require.Equal(t, old.First(), stale.Keys().First())
	require.NotEqual(t, old.First(), fresh.Keys().First())
	_, err = fresh.Keys().Parse(stale.Keys().Token(right()))
	require.NoError(t, err)
	_, err = stale.Keys().Parse(fresh.Keys().Token(right()))
	require.NoError(t, err)

	b.exec(`UPDATE cluster_key SET use_at = now() + interval '500 ms' WHERE until IS NULL`)
	b.reload(stale)
	await(t, func() bool { return bytes.Equal(fresh.Keys().First(), stale.Keys().First()) })
}

// TestKeysEndWithoutReads: a node that cannot read the keys again stops accepting those that end.
func TestKeysEndWithoutReads(t *testing.T) {
	t.Parallel()
	b := setup(t)
	r := b.node()
	require.False(t, r.Stale())
	token := r.Keys().Token(right())
	b.exec(`INSERT INTO cluster_key (name, secret) VALUES ('new', decode(repeat('01', 32), 'hex'))`)
	b.exec(`UPDATE cluster_key SET until = now() + interval '500 ms' WHERE name = 'report'`)
	b.reload(r)
	b.exec(`ALTER TABLE cluster_key RENAME TO gone`)
	_, err := r.Once(t.Context())
	require.Error(t, err)
	require.True(t, r.Stale())
	await(t, func() bool { _, err := r.Keys().Parse(token); return err != nil })
	require.Equal(t, access.ReportKeys{bytes.Repeat([]byte{1}, 32)}, r.Keys())

	b.exec(`ALTER TABLE gone RENAME TO cluster_key`)
	b.reload(r)
	require.False(t, r.Stale())
}

// TestAKeyThatDoesNotOpen: a running node uses the others, and ends those that have ended. It keeps a key that it has
// opened before.
func TestAKeyThatDoesNotOpen(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, err := reportkey.Rotate(t.Context(), b.at, access.ReportLife)
	require.NoError(t, err)
	b.exec(`UPDATE cluster_key SET use_at = now() WHERE until IS NULL`)
	r := b.node()
	before := r.Keys()
	require.Len(t, before, 2)
	b.exec(`UPDATE cluster_key SET until = now() WHERE until IS NOT NULL`)
	b.exec(`UPDATE cluster_key SET sealed = '\x00' WHERE until IS NULL`)
	b.exec(`INSERT INTO cluster_key (name, sealed) VALUES ('never opened', '\x00')`)
	_, err = r.Once(t.Context())
	require.ErrorIs(t, err, access.ErrSealedReportKey)
	require.Equal(t, before[:1], r.Keys())
	require.True(t, r.Stale())
	b.exec(`UPDATE cluster_key SET until = now() WHERE name <> 'never opened'`)
	_, err = r.Once(t.Context())
	require.ErrorIs(t, err, access.ErrSealedReportKey)
	require.Len(t, r.Keys().First(), access.ReportKeySize, "nothing is signed with a key that everyone knows")
	require.NotContains(t, before, r.Keys().First())
}

// TestFailedDeletionIsLogged: as what it is. The keys were read.
func TestFailedDeletionIsLogged(t *testing.T) {
	t.Parallel()
	b := setup(t)
	r := b.node()
	b.exec(`REVOKE DELETE ON cluster_key FROM belfry_engine`)
	b.reload(r)
	require.Contains(t, b.log.String(), "deletion of old keys of run tokens failed")
	require.False(t, r.Stale())
	b.exec(`GRANT DELETE ON cluster_key TO belfry_engine`)
	b.reload(r)
	require.Contains(t, b.log.String(), "deletion of old keys of run tokens recovered")
}

// TestRotateNeedsNodesThatCanUseTheKey: with the keyset of the command.
func TestRotateNeedsNodesThatCanUseTheKey(t *testing.T) {
	t.Parallel()
	b := setup(t)
	other, err := seal.New()
	require.NoError(t, err)
	plain := database.At{URL: b.at.URL}
	for _, c := range []struct {
		keyset string
		at     database.At
		want   string
	}{
		{other.Fingerprint(), b.at, "set the same secrets.keyset_file"},
		{"", b.at, "set the same secrets.keyset_file"},
		{b.keys.Fingerprint(), plain, "this command has none"},
		{"", plain, ""},
		{b.keys.Fingerprint(), b.at, ""},
	} {
		info, err := json.Marshal(doctor.Node{Keyset: c.keyset})
		require.NoError(t, err)
		b.exec(`DELETE FROM session`)
		b.exec(`INSERT INTO session (id, name, started_at, expires_at, may_own, info)
			VALUES ($1, 'node', now(), now() + interval '1 h', true, $2)`, uuid.New(), info)
		k, err := reportkey.Rotate(t.Context(), c.at, 0)
		if c.want == "" {
			require.NoError(t, err)
			require.Equal(t, c.at.Keyset != "", k.Sealed)
			continue
		}
		require.ErrorContains(t, err, "the node node")
		require.ErrorContains(t, err, c.want)
	}
	_, err = reportkey.Rotate(t.Context(), database.At{URL: b.at.URL, Keyset: "x"}, 0)
	require.ErrorContains(t, err, "secrets.keyset")
}
