package access_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
)

// TestOnceSealedAlwaysSealed: seals may begin at some entry, and the first ones may be of a key that was dropped since.
// An entry with less than the ones before it is reported, unless the caller knows why.
func TestOnceSealedAlwaysSealed(t *testing.T) {
	t.Parallel()
	const n, u, g, b = access.SealNone, access.SealUnknown, access.SealGood, access.SealBad
	for _, c := range []struct {
		seals      []access.SealState
		unsealedTo int64
		good       int64 // entries before the problem
		want       string
	}{
		{[]access.SealState{n, n, n}, 0, 3, ""},
		{[]access.SealState{n, g, g}, 0, 3, ""},
		{[]access.SealState{n, u, u, g, g}, 0, 5, ""},
		{[]access.SealState{n, u, u}, 0, 3, ""},
		{[]access.SealState{n, g, n}, 0, 2, "entry 3 of 2026-01-02T03:04:05Z has no seal"},
		{[]access.SealState{n, g, n, g}, 3, 4, ""},
		{[]access.SealState{n, g, n, g, n}, 3, 4, "entry 5 of 2026-01-02T03:04:05Z has no seal"},
		{[]access.SealState{u, n}, 0, 1, "entry 2 of 2026-01-02T03:04:05Z has no seal"},
		{[]access.SealState{g, u, g}, 0, 1, "entry 2 of 2026-01-02T03:04:05Z has no seal"},
		{[]access.SealState{g, b}, 9, 1, "entry 2 of 2026-01-02T03:04:05Z is not what was written"},
		{[]access.SealState{b}, 9, 0, "entry 1 of 2026-01-02T03:04:05Z is not what was written"},
	} {
		check := access.AuditCheck{UnsealedTo: c.unsealedTo}
		var err error
		for i, s := range c.seals {
			e := entry()
			e.Seq = int64(i + 1)
			e.Hash = e.Chain(access.DefaultNamespace, check.Hash)
			if err = check.Next(access.DefaultNamespace, e, s); err != nil {
				break
			}
		}
		if c.want == "" {
			require.NoError(t, err, "%v", c)
		} else {
			require.ErrorContains(t, err, c.want, "%v", c)
		}
		require.Equal(t, c.good, check.Seq, "%v", c)
		require.Equal(t, c.good, check.Sealed+check.Unsealed+check.Unchecked, "%v", c)
	}
}

// TestSealsAfterAMark: if the seal of the mark is good, seals of unknown keys do not count after it.
func TestSealsAfterAMark(t *testing.T) {
	t.Parallel()
	for seal, says := range map[access.SealState]string{
		access.SealGood: "entry 2 of 2026-01-02T03:04:05Z has no seal", access.SealUnknown: "",
	} {
		mark := entry()
		mark.Seq = 1
		mark.Hash = mark.Chain(access.DefaultNamespace, access.AuditMark{}.Hash)
		check := access.AuditCheck{AuditMark: access.AuditMark{Seq: 1, Hash: mark.Hash}}
		require.NoError(t, check.Resume(mark, seal))
		next := entry()
		next.Seq = 2
		next.Hash = next.Chain(access.DefaultNamespace, mark.Hash)
		err := check.Next(access.DefaultNamespace, next, access.SealUnknown)
		if says == "" {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, says)
		}
	}
}

// TestEntriesAfterAMarkAreSealed: if the node has a keyset, entries after a mark that the caller kept must have a seal,
// also if the seals of the mark and of all before it were removed.
func TestEntriesAfterAMarkAreSealed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		marked, keyset bool
		unsealedTo     int64
		want           string
	}{
		{true, true, 0, "entry 2 of 2026-01-02T03:04:05Z has no seal"},
		{true, true, 1, "entry 2 of 2026-01-02T03:04:05Z has no seal"},
		{true, true, 2, ""},
		{true, false, 0, ""},
		{false, true, 0, ""}, // a further page of a log without seals
	} {
		mark := entry()
		mark.Seq = 1
		mark.Hash = mark.Chain(access.DefaultNamespace, access.AuditMark{}.Hash)
		check := access.AuditCheck{
			AuditMark: access.AuditMark{Seq: 1, Hash: mark.Hash}, UnsealedTo: c.unsealedTo, Marked: c.marked, Keyset: c.keyset,
		}
		require.NoError(t, check.Resume(mark, access.SealNone))
		next := entry()
		next.Seq = 2
		next.Hash = next.Chain(access.DefaultNamespace, mark.Hash)
		err := check.Next(access.DefaultNamespace, next, access.SealNone)
		if c.want == "" {
			require.NoError(t, err, "%+v", c)
		} else {
			require.ErrorContains(t, err, c.want, "%+v", c)
		}
	}
}
