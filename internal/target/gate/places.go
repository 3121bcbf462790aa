package gate

import (
	"container/list"
	"time"
)

// The bounds of what is remembered.
const (
	maxPlaces = 10_000
	memory    = 15 * time.Minute // of a place that nobody has asked about; longer than any rest
)

// places are those that something is known about: all that are busy, and of the
// others the last ones that were used, maxPlaces together. Finding and forgetting
// one takes the same time however many there are.
type places struct {
	by map[Place]*place
	// idle and resting are those that nobody uses now, the one that was used longest
	// ago first. Of maxPlaces each may have half, so that a flood of new places ends
	// no rest, and many that rest leave room to learn about others.
	idle, resting list.List
}

// find a place, which is busy until settle is told otherwise.
func (s *places) find(to Place, now time.Duration) *place {
	p := s.by[to]
	if p != nil {
		s.wake(p)
		return p
	}
	s.trim(now, maxPlaces-1)
	p = &place{name: to, moved: now}
	s.by[to] = p
	return p
}

// wake takes a place from those that nobody uses.
func (s *places) wake(p *place) {
	if p.in != nil {
		p.in.Remove(p.element)
		p.in, p.element = nil, nil
	}
}

// settle puts a place to the others that nobody uses, if nobody does.
func (s *places) settle(p *place, now time.Duration) {
	if p.underWay > 0 || len(p.line) > 0 {
		return
	}
	s.wake(p)
	p.used, p.in = now, &s.idle
	if p.rest != 0 {
		p.in = &s.resting
	}
	p.element = p.in.PushBack(p)
	s.trim(now, maxPlaces)
}

// trim forgets those that nobody has used for long, and more until there are no
// more than most.
func (s *places) trim(now time.Duration, most int) {
	for _, l := range []*list.List{&s.idle, &s.resting} {
		for first := l.Front(); first != nil && now-of(first).used >= memory; first = l.Front() {
			s.forget(of(first))
		}
	}
	for len(s.by) > most {
		from := &s.idle
		if from.Len() == 0 || s.resting.Len() > maxPlaces/2 {
			from = &s.resting
		}
		if from.Len() == 0 {
			return // all are busy
		}
		s.forget(of(from.Front()))
	}
}

func (s *places) forget(p *place) {
	s.wake(p)
	delete(s.by, p.name)
}

func of(e *list.Element) *place {
	return e.Value.(*place) //nolint:forcetypeassert // nothing else is put there
}
