package wheel

import "slices"

// fifo is a first-in-first-out list.
type fifo[T any] struct {
	items []T
	head  int
}

func (f *fifo[T]) len() int { return len(f.items) - f.head }

func (f *fifo[T]) push(x T) { f.items = append(f.items, x) }

func (f *fifo[T]) pop() T {
	x := f.items[f.head]
	f.head++
	switch {
	case f.head == len(f.items):
		f.items, f.head = f.items[:0], 0
	case f.head >= 4096 && f.head*2 >= len(f.items): // give memory back now and then
		f.items, f.head = slices.Clone(f.items[f.head:]), 0
	}
	return x
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
