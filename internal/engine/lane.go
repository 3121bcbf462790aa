package engine

import (
	"cmp"
	"container/heap"
	"slices"
	"time"

	"github.com/belfry-dev/belfry/internal/job"
)

// laneID names what the runs of a lane have in common: the limits that they
// fall under.
type laneID struct {
	queue int32 // 0: its queue has no limit
	key   int64 // 0: no concurrency key
	max   int32 // of the key
}

// bound is a limit as a lane meets it: jobs that share a key may each have
// another maximum, and what keeps one of them need not keep the other.
type bound struct {
	job.Limit
	max int32
}

func (l laneID) bounds() (out []bound) {
	if l.queue != 0 {
		out = append(out, bound{job.QueueLimit(l.queue), 0})
	}
	if l.key != 0 {
		out = append(out, bound{job.KeyLimit(l.key), l.max})
	}
	return out
}

// laneTry is how many runs are tried under a limit of which nothing is known.
const laneTry = 50

// gate is what is known of a limit that runs wait for. Nothing is certain: the
// database decides.
type gate struct {
	full  bool
	until time.Time // when it is worth trying again; zero: when somebody says so
	try   int       // so many runs are worth trying
}

// lanes are the runs that are due and fall under limits, in the order in which
// they are to start. They are known to the wheel, and not taken. The lock of the
// wheel guards them.
type lanes struct {
	limited map[int32]bool // queues that have a limit
	of      map[laneID]*runHeap
	in      map[runKey]laneID
	gates   map[job.Limit]map[int32]*gate // by maximum, see bound
	// changed is signalled when there may be something to take.
	changed chan struct{}
}

func newLanes() lanes {
	return lanes{of: map[laneID]*runHeap{}, in: map[runKey]laneID{}, gates: map[job.Limit]map[int32]*gate{}, changed: make(chan struct{}, 1)}
}

// gate is what is known of a bound; nil: nothing.
func (l *lanes) gate(b bound) *gate { return l.gates[b.Limit][b.max] }

func (l *lanes) setGate(b bound, g *gate) {
	if l.gates[b.Limit] == nil {
		l.gates[b.Limit] = map[int32]*gate{}
	}
	l.gates[b.Limit][b.max] = g
}

func (l *lanes) signal() {
	select {
	case l.changed <- struct{}{}:
	default:
	}
}

func (l *lanes) idOf(r job.Run) laneID {
	id := laneID{key: r.ConcurrencyKey, max: r.ConcurrencyMax}
	if l.limited[r.Queue] {
		id.queue = r.Queue
	}
	return id
}

// queueUp puts a run that falls under a limit into its lane. One that is not due
// is put back until it is: what starts under a limit is claimed without lead.
// The lock is held.
func (w *wheel) queueUp(r job.Run, now time.Time) bool {
	id := w.lanes.idOf(r)
	if id == (laneID{}) {
		return false
	}
	w.yieldTurn(r)
	if r.RunAt.After(now) {
		w.putInto(slotOf(r.RunAt.Add(w.lead)), r)
		return true
	}
	w.lanes.push(id, r)
	return true
}

func (l *lanes) push(id laneID, r job.Run) {
	h := l.of[id]
	if h == nil {
		h = &runHeap{}
		l.of[id] = h
	}
	heap.Push(h, r)
	l.in[keyOf(r.Key)] = id
	l.signal()
}

// limit sets the queues that have a limit. Runs of the others are ready again.
func (w *wheel) limit(queues []int32) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lanes.limited = make(map[int32]bool, len(queues))
	for _, q := range queues {
		w.lanes.limited[q] = true
	}
	for id, h := range w.lanes.of {
		if id.queue == 0 || w.lanes.limited[id.queue] {
			continue
		}
		for _, r := range *h {
			delete(w.lanes.in, keyOf(r.Key))
			w.ready[clampPriority(r.Priority)].push(r)
		}
		delete(w.lanes.of, id)
		w.signal()
	}
}

// takeLanes hands out up to n runs that may find a place, in order, and at most one
// of a job. Each is to be given back with release, postpone or refuse. Without
// any it says after how long there may be some, if nothing happens before.
func (w *wheel) takeLanes(now time.Time, n int) (out []job.Run, wait time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	open, wait := w.lanes.open(now)
	tried := map[bound]int{}
	for len(out) < n && len(open) > 0 {
		head := open[0]
		if !w.lanes.mayTry(head.id, tried) {
			heap.Pop(&open)
			continue
		}
		r := heap.Pop(head.runs).(job.Run)
		delete(w.lanes.in, keyOf(r.Key))
		held := w.hold(r)
		if head.runs.Len() == 0 {
			delete(w.lanes.of, head.id)
			heap.Pop(&open)
		} else {
			heap.Fix(&open, 0)
		}
		if !held && w.turn(r) {
			for _, l := range head.id.bounds() {
				tried[l]++
			}
			out = append(out, r)
		}
	}
	return out, wait
}

// open lists the lanes that are not known to be closed, the first to start first.
func (l *lanes) open(now time.Time) (open laneHeap, wait time.Duration) {
	wait = placePause
	for id, h := range l.of {
		closed := false
		for _, limit := range id.bounds() {
			g := l.gate(limit)
			if g == nil || !g.full {
				continue
			}
			if !g.until.IsZero() && !g.until.After(now) {
				g.full, g.until = false, time.Time{}
				continue
			}
			closed = true
			if !g.until.IsZero() {
				wait = min(wait, g.until.Sub(now))
			}
		}
		if !closed {
			open = append(open, openLane{id, h})
		}
	}
	heap.Init(&open)
	return open, wait
}

// mayTry: one more than there should be places, so that it is known when they are all taken.
func (l *lanes) mayTry(id laneID, tried map[bound]int) bool {
	for _, limit := range id.bounds() {
		most := laneTry
		if g := l.gate(limit); g != nil {
			most = g.try + 1
		}
		if tried[limit] >= most {
			return false
		}
	}
	return true
}

// refuse takes runs back that found no place, each with what kept it.
func (w *wheel) refuse(runs []job.Run, why []job.Refusal, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, r := range runs {
		g := &gate{full: true}
		if why[i].After > 0 {
			g.until = now.Add(why[i].After)
			g.try = laneTry
		}
		b := bound{why[i].Limit, 0}
		if b.Kind == job.LimitKey {
			b.max = r.ConcurrencyMax
		} else if !w.lanes.limited[r.Queue] {
			w.lanes.limited = addTo(w.lanes.limited, r.Queue) // it is new: queuesOnce will say so too
		}
		w.lanes.setGate(b, g)
		w.lanes.push(w.lanes.idOf(r), r)
		w.free(r.Job)
	}
}

func addTo(set map[int32]bool, v int32) map[int32]bool {
	if set == nil {
		set = map[int32]bool{}
	}
	set[v] = true
	return set
}

// tried notes what came of runs that were tried: where none was refused there may be more places.
// What has to be decided one by one is not tried further for a moment.
func (w *wheel) tried(started, undecided []job.Run, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	count := map[bound]int{}
	for _, r := range started {
		for _, l := range w.lanes.idOf(r).bounds() {
			count[l]++
		}
	}
	for l, n := range count {
		if g := w.lanes.gate(l); g != nil && !g.full {
			g.try = max(2*n, 1)
		}
	}
	for _, r := range undecided {
		for _, l := range w.lanes.idOf(r).bounds() {
			if g := w.lanes.gate(l); g == nil || !g.full {
				w.lanes.setGate(l, &gate{full: true, until: now.Add(slotWidth), try: laneTry})
			}
		}
	}
}

// vacate notes that runs have ended that had places.
func (w *wheel) vacate(done []job.Completion) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, d := range done {
		for _, l := range d.Limits {
			for _, g := range w.lanes.gates[l] {
				w.lanes.vacate(g, 1)
			}
		}
	}
}

// vacate notes that there are n places more under a limit.
func (l *lanes) vacate(g *gate, n int) {
	if !g.until.IsZero() {
		return // it is a matter of time
	}
	if g.full {
		g.try = 0
	}
	g.full = false
	g.try += n
	l.signal()
}

// waiting tells which limits to ask about, up to most of them, and what waits for
// each queue. It forgets what nobody waits for.
func (w *wheel) waiting(most int) (ask []job.Limit, waits []job.Lane) {
	w.mu.Lock()
	defer w.mu.Unlock()
	used := map[bound]bool{}
	queues := map[int32]*job.Lane{}
	for id, h := range w.lanes.of {
		for _, l := range id.bounds() {
			used[l] = true
		}
		if id.queue != 0 {
			w.lanes.sum(queues, id, h)
		}
	}
	for l, gates := range w.lanes.gates { // another order each time, as maps have it
		full := false
		for limit, g := range gates {
			if !used[bound{l, limit}] {
				delete(gates, limit)
				continue
			}
			full = full || g.full && g.until.IsZero()
		}
		if len(gates) == 0 {
			delete(w.lanes.gates, l)
		}
		if full && len(ask) < most {
			ask = append(ask, l)
		}
	}
	for _, q := range queues {
		waits = append(waits, *q)
	}
	slices.SortFunc(waits, func(a, b job.Lane) int { return cmp.Compare(a.Queue, b.Queue) })
	return ask, waits
}

// sum adds a lane to what waits for its queue. What its key keeps from starting is no reason for others to wait.
func (l *lanes) sum(queues map[int32]*job.Lane, id laneID, h *runHeap) {
	q := queues[id.queue]
	if q == nil {
		q = &job.Lane{Queue: id.queue, Priority: -1}
		queues[id.queue] = q
	}
	q.Waiting += int32(h.Len())
	if g := l.gate(bound{job.KeyLimit(id.key), id.max}); g != nil && g.full {
		return
	}
	first := (*h)[0]
	if first.Priority > q.Priority || first.Priority == q.Priority && first.RunAt.Before(q.RunAt) {
		q.Priority, q.RunAt = first.Priority, first.RunAt
	}
}

// answer notes what room there is under limits that were asked about.
func (w *wheel) answer(asked []job.Limit, rooms map[job.Limit]*job.Room) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, l := range asked {
		for limit, g := range w.lanes.gates[l] {
			if n := free(rooms[l], limit); g.full && n > 0 {
				w.lanes.vacate(g, n)
			}
		}
	}
}

// free is how many places there seem to be, under a queue's limit or the maximum of a key.
func free(r *job.Room, keyMax int32) int {
	switch {
	case r == nil: // it has no limit any more
		return laneTry
	case keyMax > 0:
		return min(int(keyMax)-r.Running, laneTry)
	case r.Limits.MaxRunning > 0:
		return min(int(r.Limits.MaxRunning)-r.Running, laneTry)
	default:
		return laneTry
	}
}

func (l *lanes) remove(id laneID, k runKey) {
	h := l.of[id]
	*h = slices.DeleteFunc(*h, func(r job.Run) bool { return keyOf(r.Key) == k })
	heap.Init(h)
	if h.Len() == 0 {
		delete(l.of, id)
	}
	delete(l.in, k)
}

func (l *lanes) drop(forget func(job.Run) bool) {
	for id, h := range l.of {
		*h = slices.DeleteFunc(*h, func(r job.Run) bool {
			gone := forget(r)
			if gone {
				delete(l.in, keyOf(r.Key))
			}
			return gone
		})
		heap.Init(h)
		if h.Len() == 0 {
			delete(l.of, id)
		}
	}
}

// runHeap has the run on top that is to start first.
type runHeap []job.Run

func before(a, b *job.Run) int {
	return cmp.Or(cmp.Compare(b.Priority, a.Priority), a.RunAt.Compare(b.RunAt), a.DueAt.Compare(b.DueAt), cmp.Compare(a.Seq, b.Seq))
}

func (h runHeap) Len() int           { return len(h) }
func (h runHeap) Less(i, j int) bool { return before(&h[i], &h[j]) < 0 }
func (h runHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *runHeap) Push(x any)        { *h = append(*h, x.(job.Run)) }
func (h *runHeap) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}

type openLane struct {
	id   laneID
	runs *runHeap
}

// laneHeap has the lane on top whose first run is to start first.
type laneHeap []openLane

func (h laneHeap) Len() int           { return len(h) }
func (h laneHeap) Less(i, j int) bool { return before(&(*h[i].runs)[0], &(*h[j].runs)[0]) < 0 }
func (h laneHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *laneHeap) Push(x any)        { *h = append(*h, x.(openLane)) }
func (h *laneHeap) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}
