package engine

import (
	"cmp"
	"slices"

	"github.com/belfry-dev/belfry/internal/job"
)

// waiting tells which limits to ask about, up to most of them and each in its turn, and what waits for
// each queue. It forgets what nobody waits for.
func (w *wheel) waiting(most int) (ask []job.Limit, waits []job.WaiterReport) {
	w.mu.Lock()
	defer w.mu.Unlock()
	used := map[bound]bool{}
	queues := map[int32]*job.WaiterReport{}
	for id, in := range w.lanes.of {
		for _, l := range id.bounds() {
			used[l] = true
		}
		if id.queue != 0 {
			w.lanes.sum(queues, id, in)
		}
	}
	left := false
	for l, gates := range w.lanes.gates {
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
		switch {
		case !full || w.lanes.asked[l]:
		case len(ask) < most:
			ask = append(ask, l)
			w.lanes.asked[l] = true
		default:
			left = true
		}
	}
	if !left {
		clear(w.lanes.asked)
	}
	for _, q := range queues {
		waits = append(waits, *q)
	}
	slices.SortFunc(waits, func(a, b job.WaiterReport) int { return cmp.Compare(a.Queue, b.Queue) })
	return ask, waits
}

// sum adds a lane to what waits for its queue. What its key keeps from starting is no reason for others to wait.
func (l *lanes) sum(queues map[int32]*job.WaiterReport, id laneID, in *lane) {
	q := queues[id.queue]
	if q == nil {
		q = &job.WaiterReport{Queue: id.queue, Priority: -1}
		queues[id.queue] = q
	}
	q.Waiting += int32(in.size)
	if g := l.gate(bound{job.KeyLimit(id.key), id.max}); g != nil && g.full || len(in.awake) == 0 {
		return
	}
	first := in.first()
	if first.Priority > q.Priority || first.Priority == q.Priority && first.RunAt.Before(q.RunAt) {
		q.Priority, q.RunAt = first.Priority, first.RunAt
	}
}

// answer notes what room there is under limits that were asked about.
func (w *wheel) answer(asked []job.Limit, rooms map[job.Limit]*job.Capacity) {
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
func free(r *job.Capacity, keyMax int32) int {
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
