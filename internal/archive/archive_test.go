package archive_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/belfry-dev/belfry/internal/archive"
	"github.com/belfry-dev/belfry/internal/archive/disk"
)

// shelf is an archive on disk.
type shelf struct {
	*archive.Archive
	t     *testing.T
	dir   string
	store *disk.Store
}

func newShelf(t *testing.T) *shelf {
	dir := t.TempDir()
	s, err := disk.Open(dir)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return &shelf{archive.New(s), t, dir, s}
}

func (s *shelf) put(name string, content []byte) {
	s.t.Helper()
	require.NoError(s.t, archive.PutOnce(s.t.Context(), s.store, name, content))
}

// day writes a day that has these runs of a namespace in each part, and returns the name of its manifest.
func (s *shelf) day(p archive.Place, parts ...[]archive.Run) string {
	s.t.Helper()
	var files []archive.File
	for i, rows := range parts {
		p.Number = i + 1
		content, f := writeRuns(s.t, p, rows...)
		s.put(f.Name, content)
		files = append(files, f)
	}
	p.Number = 1
	skips, f := writeSkips(s.t, p, archive.Skip{Cursor: 7, Reason: "missed"})
	s.put(f.Name, skips)
	m, err := archive.NewManifest(p.Day, p.Generation, append(files, f))
	require.NoError(s.t, err)
	text, err := m.Encode()
	require.NoError(s.t, err)
	s.put(m.Name(), text)
	return m.Name()
}

func (s *shelf) runs(q archive.Query) (out []archive.Run) {
	s.t.Helper()
	for r, err := range s.Runs(s.t.Context(), q) {
		require.NoError(s.t, err)
		r.Attempts = slices.Clip(r.Attempts)
		out = append(out, r)
	}
	return out
}

func id(n byte) uuid.UUID { return uuid.UUID{15: n} }

// manyRuns are runs of jobs first to last, one each minute.
func manyRuns(first, last byte, each int) (out []archive.Run) {
	for j := first; j <= last; j++ {
		for i := range each {
			due := place.Day.Start().Add(time.Duration(i) * time.Minute).UnixMicro()
			out = append(out, archive.Run{
				Job: id(j), DueAt: due, RunAt: due, EndedAt: due + 1, Status: "succeeded", Origin: "schedule",
				Message: fmt.Sprintf("run %d of job %d", i, j),
			})
		}
	}
	return out
}

// TestRunsOfAJob are found by the manifests, whatever their file, page and generation.
func TestRunsOfAJob(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	const each = 1000
	first, second := manyRuns(1, 5, each), manyRuns(5, 9, each)
	for i := range second { // job 5 goes on in the second part
		second[i].DueAt += each * int64(time.Minute/time.Microsecond)
	}
	s.day(place, first, second)
	next := place
	next.Day = archive.DayOf(place.Day.Start().AddDate(0, 0, 1))
	s.day(next, manyRuns(5, 5, 1))
	next.Generation = 2
	s.day(next, manyRuns(5, 5, 3))

	q := archive.Query{Namespace: place.Namespace, From: place.Day, To: place.Day}
	for j := byte(0); j <= 10; j++ {
		q.Job = id(j)
		want := slices.DeleteFunc(slices.Concat(first, second), func(r archive.Run) bool { return r.Job != q.Job })
		got := s.runs(q)
		require.Len(t, got, len(want), "job %d", j)
		for i := range want {
			require.Equal(t, want[i].Append(nil), got[i].Append(nil), "job %d", j)
		}
	}
	q.Job, q.From, q.To = id(5), next.Day, next.Day
	require.Len(t, s.runs(q), 3, "the newest generation, and only that")
	q.From = place.Day
	require.Len(t, s.runs(q), 2*each+3)
	q.DueFrom, q.DueBefore = place.Day.Start().Add(10*time.Minute), place.Day.Start().Add(20*time.Minute)
	require.Len(t, s.runs(q), 10)
	q.Namespace = id(1)
	require.Empty(t, s.runs(q), "of another namespace")
	q.Namespace, q.From, q.To = place.Namespace, archive.DayOf(time.Unix(0, 0)), archive.DayOf(time.Unix(1, 0))
	require.Empty(t, s.runs(q), "of days without an archive")

	taken := 0
	for range s.Runs(t.Context(), archive.Query{Namespace: place.Namespace, Job: id(5), From: place.Day, To: next.Day}) {
		if taken++; taken == 2 {
			break // a caller may stop at any time
		}
	}
}

// TestRangesMatchByEachOfTheirOccurrences: an entry for a range of skipped occurrences is found by one in the middle.
func TestRangesMatchByEachOfTheirOccurrences(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	at := func(minute int) time.Time { return place.Day.Start().Add(time.Duration(minute) * time.Minute) }
	to := at(30).UnixMicro()
	s.day(place, []archive.Run{{Job: id(1), DueAt: at(10).UnixMicro(), DueTo: &to}})
	for minute, want := range map[int]int{9: 0, 10: 1, 20: 1, 30: 1, 31: 0} {
		require.Len(t, s.runs(archive.Query{
			Namespace: place.Namespace, Job: id(1), From: place.Day, To: place.Day,
			DueFrom: at(minute), DueBefore: at(minute).Add(time.Second),
		}), want, "minute %d", minute)
	}
}

// TestAWholeDayHasNoFindings, and its objects are those of its manifest.
func TestAWholeDayHasNoFindings(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	name := s.day(place, manyRuns(1, 3, 10), manyRuns(4, 9, 10))
	v, err := s.Verify(t.Context(), name)
	require.NoError(t, err)
	require.Empty(t, v.Findings)
	require.EqualValues(t, 90, v.Manifest.Sum(archive.Runs).Rows)
	require.EqualValues(t, 1, v.Manifest.Sum(archive.Skips).Rows)
	require.Len(t, v.Manifest.Files, 3)
	orphans, err := s.Orphans(t.Context(), &v.Manifest)
	require.NoError(t, err)
	require.Empty(t, orphans)
}

// TestDamageIsFound: whatever happens to an object, and to any of its bytes, Verify finds it.
func TestDamageIsFound(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	name := s.day(place, manyRuns(1, 3, 10), manyRuns(4, 9, 10))
	m, err := s.Manifest(t.Context(), name)
	require.NoError(t, err)
	objects := []string{name}
	for _, f := range m.Files {
		objects = append(objects, f.Name)
	}
	rapid.Check(t, func(t *rapid.T) {
		object := rapid.SampledFrom(objects).Draw(t, "object")
		path := filepath.Join(s.dir, object)
		content, err := os.ReadFile(path)
		require.NoError(t, err)
		damaged := slices.Clone(content)
		at := rapid.IntRange(0, len(content)-1).Draw(t, "at")
		extra := ""
		switch rapid.IntRange(0, 4).Draw(t, "damage") {
		case 0:
			damaged[at] ^= byte(rapid.IntRange(1, 255).Draw(t, "bits"))
		case 1:
			damaged = damaged[:at]
		case 2:
			damaged = append(damaged, damaged...)
		case 3:
			damaged = nil
		case 4: // the same rows twice, under another name
			if object == name {
				t.Skip("readers do not look for other manifests of other names")
			}
			extra = strings.Replace(object, "/part-", "/part-9", 1)
			require.NoError(t, os.WriteFile(filepath.Join(s.dir, extra), content, 0o600))
		}
		if damaged == nil {
			require.NoError(t, os.Remove(path))
		} else {
			require.NoError(t, os.WriteFile(path, damaged, 0o600))
		}
		v, err := s.Verify(s.t.Context(), name)
		require.NoError(t, os.WriteFile(path, content, 0o600))
		if object == name {
			if same, err := archive.DecodeManifest(name, damaged); err == nil {
				same.Day, same.Generation = m.Day, m.Generation
				if text, _ := same.Encode(); bytes.Equal(text, content) {
					t.Skip("white space and the case of hexadecimal digits do not matter")
				}
			}
			require.True(t, err != nil || len(v.Findings) > 0, "%s", damaged)
			return
		}
		require.NoError(t, err)
		require.NotEmpty(t, v.Findings)
		if extra != "" {
			require.Equal(t, []archive.Finding{{extra, "no manifest names this object"}}, v.Findings)
			orphans, err := s.Orphans(s.t.Context(), &m)
			require.NoError(t, err)
			require.Equal(t, []string{extra}, orphans)
			before := m
			before.Generation = 0
			orphans, err = s.Orphans(s.t.Context(), &before)
			require.NoError(t, err)
			require.Empty(t, orphans, "of a later generation")
			require.NoError(t, s.store.Delete(s.t.Context(), extra))
			return
		}
		require.Equal(t, object, v.Findings[0].Object)
	})
	v, err := s.Verify(t.Context(), name)
	require.NoError(t, err)
	require.Empty(t, v.Findings, "repaired")
}

// TestAWrongManifestIsFound: what it says about a file is compared with the rows, not only with the bytes.
func TestAWrongManifestIsFound(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(f *archive.File){
		"due from": func(f *archive.File) { f.DueFrom = f.DueFrom.Add(time.Microsecond) },
		"due to":   func(f *archive.File) { f.DueTo = f.DueTo.Add(-time.Microsecond) },
		"last":     func(f *archive.File) { f.Last += "0" },
		"rows":     func(f *archive.File) { f.Sum.Rows++ },
		"keys":     func(f *archive.File) { f.Sum.Keys = f.Sum.Content },
		"content":  func(f *archive.File) { f.Sum.Content = f.Sum.Keys },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newShelf(t)
			content, f := writeRuns(t, place, manyRuns(1, 3, 10)...)
			s.put(f.Name, content)
			change(&f)
			m, err := archive.NewManifest(place.Day, 1, []archive.File{f})
			require.NoError(t, err)
			text, err := m.Encode()
			require.NoError(t, err)
			s.put(m.Name(), text)
			v, err := s.Verify(t.Context(), m.Name())
			require.NoError(t, err)
			require.Len(t, v.Findings, 1)
		})
	}
}

// TestReadingDamageEnds: a reader that trusts a damaged file returns an error or other rows. It does not panic or hang.
func TestReadingDamageEnds(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	name := s.day(place, manyRuns(1, 3, 10))
	m, err := s.Manifest(t.Context(), name)
	require.NoError(t, err)
	path := filepath.Join(s.dir, m.Files[0].Name)
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	rapid.Check(t, func(t *rapid.T) {
		damaged := slices.Clone(content)
		for range rapid.IntRange(1, 5).Draw(t, "bytes") {
			damaged[rapid.IntRange(0, len(content)-1).Draw(t, "at")] ^= byte(rapid.IntRange(1, 255).Draw(t, "bits"))
		}
		if rapid.IntRange(0, 9).Draw(t, "cut") == 9 {
			damaged = damaged[:rapid.IntRange(0, len(damaged)).Draw(t, "length")]
		}
		require.NoError(t, os.WriteFile(path, damaged, 0o600))
		read := 0
		for _, err := range s.Runs(s.t.Context(), archive.Query{
			Namespace: place.Namespace, Job: id(2), From: place.Day, To: place.Day,
		}) {
			if read++; err != nil || read > 1000 {
				break
			}
		}
	})
}

// TestManifestsThatContradictThemselves are refused.
func TestManifestsThatContradictThemselves(t *testing.T) {
	t.Parallel()
	_, one := writeRuns(t, place, manyRuns(1, 1, 3)...)
	second := place
	second.Number = 2
	_, two := writeRuns(t, second, manyRuns(2, 2, 3)...)
	for name, change := range map[string]func(m *archive.Manifest){
		"format":     func(m *archive.Manifest) { m.Format = 2 },
		"generation": func(m *archive.Manifest) { m.Generation = 0 },
		"totals":     func(m *archive.Manifest) { m.Totals[0].Sum.Rows++ },
		"no total":   func(m *archive.Manifest) { m.Totals = nil },
		"place":      func(m *archive.Manifest) { m.Files[0].Namespace = id(1) },
		"kind":       func(m *archive.Manifest) { m.Files[0].Kind = "else" },
		"outside":    func(m *archive.Manifest) { m.Files[0].Name = "../" + m.Files[0].Name },
		"order":      func(m *archive.Manifest) { slices.Reverse(m.Files) },
		"gap":        func(m *archive.Manifest) { m.Files = m.Files[1:] },
		"twice":      func(m *archive.Manifest) { m.Files[1] = m.Files[0] },
		"size":       func(m *archive.Manifest) { m.Files[0].Bytes = 1 << 40 },
	} {
		m, err := archive.NewManifest(place.Day, 1, []archive.File{two, one})
		require.NoError(t, err)
		good, err := m.Encode()
		require.NoError(t, err)
		_, err = archive.DecodeManifest(m.Name(), good)
		require.NoError(t, err)
		at := m.Name()
		change(&m)
		bad, err := m.Encode()
		require.NoError(t, err)
		_, err = archive.DecodeManifest(at, bad)
		require.Error(t, err, name)
	}
	m, err := archive.NewManifest(place.Day, 1, nil)
	require.NoError(t, err, "a day may have no rows")
	text, err := m.Encode()
	require.NoError(t, err)
	_, err = archive.DecodeManifest(m.Name(), text)
	require.NoError(t, err)
	_, err = archive.DecodeManifest("v1/manifest/2026-11-16.g0001.json", text)
	require.ErrorContains(t, err, "is the manifest of")
	_, err = archive.DecodeManifest(m.Name(), []byte(`{"format": 1, "new": true}`))
	require.Error(t, err, "of a version that this one does not know")
}

func TestHashes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := archive.SumOf[archive.Run](rapid.SliceOfN(runs(), 0, 5).Draw(t, "rows")...)
		for _, h := range []archive.Hash{s.Keys, s.Content} {
			again, err := archive.ParseHash(h.String())
			require.NoError(t, err)
			require.Equal(t, h, again)
		}
	})
	for _, bad := range []string{"", "-1", "x", "1e3", "340282366920938463463374607431768211456"} {
		_, err := archive.ParseHash(bad)
		require.Error(t, err, bad)
	}
}
