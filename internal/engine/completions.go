package engine

import (
	"sync"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/share"
)

// completions is the outcomes that wait to be written. Namespaces take turns, so that one with many outcomes does not
// delay those of the others.
type completions struct {
	most  int
	share *share.Pool
	added chan struct{} // signalled when there are some
	ended chan struct{} // closed by close

	mu    sync.Mutex
	room  sync.Cond // signalled when some were taken
	lines map[uuid.UUID][]job.Completion
	ring  []uuid.UUID // the namespaces that have a line, in the order of their turns
}

// newCompletions returns an empty queue of a size, of which at most this many are taken at once.
func newCompletions(size, most int) *completions {
	q := &completions{
		most: most, share: share.New(int64(size)), added: make(chan struct{}, 1), ended: make(chan struct{}),
		lines: map[uuid.UUID][]job.Completion{},
	}
	q.room.L = &q.mu
	return q
}

// put adds an outcome. It blocks while the namespace has its share of the queue.
func (q *completions) put(namespace uuid.UUID, c job.Completion) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.share.Take(namespace, 1) != nil {
		q.room.Wait()
	}
	line := q.lines[namespace]
	if line == nil {
		q.ring = append(q.ring, namespace)
	}
	q.lines[namespace] = append(line, c)
	q.signal()
}

func (q *completions) signal() {
	select {
	case q.added <- struct{}{}:
	default:
	}
}

// take takes outcomes. While several namespaces wait, it takes at most a tenth of them of each, so that the outcomes of
// the others are not part of a long transaction.
func (q *completions) take() (out []job.Completion) {
	q.mu.Lock()
	defer q.mu.Unlock()
	n, most := q.most, q.most
	if len(q.ring) > 1 {
		most = max(n/10, 1)
	}
	for i := len(q.ring); i > 0 && len(out) < n; i-- {
		namespace := q.ring[0]
		q.ring = q.ring[1:]
		line := q.lines[namespace]
		k := min(most, n-len(out), len(line))
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
		q.signal() // for the next completer
	}
	return out
}

// close says that no more are put.
func (q *completions) close() { close(q.ended) }

// drained returns whether there are none and will be none.
func (q *completions) drained() bool {
	select {
	case <-q.ended:
	default:
		return false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.ring) == 0
}
