package member

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
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
			owned := count(Assign(newSessions(random, n), partitions))
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
	want := Assign(sessions, partitions)
	for range 20 {
		shuffled := slices.Concat(sessions, sessions[:2])
		rand.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		before := slices.Clone(shuffled)
		require.Equal(t, want, Assign(shuffled, partitions))
		require.Equal(t, before, shuffled, "the argument stays as it is")
	}
}

// A version that weighs otherwise would fight with this one over partitions.
func TestAssignIsTheSameInAllVersions(t *testing.T) {
	t.Parallel()
	a, b, c := uuid.UUID{0: 1}, uuid.UUID{0: 2}, uuid.UUID{15: 3}
	name := map[uuid.UUID]byte{a: 'a', b: 'b', c: 'c'}
	var got []byte
	for _, s := range Assign([]uuid.UUID{a, b, c}, 32) {
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
			with, without := Assign(sessions, partitions), Assign(sessions[1:], partitions)
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
	require.Equal(t, make([]uuid.UUID, 4), Assign(nil, 4))
	require.Empty(t, Assign(newSessions(seeded(), 3), 0))
}
