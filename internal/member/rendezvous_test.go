package member

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
)

const partitions = 256

// newSessions returns ids that are random, but the same each time the test runs.
func newSessions(random *rand.Rand, n int) []uuid.UUID {
	out := make([]uuid.UUID, n)
	for i := range out {
		binary.BigEndian.PutUint64(out[i][:8], random.Uint64())
		binary.BigEndian.PutUint64(out[i][8:], random.Uint64())
	}
	return out
}

func seeded() *rand.Rand { return rand.New(rand.NewPCG(1, 2)) }

func count(assigned []uuid.UUID) map[uuid.UUID]int {
	out := map[uuid.UUID]int{}
	for _, s := range assigned {
		out[s]++
	}
	return out
}

func moved(a, b []uuid.UUID) (n int) {
	for i := range a {
		if a[i] != b[i] {
			n++
		}
	}
	return n
}

func TestAssignIsEven(t *testing.T) {
	t.Parallel()
	random := seeded()
	for _, n := range []int{1, 2, 3, 5, 10, 50} {
		lowest, highest := partitions, 0
		for range 300 {
			owned := count(assign(newSessions(random, n), partitions))
			require.NotContains(t, owned, uuid.Nil)
			for _, c := range owned {
				lowest, highest = min(lowest, c), max(highest, c)
			}
			if n <= 10 {
				require.Len(t, owned, n, "each session owns some")
			}
		}
		mean := float64(partitions) / float64(n)
		t.Logf("%2d sessions: mean %.1f, lowest %d, highest %d", n, mean, lowest, highest)
		require.LessOrEqual(t, float64(highest), 1.25*mean+1)
		if n <= 10 {
			require.GreaterOrEqual(t, float64(lowest), 0.25*mean)
		}
	}
}

func TestAssignIsTheSameOnAllNodes(t *testing.T) {
	t.Parallel()
	sessions := newSessions(seeded(), 7)
	want := assign(sessions, partitions)
	for range 20 {
		shuffled := slices.Concat(sessions, sessions[:2])
		rand.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		before := slices.Clone(shuffled)
		require.Equal(t, want, assign(shuffled, partitions))
		require.Equal(t, before, shuffled, "the argument stays as it is")
	}
}

// A version that weighs otherwise would fight with this one over partitions.
func TestAssignIsTheSameInAllVersions(t *testing.T) {
	t.Parallel()
	a, b, c := uuid.UUID{0: 1}, uuid.UUID{0: 2}, uuid.UUID{15: 3}
	name := map[uuid.UUID]byte{a: 'a', b: 'b', c: 'c'}
	var got []byte
	for _, s := range assign([]uuid.UUID{a, b, c}, 32) {
		got = append(got, name[s])
	}
	require.Equal(t, "bbbbbabccabcccababccabbccaaacabb", string(got))
}

func TestAssignMovesLittle(t *testing.T) {
	t.Parallel()
	random := seeded()
	for _, n := range []int{3, 5, 10} {
		var total, share int
		worst := 0.0
		const tries = 300
		for range tries {
			sessions := newSessions(random, n)
			with, without := assign(sessions, partitions), assign(sessions[1:], partitions)
			own := count(with)[sessions[0]]
			m := moved(with, without) // one joins, or, the other way round, leaves
			total, share = total+m, share+own
			worst = max(worst, float64(m-own)/partitions)
		}
		t.Logf("%2d sessions: of %d partitions %.1f moved, %.1f of them the member's own; worst excess %.1f %%",
			n, partitions, float64(total)/tries, float64(share)/tries, 100*worst)
		require.LessOrEqual(t, float64(total)/tries, 1.1*partitions/float64(n))
		require.LessOrEqual(t, worst, 0.06)
	}
}

func TestAssignWithoutSessions(t *testing.T) {
	t.Parallel()
	require.Equal(t, make([]uuid.UUID, 4), assign(nil, 4))
	require.Empty(t, assign(newSessions(seeded(), 3), 0))
}

// assign is Assign without needs.
func assign(sessions []uuid.UUID, partitions int) []uuid.UUID {
	all := make([]job.Session, len(sessions))
	for i, id := range sessions {
		all[i].ID = id
	}
	return Assign(all, unowned(partitions), nil)
}

func unowned(n int) []job.Ownership {
	out := make([]job.Ownership, n)
	for i := range out {
		out[i].Partition = int16(i)
	}
	return out
}

// Partitions whose runs need a kind of target go to sessions that have it. The others stay where they are, as far as
// sessions are not full.
func TestAssignRespectsNeeds(t *testing.T) {
	t.Parallel()
	a, b, c := uuid.UUID{0: 1}, uuid.UUID{0: 2}, uuid.UUID{0: 3}
	sessions := []job.Session{
		{ID: a, Kinds: []string{"http"}},
		{ID: b, Kinds: []string{"command", "http"}},
		{ID: c, Kinds: []string{"command", "http", "new"}},
	}
	needs := map[int16][]string{}
	for p := range int16(partitions / 2) {
		needs[p] = []string{"command"}
	}
	needs[0], needs[1] = []string{"command", "new"}, []string{"unheard of"}
	got := Assign(sessions, unowned(partitions), needs)
	require.Equal(t, c, got[0])
	require.Equal(t, assign([]uuid.UUID{a, b, c}, partitions)[1], got[1], "nobody has it")
	owned := count(got[:partitions/2])
	require.LessOrEqual(t, owned[a], 1)
	require.Greater(t, owned[b], partitions/8)
	require.Greater(t, owned[c], partitions/8)
	require.Greater(t, count(got[partitions/2:])[a], partitions/8, "it has its share of the others")
}
