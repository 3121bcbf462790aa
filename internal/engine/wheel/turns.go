package wheel

import (
	"slices"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/job"
)

// maxQueues is how many queues the wheel knows the namespace of.
const maxQueues = 100_000

// turns is the ready runs. Namespaces take turns, so that one with many due runs, whatever their priority, does not
// delay the others. The runs of a namespace are in order of priority, and those of the same priority first in, first out.
type turns struct {
	lines map[uuid.UUID]*line
	ring  []*line // in the order of their turns
	next  int
	size  int
	spare *line // an empty one, whose memory is used again
}

// line is the runs of one namespace.
type line struct {
	namespace uuid.UUID
	runs      [job.MaxPriority + 1]fifo
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
		t.ring = append(t.ring, l)
	}
	l.push(r)
	t.size++
}

func (t *turns) pop() job.Run {
	l := t.ring[t.next]
	r := l.pop()
	t.size--
	if l.size == 0 {
		t.spare = l
		delete(t.lines, l.namespace)
		t.ring = slices.Delete(t.ring, t.next, t.next+1)
	} else {
		t.next++
	}
	if t.next >= len(t.ring) {
		t.next = 0
	}
	return r
}

func (t *turns) delete(gone func(job.Run) bool) {
	old := t.ring
	*t = turns{}
	for _, l := range old {
		for l.size > 0 {
			if r := l.pop(); !gone(r) {
				t.push(l.namespace, r)
			}
		}
	}
}

// SetNamespaces notes which namespaces the queues of attempts belong to. Queues of which that is not known, because no
// run of them was claimed yet, share one turn.
func (w *Wheel) SetNamespaces(attempts []job.Attempt) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range attempts {
		a := &attempts[i]
		if _, ok := w.namespaces[a.Queue]; ok || a.Namespace == uuid.Nil { // its job was deleted
			continue
		}
		if len(w.namespaces) >= maxQueues {
			clear(w.namespaces)
		}
		w.namespaces[a.Queue] = a.Namespace
	}
}
