package engine

import (
	"context"
	"sync"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/job"
)

// A claim that failed may have been committed all the same: the connection died
// before the answer came. Its runs are then leased to this session, which lives,
// so nobody rescues them, and nobody delivers them. Whoever claimed them has to ask.

// doubt is claims of which that is not known. It belongs to the claim loop.
type doubt struct {
	session uuid.UUID
	runs    []job.Run
}

// doubtful remembers runs whose claim failed.
func (e *Engine) doubtful(session uuid.UUID, runs []job.Run) {
	if e.doubt.session != session {
		e.forget()
	}
	e.doubt.session = session
	e.doubt.runs = append(e.doubt.runs, runs...)
}

// forget takes doubtful runs for unclaimed. Right for those of a session that is
// over: if they were claimed, they are rescued.
func (e *Engine) forget() {
	e.wheel.add(e.doubt.runs)
	e.doubt = doubt{}
}

// resolve asks which of the doubtful runs were claimed, and delivers those; the
// others go back to the wheel.
func (e *Engine) resolve(ctx context.Context) error {
	if e.doubt.session != e.Member.Session() {
		e.forget()
	}
	n := e.slots.acquire(len(e.doubt.runs))
	if n == 0 {
		return nil
	}
	runs := e.doubt.runs[:n]
	keys := make([]job.Key, n)
	for i, r := range runs {
		keys[i] = r.Key
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keyLimit)
	defer cancel()
	attempts, err := e.Claimer.Claimed(ctx, e.doubt.session, keys)
	if err != nil {
		e.slots.release(n)
		return err
	}
	claimed := 0
	for _, a := range attempts {
		if e.start(a) {
			claimed++
		}
	}
	e.slots.release(n - claimed)
	e.wheel.add(runs) // asking about one that was claimed is harmless
	e.doubt.runs = e.doubt.runs[n:]
	return nil
}

// start hands an attempt to the deliverers, unless it is under way already.
func (e *Engine) start(a job.Attempt) bool {
	if !e.flight.add(a) {
		return false
	}
	e.claimed <- a // never blocks: as many places as slots
	e.stats.claimed.Add(1)
	return true
}

// flight is the attempts under way, from claim to complete.
type flight struct {
	mu       sync.Mutex
	attempts map[job.Key]int16
}

func (f *flight) add(a job.Attempt) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	k := keyOf(a.Key)
	if n, ok := f.attempts[k]; ok && n == a.Number {
		return false
	}
	f.attempts[k] = a.Number
	return true
}

// remove leaves a later attempt of the same run alone.
func (f *flight) remove(done []job.Completion) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range done {
		if k := keyOf(c.Key); f.attempts[k] == c.Attempt {
			delete(f.attempts, k)
		}
	}
}
