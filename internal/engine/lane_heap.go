package engine

import (
	"cmp"
	"container/heap"
	"slices"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/job"
)

// lane is runs that wait under the same limits. Those of a job are together: at
// most one of them is taken at a time, and a hundred thousand others must be in nobody's way until it is released.
type lane struct {
	awake jobHeap // those of which none is taken, as far as is known
	jobs  map[uuid.UUID]*laneJob
	size  int // runs
}

// laneJob is the runs of a job in a lane.
type laneJob struct {
	runs runHeap
	at   int // where it is in awake; -1: it is asleep
}

// first is the run that is to start first.
func (l *lane) first() *job.Run { return &l.awake[0].runs[0] }

func (l *lane) push(r job.Run) {
	l.size++
	j := l.jobs[r.Job]
	if j == nil {
		j = &laneJob{runs: runHeap{r}}
		l.jobs[r.Job] = j
		heap.Push(&l.awake, j)
		return
	}
	heap.Push(&j.runs, r)
	if j.at >= 0 {
		heap.Fix(&l.awake, j.at)
	}
}

// pop takes the first run out.
func (l *lane) pop() job.Run {
	j := l.awake[0]
	r := heap.Pop(&j.runs).(job.Run)
	l.size--
	if len(j.runs) == 0 {
		delete(l.jobs, r.Job)
		heap.Pop(&l.awake)
	} else {
		heap.Fix(&l.awake, 0)
	}
	return r
}

// sleep puts the job of the first run aside until it is woken.
func (l *lane) sleep() { heap.Pop(&l.awake) }

func (l *lane) wake(id uuid.UUID) {
	if j := l.jobs[id]; j != nil && j.at < 0 {
		heap.Push(&l.awake, j)
	}
}

// remove takes those runs of a job out that are gone.
func (l *lane) remove(id uuid.UUID, gone func(job.Run) bool) {
	j := l.jobs[id]
	if j == nil {
		return
	}
	before := len(j.runs)
	j.runs = slices.DeleteFunc(j.runs, gone)
	l.size -= before - len(j.runs)
	switch {
	case len(j.runs) == before:
	case len(j.runs) == 0:
		delete(l.jobs, id)
		if j.at >= 0 {
			heap.Remove(&l.awake, j.at)
		}
	default:
		heap.Init(&j.runs)
		if j.at >= 0 {
			heap.Fix(&l.awake, j.at)
		}
	}
}

// before is the order in which runs start.
func before(a, b *job.Run) int {
	return cmp.Or(cmp.Compare(b.Priority, a.Priority), a.RunAt.Compare(b.RunAt), a.DueAt.Compare(b.DueAt), cmp.Compare(a.Seq, b.Seq))
}

// runHeap has the run on top that is to start first.
type runHeap []job.Run

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

// jobHeap has the job on top whose first run is to start first.
type jobHeap []*laneJob

func (h jobHeap) Len() int           { return len(h) }
func (h jobHeap) Less(i, j int) bool { return before(&h[i].runs[0], &h[j].runs[0]) < 0 }
func (h jobHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].at, h[j].at = i, j
}

func (h *jobHeap) Push(x any) {
	j := x.(*laneJob)
	j.at = len(*h)
	*h = append(*h, j)
}

func (h *jobHeap) Pop() any {
	old := *h
	x := old[len(old)-1]
	x.at = -1
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return x
}

type openLane struct {
	id laneID
	*lane
}

// laneHeap has the lane on top whose first run is to start first.
type laneHeap []openLane

func (h laneHeap) Len() int           { return len(h) }
func (h laneHeap) Less(i, j int) bool { return before(h[i].first(), h[j].first()) < 0 }
func (h laneHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *laneHeap) Push(x any)        { *h = append(*h, x.(openLane)) }
func (h *laneHeap) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}
