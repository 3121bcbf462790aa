package postgres

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/store"
)

// searchMarks are low-water marks of partitions in an index that is ordered by time: no row before a mark is alive. Rows
// that were moved or removed stay in the index while a transaction holds an old snapshot, and a search from the
// beginning would pass all of them each time.
//
// A mark may be wrong, for example after another node moved rows. Such rows are late, not lost: a search begins at the
// beginning for partitions that are new, after a failover, and about every searchAll.
type searchMarks struct {
	mu       sync.Mutex
	timeline int64 // of the database, whose rows went back if it is another one
	of       map[int16]searchMark
}

type searchMark struct {
	first time.Time
	all   time.Duration // clock.Elapsed of the next search from the beginning
}

const (
	searchAll = 5 * time.Minute
	// markLag is how far marks stay behind the clock. It is more than the time between the instant of a transaction,
	// before which it adds no row, and its commit.
	markLag = time.Minute
)

// search is where the search of each partition begins; zero: at the beginning.
type search struct {
	partitions []int16
	from       []time.Time
}

// begin returns where a search begins that finds the first row of each partition.
func (m *searchMarks) begin(partitions []int16) search {
	now := clock.Elapsed()
	return m.search(partitions, func(s searchMark) time.Time {
		if now >= s.all {
			return time.Time{}
		}
		return s.first
	})
}

// after returns where other searches begin: at the marks, but not before an instant.
func (m *searchMarks) after(partitions []int16, least time.Time) search {
	return m.search(partitions, func(s searchMark) time.Time { return store.Later(s.first, least) })
}

func (m *searchMarks) search(partitions []int16, from func(searchMark) time.Time) search {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := search{partitions, make([]time.Time, len(partitions))}
	for i, p := range partitions {
		s.from[i] = from(m.of[p])
	}
	return s
}

// found replaces the marks by what a search found: the first rows of partitions, as of an instant on a timeline.
func (m *searchMarks) found(s search, first map[int16]time.Time, now time.Time, timeline int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	before, same := m.of, m.timeline == timeline || m.of == nil
	m.of, m.timeline = map[int16]searchMark{}, timeline
	if !same {
		return
	}
	for i, p := range s.partitions {
		mark := searchMark{first: now.Add(-markLag), all: before[p].all}
		if at, ok := first[p]; ok && at.Before(mark.first) {
			mark.first = at
		}
		if s.from[i].IsZero() { // not all partitions at the same time
			mark.all = clock.Elapsed() + searchAll/2 + rand.N(searchAll) //nolint:gosec // not a secret
		}
		m.of[p] = mark
	}
}

// lower notes that a row of a partition was moved to a time, which may be before its mark.
func (m *searchMarks) lower(partition int16, to time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if mark, ok := m.of[partition]; ok && to.Before(mark.first) {
		mark.first = to
		m.of[partition] = mark
	}
}
