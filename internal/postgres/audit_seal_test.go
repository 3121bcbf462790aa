package postgres_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/pgtest"
	"github.com/belfry-dev/belfry/internal/postgres"
	"github.com/belfry-dev/belfry/internal/seal"
)

// sealed is the audit log of the default namespace, and stores with different keysets.
type sealed struct {
	t    *testing.T
	with func(*seal.Keyset) *pgtest.Store
	exec func(sql string)
}

func setupSealed(t *testing.T) *sealed {
	t.Helper()
	pool := pgtest.New(t)
	server := pgtest.AsServer(t, pool)
	return &sealed{
		t: t,
		with: func(k *seal.Keyset) *pgtest.Store {
			var o postgres.Options
			if k != nil {
				o.Sealer = k
			}
			return pgtest.StoreOf(postgres.New(server, o))
		},
		exec: func(sql string) {
			_, err := pool.Exec(context.WithoutCancel(t.Context()), sql)
			require.NoError(t, err, sql)
		},
	}
}

// write adds entries as a node with a keyset; nil: one without.
func (s *sealed) write(k *seal.Keyset, n int) {
	s.t.Helper()
	for range n {
		_, _, err := s.with(k).CreateKey(s.t.Context(),
			access.KeyParams{Namespace: access.DefaultNamespace, Name: "k", Role: access.Viewer, Actor: "test"})
		require.NoError(s.t, err)
	}
}

func (s *sealed) verify(k *seal.Keyset, from access.AuditCheck) (access.AuditCheck, error) {
	s.t.Helper()
	good, _, err := s.with(k).VerifyAudit(s.t.Context(), access.DefaultNamespace, from, 1000)
	return good, err
}

func keyset(t *testing.T) *seal.Keyset {
	t.Helper()
	k, err := seal.New()
	require.NoError(t, err)
	return k
}

// TestSealsOfTheAuditLog: entries of nodes with and without a keyset, and of all keys of a rotation, are one chain.
// A node says which of their seals it could check.
func TestSealsOfTheAuditLog(t *testing.T) {
	t.Parallel()
	s := setupSealed(t)
	one := keyset(t)
	added, err := one.Add()
	require.NoError(t, err)
	two, err := added.Use()
	require.NoError(t, err)
	dropped, _, err := two.Drop()
	require.NoError(t, err)

	s.write(nil, 2)
	s.write(one, 3)
	s.write(two, 4)
	type counts struct{ from, sealed, unsealed, unchecked int64 }
	for name, c := range map[string]struct {
		keys *seal.Keyset
		want counts
	}{
		"both keys": {two, counts{3, 7, 2, 0}},
		"dropped":   {dropped, counts{3, 4, 2, 3}},
		"no keyset": {nil, counts{3, 0, 2, 7}},
		"another":   {keyset(t), counts{3, 0, 2, 7}},
	} {
		good, err := s.verify(c.keys, access.AuditCheck{})
		require.NoError(t, err, name)
		require.EqualValues(t, 9, good.Seq, name)
		require.Equal(t, c.want, counts{good.SealedFrom, good.Sealed, good.Unsealed, good.Unchecked}, name)
	}
	_, err = s.verify(one, access.AuditCheck{})
	require.ErrorContains(t, err, "entry 6 of", "seals of a key that the node does not have yet, after one that it has")
}

// TestAnUnsealedEntryIsFound: an entry that was added without the keyset, and a chain that was written again without it,
// are found with and without the keyset. The caller can name the last entry for which there is a reason.
func TestAnUnsealedEntryIsFound(t *testing.T) {
	t.Parallel()
	s := setupSealed(t)
	k := keyset(t)
	s.write(nil, 1)
	s.write(k, 2)
	mark, err := s.verify(k, access.AuditCheck{})
	require.NoError(t, err)
	s.write(nil, 2)
	s.write(k, 1)
	for _, keys := range []*seal.Keyset{k, nil} {
		for _, from := range []access.AuditCheck{{}, {AuditMark: mark.AuditMark}} {
			good, err := s.verify(keys, from)
			require.ErrorContains(t, err, "entry 4 of")
			require.ErrorContains(t, err, "has no seal")
			require.EqualValues(t, 3, good.Seq)
			from.UnsealedTo = 4
			_, err = s.verify(keys, from)
			require.ErrorContains(t, err, "entry 5 of")
			from.UnsealedTo = 5
			good, err = s.verify(keys, from)
			require.NoError(t, err)
			require.EqualValues(t, 6, good.Seq)
		}
	}
}

// TestSealsThatWereRemoved: a mark that was kept shows entries that were added without the keyset, also if the owner of
// the database has removed all seals before them.
func TestSealsThatWereRemoved(t *testing.T) {
	t.Parallel()
	s := setupSealed(t)
	k := keyset(t)
	s.write(k, 2)
	mark, err := s.verify(k, access.AuditCheck{})
	require.NoError(t, err)
	s.write(nil, 1)
	s.exec(`UPDATE audit_log SET seal = NULL`)
	from := access.AuditCheck{AuditMark: mark.AuditMark, Marked: true}
	_, err = s.verify(k, from)
	require.ErrorContains(t, err, "entry 3 of")
	require.ErrorContains(t, err, "has no seal")
	from.UnsealedTo = 3
	good, err := s.verify(k, from)
	require.NoError(t, err)
	require.True(t, good.Keyset)
}

// TestSealsCannotBeMoved: a seal proves one entry of one chain.
func TestSealsCannotBeMoved(t *testing.T) {
	t.Parallel()
	for _, sql := range []string{
		`UPDATE audit_log SET seal = (SELECT seal FROM audit_log WHERE seq = 1) WHERE seq = 3`,
		`UPDATE audit_log SET seal = set_byte(seal, 20, get_byte(seal, 20) # 1) WHERE seq = 3`,
		`UPDATE audit_log SET seal = substring(seal FOR 5) WHERE seq = 3`,
		`UPDATE audit_log SET seal = '' WHERE seq = 3`,
		`UPDATE audit_log SET seal = NULL WHERE seq = 3`,
		// Entries 3 and 4 are written again, by someone who can compute their hashes and has old seals.
		`DELETE FROM audit_log WHERE seq >= 3`,
	} {
		s := setupSealed(t)
		k := keyset(t)
		s.write(k, 4)
		s.exec(`CREATE TABLE stolen AS SELECT seq, seal FROM audit_log`)
		s.exec(sql)
		if sql[0] == 'D' {
			s.write(nil, 2)
			s.exec(`UPDATE audit_log a SET seal = s.seal FROM stolen s WHERE s.seq = a.seq`)
		}
		good, err := s.verify(k, access.AuditCheck{})
		require.ErrorContains(t, err, "entry 3 of", sql)
		require.EqualValues(t, 2, good.Seq, sql)
	}
}
