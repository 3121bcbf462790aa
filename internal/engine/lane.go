package engine

import (
	"container/heap"
	"time"

	"github.com/google/uuid"

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

// ratePause is how long a node may not know that a rate that keeps it waiting has been raised or lifted.
const ratePause = time.Second

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
	of      map[laneID]*lane
	in      map[runKey]laneID
	asleep  map[uuid.UUID][]laneID        // where runs of a job wait for another of it that is taken
	gates   map[job.Limit]map[int32]*gate // by maximum, see bound
	asked   map[job.Limit]bool            // in this turn, in which others are still to be asked about
	// changed is signalled when there may be something to take.
	changed chan struct{}
}

func newLanes() lanes {
	return lanes{of: map[laneID]*lane{}, in: map[runKey]laneID{}, asleep: map[uuid.UUID][]laneID{}, gates: map[job.Limit]map[int32]*gate{}, asked: map[job.Limit]bool{}, changed: make(chan struct{}, 1)}
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
	in := l.of[id]
	if in == nil {
		in = &lane{jobs: map[uuid.UUID]*laneJob{}}
		l.of[id] = in
	}
	in.push(r)
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
	for id, in := range w.lanes.of {
		if id.queue == 0 || w.lanes.limited[id.queue] {
			continue
		}
		for _, j := range in.jobs {
			for _, r := range j.runs {
				delete(w.lanes.in, keyOf(r.Key))
				w.ready[clampPriority(r.Priority)].push(r)
			}
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
		if r, ok := w.takeFirst(head); ok {
			for _, l := range head.id.bounds() {
				tried[l]++
			}
			out = append(out, r)
		}
		if len(head.awake) == 0 {
			heap.Pop(&open)
		} else {
			heap.Fix(&open, 0)
		}
	}
	return out, wait
}

// takeFirst takes the first run of a lane, unless its queue is paused or another of its job is taken. The lock is held.
func (w *wheel) takeFirst(from openLane) (r job.Run, ok bool) {
	if id := from.first().Job; w.busy[id] != nil {
		from.sleep()
		w.lanes.asleep[id] = append(w.lanes.asleep[id], from.id)
		return r, false
	}
	r = from.pop()
	delete(w.lanes.in, keyOf(r.Key))
	if from.size == 0 {
		delete(w.lanes.of, from.id)
	}
	return r, !w.hold(r) && w.turn(r)
}

// open lists the lanes that are not known to be closed, the first to start first.
func (l *lanes) open(now time.Time) (open laneHeap, wait time.Duration) {
	wait = placePause
	for id, in := range l.of {
		closed := len(in.awake) == 0
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
			open = append(open, openLane{id, in})
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
			// Not later: a rate that is raised or lifted meanwhile is heeded soon.
			g.until = now.Add(min(why[i].After, ratePause))
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

// remove takes those runs of a job out of a lane that are gone.
func (l *lanes) remove(id laneID, of uuid.UUID, gone func(job.Run) bool) {
	in := l.of[id]
	if in == nil {
		return
	}
	in.remove(of, func(r job.Run) bool {
		if !gone(r) {
			return false
		}
		delete(l.in, keyOf(r.Key))
		return true
	})
	if in.size == 0 {
		delete(l.of, id)
	}
}

func (l *lanes) drop(forget func(job.Run) bool) {
	for id, in := range l.of {
		for of := range in.jobs {
			l.remove(id, of, forget)
		}
	}
}

// wake lets runs of a job be taken again that were put aside because another one was.
func (l *lanes) wake(id uuid.UUID) {
	ids, ok := l.asleep[id]
	if !ok {
		return
	}
	delete(l.asleep, id)
	for _, i := range ids {
		if in := l.of[i]; in != nil {
			in.wake(id)
		}
	}
	l.signal()
}
