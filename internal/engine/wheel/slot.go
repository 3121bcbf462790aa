package wheel

import (
	"slices"

	"github.com/belfry-dev/belfry/internal/job"
)

// fifo is a first-in-first-out list of runs.
type fifo struct {
	runs []job.Run
	head int
}

func (f *fifo) len() int { return len(f.runs) - f.head }

func (f *fifo) push(r job.Run) { f.runs = append(f.runs, r) }

func (f *fifo) pop() job.Run {
	r := f.runs[f.head]
	f.head++
	switch {
	case f.head == len(f.runs):
		f.runs, f.head = f.runs[:0], 0
	case f.head >= 4096 && f.head*2 >= len(f.runs): // give memory back now and then
		f.runs, f.head = slices.Clone(f.runs[f.head:]), 0
	}
	return r
}

// slotHeap is a min-heap of slots.
type slotHeap []int64

func (h slotHeap) Len() int           { return len(h) }
func (h slotHeap) Less(i, j int) bool { return h[i] < h[j] }
func (h slotHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *slotHeap) Push(x any)        { *h = append(*h, x.(int64)) }
func (h *slotHeap) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}
