package engine

import (
	"sync"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/share"
)

// turns is a queue, such as that of outcomes to write. Namespaces take turns, so that one with many entries does not
// delay those of the others.
type turns[T any] struct {
	most  int
	share *share.Pool
	added chan struct{} // signalled when there are some
	ended chan struct{} // closed by close

	mu    sync.Mutex
	room  sync.Cond // signalled when some were taken
	lines map[uuid.UUID][]T
	ring  []uuid.UUID // the namespaces that have a line, in the order of their turns
}

// newTurns returns an empty queue of a size, of which at most this many are taken at once.
func newTurns[T any](size, most int) *turns[T] {
	q := &turns[T]{
		most: most, share: share.New(int64(size)), added: make(chan struct{}, 1), ended: make(chan struct{}),
		lines: map[uuid.UUID][]T{},
	}
	q.room.L = &q.mu
	return q
}

// put adds an entry. It blocks while the namespace has its share of the queue.
func (q *turns[T]) put(namespace uuid.UUID, entry T) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for !q.add(namespace, entry) {
		q.room.Wait()
	}
}

// offer adds an entry, or returns false if the namespace has its share of the queue.
func (q *turns[T]) offer(namespace uuid.UUID, entry T) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.add(namespace, entry)
}

func (q *turns[T]) add(namespace uuid.UUID, entry T) bool {
	if q.share.Take(namespace, 1) != nil {
		return false
	}
	line := q.lines[namespace]
	if line == nil {
		q.ring = append(q.ring, namespace)
	}
	q.lines[namespace] = append(line, entry)
	q.signal()
	return true
}

func (q *turns[T]) signal() {
	select {
	case q.added <- struct{}{}:
	default:
	}
}

// take takes up to n entries, and of each namespace as many as the function says; nil: any number. While several wait, it
// takes at most a tenth of them of each, so that the outcomes of the others are not part of a long transaction.
func (q *turns[T]) take(n int, limit func(namespace uuid.UUID) int) (out []T) {
	q.mu.Lock()
	defer q.mu.Unlock()
	most := n
	if len(q.ring) > 1 {
		most = max(n/10, 1)
	}
	for i := len(q.ring); i > 0 && len(out) < n; i-- {
		namespace := q.ring[0]
		q.ring = q.ring[1:]
		line := q.lines[namespace]
		k := min(most, n-len(out), len(line))
		if limit != nil {
			k = min(k, limit(namespace))
		}
		out = append(out, line[:k]...)
		q.share.Give(namespace, int64(k))
		if line = line[k:]; len(line) > 0 {
			q.lines[namespace] = line
			q.ring = append(q.ring, namespace)
		} else {
			delete(q.lines, namespace)
		}
	}
	q.room.Broadcast()
	if len(q.ring) > 0 {
		q.signal() // for the next caller
	}
	return out
}

// len is how many entries there are.
func (q *turns[T]) len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return int(q.share.Used())
}

// close says that no more are put.
func (q *turns[T]) close() { close(q.ended) }

// drained returns whether there are none and will be none.
func (q *turns[T]) drained() bool {
	select {
	case <-q.ended:
	default:
		return false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.ring) == 0
}
