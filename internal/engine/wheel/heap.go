package wheel

import (
	"cmp"
	"container/heap"
	"slices"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/job"
)

// waitlist is runs that wait under the same limits. It groups them by job: at most one run of a job is
// taken at a time, and a hundred thousand others must not be in the way until it is returned.
type waitlist struct {
	eligible jobHeap // jobs that are not known to be busy
	jobs     map[uuid.UUID]*waitingJob
	size     int // runs
}

// waitingJob is the runs of a job on a waitlist.
type waitingJob struct {
	runs  runHeap
	index int // in eligible; -1: the job is set aside
}

// first is the run that starts first.
func (l *waitlist) first() *job.Run { return &l.eligible[0].runs[0] }

func (l *waitlist) push(r job.Run) {
	l.size++
	j := l.jobs[r.Job]
	if j == nil {
		j = &waitingJob{runs: runHeap{r}}
		l.jobs[r.Job] = j
		heap.Push(&l.eligible, j)
		return
	}
	heap.Push(&j.runs, r)
	if j.index >= 0 {
		heap.Fix(&l.eligible, j.index)
	}
}

// pop removes and returns the first run.
func (l *waitlist) pop() job.Run {
	j := l.eligible[0]
	r := heap.Pop(&j.runs).(job.Run)
	l.size--
	if len(j.runs) == 0 {
		delete(l.jobs, r.Job)
		heap.Pop(&l.eligible)
	} else {
		heap.Fix(&l.eligible, 0)
	}
	return r
}

// setFirstAside sets the job of the first run aside until restore.
func (l *waitlist) setFirstAside() { heap.Pop(&l.eligible) }

func (l *waitlist) restore(id uuid.UUID) {
	if j := l.jobs[id]; j != nil && j.index < 0 {
		heap.Push(&l.eligible, j)
	}
}

// delete removes runs of a job that gone returns true for.
func (l *waitlist) delete(id uuid.UUID, gone func(job.Run) bool) {
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
		if j.index >= 0 {
			heap.Remove(&l.eligible, j.index)
		}
	default:
		heap.Init(&j.runs)
		if j.index >= 0 {
			heap.Fix(&l.eligible, j.index)
		}
	}
}

// compareRuns orders runs by when they start: priority first, then time.
func compareRuns(a, b *job.Run) int {
	return cmp.Or(
		cmp.Compare(b.Priority, a.Priority),
		a.RunAt.Compare(b.RunAt), a.DueAt.Compare(b.DueAt), cmp.Compare(a.Seq, b.Seq),
	)
}

// runHeap has the run on top that starts first.
type runHeap []job.Run

func (h runHeap) Len() int           { return len(h) }
func (h runHeap) Less(i, j int) bool { return compareRuns(&h[i], &h[j]) < 0 }
func (h runHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *runHeap) Push(x any)        { *h = append(*h, x.(job.Run)) }
func (h *runHeap) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}

// jobHeap has the job on top whose first run starts first.
type jobHeap []*waitingJob

func (h jobHeap) Len() int           { return len(h) }
func (h jobHeap) Less(i, j int) bool { return compareRuns(&h[i].runs[0], &h[j].runs[0]) < 0 }
func (h jobHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

func (h *jobHeap) Push(x any) {
	j := x.(*waitingJob)
	j.index = len(*h)
	*h = append(*h, j)
}

func (h *jobHeap) Pop() any {
	old := *h
	x := old[len(old)-1]
	x.index = -1
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return x
}

type openList struct {
	id listID
	*waitlist
}

// listHeap has the list on top whose first run starts first.
type listHeap []openList

func (h listHeap) Len() int           { return len(h) }
func (h listHeap) Less(i, j int) bool { return compareRuns(h[i].first(), h[j].first()) < 0 }
func (h listHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *listHeap) Push(x any)        { *h = append(*h, x.(openList)) }
func (h *listHeap) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}
