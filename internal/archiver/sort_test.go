package archiver

import (
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/archive"
)

func randomRows(n int) (out []archive.Placed[archive.Run]) {
	random := rand.New(rand.NewPCG(1, 2))
	for range n {
		out = append(out, archive.Placed[archive.Run]{
			Namespace: uuid.UUID{byte(random.IntN(3))}, Row: archive.Run{
				Job: uuid.UUID{byte(random.IntN(5))}, DueAt: random.Int64N(100), Message: string(make([]byte, random.IntN(50))),
				Attempts: []archive.Attempt{{Outcome: "lost", Node: string(rune('a' + random.IntN(26)))}},
			},
		})
	}
	return out
}

// TestSort: whatever fits into memory and however many files are merged at once, the order is the same, and no file is
// left that is not needed.
func TestSort(t *testing.T) {
	t.Parallel()
	rows := randomRows(2000)
	want := slices.Clone(rows)
	slices.SortFunc(want, func(a, b archive.Placed[archive.Run]) int { return compare[archive.Run](&a, &b) })
	for _, limits := range []struct {
		memory int64
		fanIn  int
		files  int
	}{{1 << 30, 64, 0}, {120_000, 64, 30}, {120_000, 3, 9}, {30_000, 2, 9}} {
		directory := t.TempDir()
		s := newSorter[archive.Run](&workspace{directory: directory})
		s.memory, s.fanIn = limits.memory, limits.fanIn
		for _, r := range rows {
			require.NoError(t, s.add(r))
		}
		i := 0
		for r, err := range s.sorted() {
			require.NoError(t, err)
			require.Zero(t, compare[archive.Run](&want[i], r), "row %d", i)
			i++
		}
		require.Len(t, want, i)
		files, err := os.ReadDir(directory)
		require.NoError(t, err)
		require.LessOrEqual(t, len(files), limits.files)
		require.Equal(t, limits.files > 0, len(files) > 0)
	}
}

// TestASortedFileThatIsCutShort is an error, and not the end of the rows.
func TestASortedFileThatIsCutShort(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	s := newSorter[archive.Run](&workspace{directory: directory})
	for _, r := range randomRows(500) {
		require.NoError(t, s.add(r))
	}
	require.NoError(t, s.spill())
	files, err := filepath.Glob(filepath.Join(directory, "*"))
	require.NoError(t, err)
	require.Len(t, files, 1)
	whole, err := os.ReadFile(files[0])
	require.NoError(t, err)
	for n := range 50 {
		require.NoError(t, os.WriteFile(files[0], whole[:len(whole)*n/50], 0o600))
		var last error
		for _, err := range s.sorted() {
			last = err
		}
		require.Error(t, last, "%d of 50", n)
		require.False(t, errors.Is(last, io.EOF) && n > 0, "%v", last)
	}
}
