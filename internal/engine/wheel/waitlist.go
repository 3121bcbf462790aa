package wheel

import (
	"container/heap"
	"maps"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/job"
)

// PermitPoll is how often a node asks about full limits while runs wait. A permit that a run on another
// node has freed may stay unused for that long.
const PermitPoll = 250 * time.Millisecond

// listID identifies a waitlist by the limits that its runs have in common.
type listID struct {
	queue int32 // 0: the queue has no limit
	key   int64 // 0: no concurrency key
	max   int32 // of the key
}

// limits returns the one or two limits of the list.
func (id listID) limits() (out []limitID) {
	if id.queue != 0 {
		out = append(out, limitID{job.QueueLimit(id.queue), 0})
	}
	if id.key != 0 {
		out = append(out, limitID{job.KeyLimit(id.key), id.max})
	}
	return out
}

// waitlists is the due runs that fall under limits. They are known to the wheel and not taken.
type waitlists struct {
	limited  map[int32]bool // queues that have a limit
	lists    map[listID]*waitlist
	listOf   map[job.RunKey]listID
	setAside map[uuid.UUID][]listID // where runs of a busy job wait
	states   map[job.Limit]map[int32]*limitState
	polled   map[job.Limit]bool      // in this turn, in which others are still to be polled
	refused  map[uuid.UUID]time.Time // until when the quota of a namespace refuses the runs of all its queues
	changed  chan struct{}
}

func newWaitlists() waitlists {
	return waitlists{
		lists:    map[listID]*waitlist{},
		listOf:   map[job.RunKey]listID{},
		setAside: map[uuid.UUID][]listID{},
		states:   map[job.Limit]map[int32]*limitState{},
		polled:   map[job.Limit]bool{},
		refused:  map[uuid.UUID]time.Time{},
		changed:  make(chan struct{}, 1),
	}
}

// WaitlistsChanged is signalled when TakeWaiting may return runs.
func (w *Wheel) WaitlistsChanged() <-chan struct{} { return w.waiting.changed }

// SetLimited sets the queues that have a limit. Waiting runs of other queues are ready again.
func (w *Wheel) SetLimited(queues []int32) {
	w.mu.Lock()
	defer w.mu.Unlock()
	l := &w.waiting
	l.limited = make(map[int32]bool, len(queues))
	for _, q := range queues {
		l.limited[q] = true
	}
	for id, list := range l.lists {
		if id.queue == 0 || l.limited[id.queue] {
			continue
		}
		for _, j := range list.jobs {
			for _, r := range j.runs {
				delete(l.listOf, r.RunKey())
				w.pushReady(r)
			}
		}
		delete(l.lists, id)
		w.Signal()
	}
}

// waitIfLimited puts a ready run that falls under a limit on its waitlist. Runs under limits are claimed
// without lead, so one that is not due yet goes back to its slot.
func (w *Wheel) waitIfLimited(r job.Run, now time.Time) bool {
	id := w.waiting.listFor(r)
	if id == (listID{}) {
		return false
	}
	w.skipTurn(r)
	if r.RunAt.After(now) {
		w.put(slotOf(r.RunAt.Add(w.lead)), r)
		return true
	}
	w.waiting.push(id, r)
	return true
}

func (l *waitlists) listFor(r job.Run) listID {
	id := listID{key: r.ConcurrencyKey, max: r.ConcurrencyMax}
	if l.limited[r.Queue] {
		id.queue = r.Queue
	}
	return id
}

func (l *waitlists) push(id listID, r job.Run) {
	list := l.lists[id]
	if list == nil {
		list = &waitlist{jobs: map[uuid.UUID]*waitingJob{}}
		l.lists[id] = list
	}
	list.push(r)
	l.listOf[r.RunKey()] = id
	signal(l.changed)
}

// TakeWaiting takes up to n runs from the waitlists that may get a permit, and at most one of each job.
// Namespaces take turns, and the runs of each are in order. The caller gives each run back with Release or one of the
// Return methods. If there is none, it returns how long to wait unless WaitlistsChanged is signalled.
func (w *Wheel) TakeWaiting(now time.Time, n int, shares Shares) (out []job.Run, wait time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	open, wait := w.open(now)
	tried := map[limitID]int{}
	for len(out) < n && open.len() > 0 {
		lists := open.pop()
		if len(*lists) == 0 || shares.Full(w.namespaces[(*lists)[0].first().Queue]) {
			continue
		}
		if r, ok := w.takeTurn(lists, tried); ok {
			shares.Took(w.namespaces[r.Queue])
			out = append(out, r)
			open.push(lists)
		}
	}
	return out, wait
}

// takeTurn takes the first run of the lists of a namespace, unless none of them has one to try.
func (w *Wheel) takeTurn(lists *listHeap, tried map[limitID]int) (r job.Run, ok bool) {
	for !ok && len(*lists) > 0 {
		first := (*lists)[0]
		if !w.waiting.mayTry(first.id, tried) {
			heap.Pop(lists)
			continue
		}
		if r, ok = w.takeFirst(first); ok {
			for _, l := range first.id.limits() {
				tried[l]++
			}
		}
		if len(first.eligible) == 0 {
			heap.Pop(lists)
		} else {
			heap.Fix(lists, 0)
		}
	}
	return r, ok
}

// takeFirst takes the first run of a list, unless its queue is paused or its job is busy.
func (w *Wheel) takeFirst(from openList) (r job.Run, ok bool) {
	l := &w.waiting
	if id := from.first().Job; w.busy[id] != nil {
		from.setFirstAside()
		l.setAside[id] = append(l.setAside[id], from.id)
		return r, false
	}
	r = from.pop()
	delete(l.listOf, r.RunKey())
	if from.size == 0 {
		delete(l.lists, from.id)
	}
	return r, !w.setAsideIfPaused(r) && w.reserve(r)
}

// open returns the lists of each namespace whose limits are not known to be full, and how long to wait if there is
// none. Which namespace is first is left to chance: there may be fewer slots than namespaces.
func (w *Wheel) open(now time.Time) (open fifo[*listHeap], wait time.Duration) {
	l := &w.waiting
	wait = PermitPoll
	maps.DeleteFunc(l.refused, func(_ uuid.UUID, until time.Time) bool { return !until.After(now) })
	of := map[uuid.UUID]*listHeap{}
	for id, list := range l.lists {
		closed := len(list.eligible) == 0
		for _, limit := range id.limits() {
			s := l.state(limit)
			if s == nil || !s.full {
				continue
			}
			if !s.retryAt.IsZero() && !s.retryAt.After(now) {
				s.full, s.retryAt = false, time.Time{}
				continue
			}
			closed = true
			if !s.retryAt.IsZero() {
				wait = min(wait, s.retryAt.Sub(now))
			}
		}
		if closed {
			continue
		}
		namespace := w.namespaces[list.first().Queue]
		if until, ok := l.refused[namespace]; ok {
			wait = min(wait, until.Sub(now))
			continue
		}
		lists := of[namespace]
		if lists == nil {
			lists = &listHeap{}
			of[namespace] = lists
			open.push(lists)
		}
		*lists = append(*lists, openList{id, list})
	}
	for _, lists := range open.items {
		heap.Init(lists)
	}
	swap := func(i, j int) { open.items[i], open.items[j] = open.items[j], open.items[i] }
	rand.Shuffle(open.len(), swap) //nolint:gosec // no secret
	return open, wait
}

// restore lets runs of a job be taken that were set aside while the job was busy.
func (l *waitlists) restore(id uuid.UUID) {
	lists, ok := l.setAside[id]
	if !ok {
		return
	}
	delete(l.setAside, id)
	for _, i := range lists {
		if list := l.lists[i]; list != nil {
			list.restore(id)
		}
	}
	signal(l.changed)
}

// delete removes runs that gone returns true for.
func (l *waitlists) delete(gone func(job.Run) bool) {
	for id, list := range l.lists {
		for of := range list.jobs {
			l.deleteFrom(id, of, gone)
		}
	}
}

// deleteFrom removes the runs of one job from one list that gone returns true for.
func (l *waitlists) deleteFrom(id listID, of uuid.UUID, gone func(job.Run) bool) {
	list := l.lists[id]
	if list == nil {
		return
	}
	list.delete(of, func(r job.Run) bool {
		if !gone(r) {
			return false
		}
		delete(l.listOf, r.RunKey())
		return true
	})
	if list.size == 0 {
		delete(l.lists, id)
	}
}
