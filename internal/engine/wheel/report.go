package wheel

import (
	"cmp"
	"slices"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/job"
)

// Report returns up to most limits that are full and should be polled, and what waits for up to most queues.
// With more full limits than that, each is returned once before any is returned again. With more queues,
// chance decides, and namespaces take turns. Report also forgets the state of limits that no run waits for.
func (w *Wheel) Report(most int) (full []job.Limit, waiters []job.WaiterReport) {
	w.mu.Lock()
	defer w.mu.Unlock()
	l := &w.waiting
	l.forgetStates()
	full = l.nextPoll(most)
	queues := map[int32]*job.WaiterReport{}
	for id, list := range l.lists {
		if id.queue != 0 {
			l.addToReport(queues, id, list)
		}
	}
	turn, turns := map[int32]int{}, map[uuid.UUID]int{} // of queues, and how many a namespace has
	for _, q := range queues {
		waiters = append(waiters, *q)
		turn[q.Queue] = turns[w.namespaces[q.Queue]]
		turns[w.namespaces[q.Queue]]++
	}
	if len(waiters) > most {
		slices.SortFunc(waiters, func(a, b job.WaiterReport) int { return cmp.Compare(turn[a.Queue], turn[b.Queue]) })
		waiters = waiters[:most]
	}
	slices.SortFunc(waiters, func(a, b job.WaiterReport) int { return cmp.Compare(a.Queue, b.Queue) })
	return full, waiters
}

// forgetStates removes the state of limits that no list is under.
func (l *waitlists) forgetStates() {
	used := map[limitID]bool{}
	for id := range l.lists {
		for _, limit := range id.limits() {
			used[limit] = true
		}
	}
	for limit, states := range l.states {
		for keyMax := range states {
			if !used[limitID{limit, keyMax}] {
				delete(states, keyMax)
			}
		}
		if len(states) == 0 {
			delete(l.states, limit)
		}
	}
}

// nextPoll returns up to most full limits that were not polled in this turn. Limits that wait for a
// rate are not polled: they are retried at a known time.
func (l *waitlists) nextPoll(most int) (out []job.Limit) {
	more := false
	for limit, states := range l.states {
		full := false
		for _, s := range states {
			full = full || s.full && s.retryAt.IsZero()
		}
		switch {
		case !full || l.polled[limit]:
		case len(out) < most:
			out = append(out, limit)
			l.polled[limit] = true
		default:
			more = true
		}
	}
	if !more {
		clear(l.polled)
	}
	return out
}

// addToReport adds a list to the report of its queue. Runs that their concurrency key keeps from starting
// count as waiting, but other nodes need not give way to them.
func (l *waitlists) addToReport(queues map[int32]*job.WaiterReport, id listID, list *waitlist) {
	q := queues[id.queue]
	if q == nil {
		q = &job.WaiterReport{Queue: id.queue, Priority: -1}
		queues[id.queue] = q
	}
	q.Waiting += int32(list.size)
	if s := l.state(limitID{job.KeyLimit(id.key), id.max}); s != nil && s.full || len(list.eligible) == 0 {
		return
	}
	first := list.first()
	if first.Priority > q.Priority || first.Priority == q.Priority && first.RunAt.Before(q.RunAt) {
		q.Priority, q.RunAt = first.Priority, first.RunAt
	}
}
