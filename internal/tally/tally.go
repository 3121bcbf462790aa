// Package tally counts what a node does, by queue and minute, until it is written. Counting takes no statement.
//
// Each process has rows of its own and writes them whole, so that a row that was written twice is counted once, and no
// two nodes wait for each other. What was counted since the last write is lost if the process is killed.
package tally

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/job"
)

// maxMinutes bounds what is kept while the database cannot be reached.
const maxMinutes = 60

// lastWrite is how long after its end a minute is written once more.
const lastWrite = 10 * time.Second

// Tally counts. It is safe for concurrent use.
type Tally struct {
	now func() time.Time // by the clock of the database

	mu      sync.Mutex
	minutes map[time.Time]*minute
	spaces  map[int32]uuid.UUID // namespaces of queues
}

type minute struct {
	queues  map[int32]*job.Stat
	skipped map[uuid.UUID]*job.Stat // by namespace: due times of whole schedules
	chosen  map[int32]bool          // queues that have had rows of their own
	audited int64
}

// New returns a Tally. now is the clock that its minutes follow.
func New(now func() time.Time) *Tally {
	return &Tally{now: now, minutes: map[time.Time]*minute{}, spaces: map[int32]uuid.UUID{}}
}

// Started counts an attempt that started.
func (t *Tally) Started(queue int32, late time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.of(queue)
	s.Started++
	s.Lateness.Count(late)
}

// Attempted counts an attempt that has ended.
func (t *Tally) Attempted(queue int32, took time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.of(queue)
	s.Attempts++
	s.Took += took
}

// Entered counts runs that entered history.
func (t *Tally) Entered(queue int32, how job.Ended, why job.Reason, runs int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.of(queue).Ended(how, why, runs)
}

// Skipped counts due times of a namespace that no job of a schedule runs for.
func (t *Tally) Skipped(namespace uuid.UUID, why job.Reason, dueTimes int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	m := t.minute()
	if m.skipped[namespace] == nil {
		m.skipped[namespace] = &job.Stat{}
	}
	m.skipped[namespace].Ended(job.EndedSkipped, why, dueTimes)
}

// Audited counts occurrences that the audit judged.
func (t *Tally) Audited(n int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.minute().audited += n
}

// Late notes how many runs of queues are late now. Queues that are not named have none.
func (t *Tally) Late(runs map[int32]int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range t.minute().queues {
		s.Late = 0
	}
	for queue, n := range runs {
		t.of(queue).Late = n
	}
}

func (t *Tally) of(queue int32) *job.Stat {
	m := t.minute()
	s := m.queues[queue]
	if s == nil {
		s = &job.Stat{}
		m.queues[queue] = s
	}
	return s
}

// minute returns the current one. If there are too many, the oldest is dropped.
func (t *Tally) minute() *minute {
	at := t.now().UTC().Truncate(time.Minute)
	m := t.minutes[at]
	if m == nil {
		if len(t.minutes) >= maxMinutes {
			oldest := at
			for other := range t.minutes {
				if other.Before(oldest) {
					oldest = other
				}
			}
			delete(t.minutes, oldest)
		}
		m = &minute{queues: map[int32]*job.Stat{}, skipped: map[uuid.UUID]*job.Stat{}, chosen: map[int32]bool{}}
		t.minutes[at] = m
	}
	return m
}

// Unknown returns the queues whose namespace is not known yet.
func (t *Tally) Unknown() (queues []int32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	seen := map[int32]bool{}
	for _, m := range t.minutes {
		for queue := range m.queues {
			if _, known := t.spaces[queue]; !known && !seen[queue] {
				seen[queue] = true
				queues = append(queues, queue)
			}
		}
	}
	slices.Sort(queues)
	return queues
}

// Learn adds the namespaces of queues, which never change.
func (t *Tally) Learn(namespaces map[int32]uuid.UUID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for queue, namespace := range namespaces {
		t.spaces[queue] = namespace
	}
}

// Rows returns what is to be written: all of each minute, by queue and by namespace. done drops the minutes that have
// ended long enough ago; call it when the rows are written.
func (t *Tally) Rows() (rows []job.StatRow, done func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.minute() // so that a process that counts nothing is known to have counted
	var over []time.Time
	for at, m := range t.minutes {
		if at.IsZero() { // counted before the clock of the database was known
			over = append(over, at)
			continue
		}
		rows = append(rows, t.rowsOf(at, m)...)
		if t.now().After(at.Add(time.Minute + lastWrite)) {
			over = append(over, at)
		}
	}
	return rows, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		for _, at := range over {
			delete(t.minutes, at)
		}
	}
}

// rowsOf returns the rows of a minute: of the process, of its namespaces, of its busiest queues, and of the rest.
func (t *Tally) rowsOf(at time.Time, m *minute) []job.StatRow {
	rows := []job.StatRow{{StatKey: job.StatKey{Minute: at}, Audited: m.audited}}
	totals := map[uuid.UUID]*job.Stat{}
	add := func(namespace uuid.UUID, s *job.Stat) {
		if totals[namespace] == nil {
			totals[namespace] = &job.Stat{}
		}
		totals[namespace].Add(s)
	}
	for namespace, s := range m.skipped {
		add(namespace, s)
	}
	var queues []job.StatRow
	for queue, s := range m.queues {
		namespace, known := t.spaces[queue]
		if !known {
			continue
		}
		row := job.StatRow{StatKey: job.StatKey{Namespace: namespace, Queue: queue, Minute: at}, Stat: *s}
		row.Lateness = slices.Clone(s.Lateness)
		queues = append(queues, row)
		add(namespace, s)
	}
	for namespace, s := range totals {
		rows = append(rows, job.StatRow{StatKey: job.StatKey{Namespace: namespace, Minute: at}, Stat: *s})
	}
	share(queues)
	m.choose(queues)
	rest := map[uuid.UUID]*job.Stat{}
	for i := range queues {
		if m.chosen[queues[i].Queue] {
			rows = append(rows, queues[i])
			continue
		}
		if rest[queues[i].Namespace] == nil {
			rest[queues[i].Namespace] = &job.Stat{}
		}
		rest[queues[i].Namespace].Add(&queues[i].Stat)
	}
	for namespace, s := range rest {
		rows = append(rows, job.StatRow{StatKey: job.StatKey{Namespace: namespace, Queue: job.StatRest, Minute: at}, Stat: *s})
	}
	return rows
}

// choose adds the first queues to those that have rows. A queue that was chosen remains: if its row were not written
// again, it would be too low.
func (m *minute) choose(queues []job.StatRow) {
	for i := range queues[:min(len(queues), job.MaxStatQueues)] {
		if len(m.chosen) < 2*job.MaxStatQueues {
			m.chosen[queues[i].Queue] = true
		}
	}
}

// share sorts the rows of queues, the busiest first. Namespaces take turns, so that one with many busy queues leaves
// rows to others.
func share(queues []job.StatRow) {
	slices.SortFunc(queues, func(a, b job.StatRow) int {
		return cmp.Or(cmp.Compare(b.Total(), a.Total()), cmp.Compare(a.Queue, b.Queue))
	})
	turns := map[uuid.UUID]int{}
	turn := make(map[int32]int, len(queues))
	for i := range queues {
		turn[queues[i].Queue] = turns[queues[i].Namespace]
		turns[queues[i].Namespace]++
	}
	slices.SortStableFunc(queues, func(a, b job.StatRow) int { return cmp.Compare(turn[a.Queue], turn[b.Queue]) })
}
