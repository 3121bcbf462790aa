package wheel

import (
	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/job"
)

// maxQueues is how many queues the wheel knows the namespace of: 40 MB.
const maxQueues = 1_000_000

// turns is the ready runs. Namespaces take turns, so that one with many due runs, whatever their priority, does not
// delay the others. The runs of a namespace are in order of priority, and those of the same priority first in, first out.
type turns struct {
	lines map[uuid.UUID]*line
	order fifo[*line] // of their turns
	full  []*line     // set aside by turn
	size  int
	spare *line // an empty one, whose memory is used again
}

// line is the runs of one namespace.
type line struct {
	namespace uuid.UUID
	runs      [job.MaxPriority + 1]fifo[job.Run]
	size      int
}

func (l *line) push(r job.Run) {
	l.runs[min(max(r.Priority, 0), job.MaxPriority)].push(r)
	l.size++
}

func (l *line) pop() job.Run {
	p := len(l.runs) - 1
	for l.runs[p].len() == 0 {
		p--
	}
	l.size--
	return l.runs[p].pop()
}

func (t *turns) push(namespace uuid.UUID, r job.Run) {
	l := t.lines[namespace]
	if l == nil {
		if l = t.spare; l == nil {
			l = &line{}
		}
		l.namespace, t.spare = namespace, nil
		if t.lines == nil {
			t.lines = map[uuid.UUID]*line{}
		}
		t.lines[namespace] = l
		t.order.push(l)
	}
	l.push(r)
	t.size++
}

// Shares says how many runs of each namespace may be taken.
type Shares interface {
	Full(namespace uuid.UUID) bool
	Took(namespace uuid.UUID) // called for each run that is taken
}

// turn moves to the next namespace that is not full. It returns false if there is none. It sets full ones aside until
// restore: with many of them, it would take long to pass all of them for each run.
func (t *turns) turn(shares Shares) bool {
	for t.order.len() > 0 {
		if !shares.Full(t.order.items[t.order.head].namespace) {
			return true
		}
		t.full = append(t.full, t.order.pop())
	}
	return false
}

// restore ends the turns of one claim.
func (t *turns) restore() {
	for _, l := range t.full {
		t.order.push(l)
	}
	clear(t.full)
	t.full = t.full[:0]
}

// pop removes a run of the namespace whose turn it is.
func (t *turns) pop() (namespace uuid.UUID, r job.Run) {
	l := t.order.pop()
	namespace, r = l.namespace, l.pop()
	t.size--
	if l.size == 0 {
		t.spare = l
		delete(t.lines, l.namespace)
	} else {
		t.order.push(l)
	}
	return namespace, r
}

func (t *turns) delete(gone func(job.Run) bool) {
	old := *t
	*t = turns{}
	for old.size > 0 {
		if namespace, r := old.pop(); !gone(r) {
			t.push(namespace, r)
		}
	}
}

// Unknown returns the queues of runs whose namespace the wheel does not know. Until SetNamespaces, they share one turn.
func (w *Wheel) Unknown(runs []job.Run) (queues []int32) {
	w.mu.Lock()
	defer w.mu.Unlock()
	last := int32(-1)
	for i := range runs {
		q := runs[i].Queue
		if q == last { // as most are
			continue
		}
		if _, ok := w.namespaces[q]; !ok {
			queues = append(queues, q)
		}
		last = q
	}
	return queues
}

// SetNamespaces notes which namespaces queues belong to, which never changes.
func (w *Wheel) SetNamespaces(of map[int32]uuid.UUID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for queue, namespace := range of {
		if len(w.namespaces) >= maxQueues {
			for other := range w.namespaces { // any one
				delete(w.namespaces, other)
				break
			}
		}
		w.namespaces[queue] = namespace
	}
}

// Namespace returns the namespace of a queue, or uuid.Nil if the wheel does not know it.
func (w *Wheel) Namespace(queue int32) uuid.UUID {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.namespaces[queue]
}
