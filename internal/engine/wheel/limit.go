package wheel

import (
	"time"

	"github.com/belfry-dev/belfry/internal/job"
)

const (
	// tryUnknown is how many runs to try under a limit that nothing is known about, or that has many permits.
	tryUnknown = 500
	// tryAgain is how many runs to try when a rate may have some permits again. Each try locks its runs, also in vain.
	tryAgain = 50
	// rateRetry is how long a node may not notice that the rate it waits for was raised or removed.
	rateRetry = time.Second
)

// limitID identifies what is known about a limit. Jobs that share a concurrency key may set different
// maxima, and one that is full for a low maximum may have capacity for a higher one.
type limitID struct {
	job.Limit
	max int32 // of a concurrency key
}

// limitState is what is known about a limit that runs wait for. It is a guess: the database decides.
type limitState struct {
	full    bool
	retryAt time.Time // when to try again; zero: when capacity is reported
	try     int       // how many runs are worth trying
}

// state returns what is known about a limit; nil: nothing.
func (l *waitlists) state(id limitID) *limitState { return l.states[id.Limit][id.max] }

func (l *waitlists) setState(id limitID, s *limitState) {
	if l.states[id.Limit] == nil {
		l.states[id.Limit] = map[int32]*limitState{}
	}
	l.states[id.Limit][id.max] = s
}

// mayTry returns whether to try another run of a list. It allows one more than there should be permits,
// so that a refusal shows when all of them are taken.
func (l *waitlists) mayTry(id listID, tried map[limitID]int) bool {
	for _, limit := range id.limits() {
		most := tryUnknown
		if s := l.state(limit); s != nil {
			most = s.try + 1
		}
		if tried[limit] >= most {
			return false
		}
	}
	return true
}

// Refused is a run that got no permit, with the reason.
type Refused struct {
	job.Run
	Why job.Refusal
}

// ReturnRefused returns runs that got no permit.
func (w *Wheel) ReturnRefused(runs []Refused, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	l := &w.waiting
	for _, r := range runs {
		namespace, known := w.namespaces[r.Queue]
		if r.Why.Quota && known {
			l.refused[namespace] = now.Add(min(r.Why.After, rateRetry))
			l.returned(r)
			w.unreserve(r.Job)
			continue
		}
		s := &limitState{full: true}
		if r.Why.After > 0 {
			// Not later than rateRetry, to notice a rate that is raised or removed in the meantime.
			s.retryAt = now.Add(min(r.Why.After, rateRetry))
			s.try = tryAgain
			if r.Why.Busy { // one node at a time grants permits, and if the database is far away, it has few turns
				s.try = tryUnknown
			}
		}
		id := limitID{r.Why.Limit, 0}
		if id.Kind == job.LimitKey {
			id.max = r.ConcurrencyMax
		}
		l.setState(id, s)
		l.returned(r)
		w.unreserve(r.Job)
	}
}

// returned puts a refused run back on its waitlist.
func (l *waitlists) returned(r Refused) {
	if r.Why.Limit.Kind == job.LimitQueue && !l.limited[r.Queue] {
		l.addLimited(r.Queue) // a new limit, which SetLimited does not know yet
	}
	l.push(l.listFor(r.Run), r.Run)
}

func (l *waitlists) addLimited(queue int32) {
	if l.limited == nil {
		l.limited = map[int32]bool{}
	}
	l.limited[queue] = true
}

// RecordClaim records the runs that no limit refused: more runs under their limits are worth trying.
func (w *Wheel) RecordClaim(accepted []job.Run) {
	w.mu.Lock()
	defer w.mu.Unlock()
	l := &w.waiting
	count := map[limitID]int{}
	for _, r := range accepted {
		for _, id := range l.listFor(r).limits() {
			count[id]++
		}
	}
	for id, n := range count {
		if s := l.state(id); s != nil && !s.full {
			s.try = max(2*n, 1)
		}
	}
}

// SetCapacity sets the capacity of limits that Report returned.
func (w *Wheel) SetCapacity(polled []job.Limit, capacity map[job.Limit]*job.Capacity) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, limit := range polled {
		for keyMax, s := range w.waiting.states[limit] {
			if n := permitsLeft(capacity[limit], keyMax); s.full && n > 0 {
				w.waiting.addPermits(s, n)
			}
		}
	}
}

// permitsLeft is how many permits there seem to be under a queue's limit or the maximum of a key.
func permitsLeft(c *job.Capacity, keyMax int32) int {
	switch {
	case c == nil: // the limit was removed
		return tryUnknown
	case keyMax > 0:
		return min(int(keyMax)-c.Running, tryUnknown)
	case c.Limits.MaxRunning > 0:
		return min(int(c.Limits.MaxRunning)-c.Running, tryUnknown)
	default:
		return tryUnknown
	}
}

// addCapacity adds n permits to a limit, whatever the maximum.
func (l *waitlists) addCapacity(limit job.Limit, n int) {
	for _, s := range l.states[limit] {
		l.addPermits(s, n)
	}
}

func (l *waitlists) addPermits(s *limitState, n int) {
	if !s.retryAt.IsZero() {
		return // refused by a rate: only time helps
	}
	if s.full {
		s.try = 0
	}
	s.full = false
	s.try += n
	signal(l.changed)
}
