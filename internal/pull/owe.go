package pull

import (
	"context"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/telemetry"
)

const (
	owePause    = 100 * time.Millisecond // after a failure, growing
	oweMaxPause = 2 * time.Second
	// maxOwed bounds what a node remembers. More than that is found by the rescue
	// of runs that their workers have forgotten.
	maxOwed = 10_000
	// maxAsked is about how many sessions one round asks; the others are for the next.
	maxAsked = 100
)

// debt is an attempt that is leased to a session whose worker was never told of
// it, and what becomes of it. The session lives, so nobody else will end it.
type debt struct {
	job.Completion       // its attempt is 0 if it is not known whether there is one
	queue          int32 // whose runs may wait for this one
}

// untold is the outcome of an attempt that no worker was told of. Nothing was done,
// for certain: it is free, and the run is for the next one at once, also where an
// outcome that is not known would end it.
func untold(why string) job.Outcome { return job.Outcome{Kind: job.Snoozed, Message: why} }

// doubt is a run that may have been leased to a session: the answer was lost.
func doubt(k job.Key, session uuid.UUID, queue int32) debt {
	return debt{job.Completion{Key: k, Session: session, Outcome: untold("the database's answer was lost before the worker got the run")}, queue}
}

// debts are what this node has to write before others get the runs.
type debts struct {
	mu     sync.Mutex
	list   []debt
	paying bool
	// doubtful are the runs of doubts, and their queues. Nobody asks about them: the
	// same session might get what its doubt then takes for its own.
	doubtful map[runKey]int32
}

// of lists the doubtful runs of a queue.
func (d *debts) of(queue int32) (out []runKey) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for k, q := range d.doubtful {
		if q == queue {
			out = append(out, k)
		}
	}
	return out
}

func (d *debts) settled(keys []job.Key) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, k := range keys {
		delete(d.doubtful, keyOf(k))
	}
}

// owe has debts written, until the database takes them.
func (p *Puller) owe(more []debt) {
	d := &p.debts
	d.mu.Lock()
	defer d.mu.Unlock()
	n := min(len(more), max(maxOwed-len(d.list), 0))
	if n < len(more) {
		p.abandon(len(more)-n, "too many are owed")
	}
	d.add(more[:n])
	if !d.paying && len(d.list) > 0 {
		d.paying = true
		go p.pay()
	}
}

// abandon says that runs are not given back: they end with their workers'
// sessions, or by their timeout.
func (p *Puller) abandon(n int, why string) {
	p.Log.Warn("runs that no worker was told of are left to the rescue", "runs", n, "because", why)
}

// add puts debts behind the others. The lock is held.
func (d *debts) add(more []debt) {
	d.list = append(d.list, more...)
	for _, m := range more {
		if m.Attempt == 0 {
			d.doubtful[keyOf(m.Key)] = m.queue
		}
	}
}

// back puts debts behind the others that could not be paid.
func (d *debts) back(left []debt) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.add(left)
}

// drop forgets all, and says how many they were.
func (d *debts) drop() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := len(d.list)
	d.list = nil
	clear(d.doubtful)
	return n
}

// settleNow writes debts, and owes them if it cannot.
func (p *Puller) settleNow(all []debt) {
	if len(all) == 0 {
		return
	}
	if left, err := p.payOnce(all); len(left) > 0 {
		p.Log.Warn("runs that no worker was told of cannot be given back yet", "runs", len(left), "error", err)
		p.owe(left)
	}
}

// take takes what is owed; none: the payer ends.
func (d *debts) take() []debt {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := min(len(d.list), maxBatch)
	part := d.list[:n:n]
	d.list, d.paying = d.list[n:], n > 0
	return part
}

// pay writes what is owed. A node that has stopped tries once more.
func (p *Puller) pay() {
	var trouble telemetry.Trouble
	pause, last := owePause, false
	for part := p.debts.take(); len(part) > 0; part = p.debts.take() {
		left, err := p.payOnce(part)
		p.debts.back(left)
		if err == nil {
			trouble.Worked(p.Log, "runs that no worker was told of can be given back again")
			pause, last = owePause, false
			continue
		}
		if last && len(left) == len(part) {
			p.abandon(p.debts.drop(), "the node stops: "+err.Error())
			continue
		}
		last = p.isStopped()
		trouble.Failed(p.Log, "runs that no worker was told of cannot be given back", err, "runs", len(left), "again_in", pause)
		<-time.After(pause)
		pause = min(2*pause, oweMaxPause)
	}
}

// payOnce writes debts, and returns those that are left: after an error, or because
// they were too many. What was found out about them stays.
func (p *Puller) payOnce(part []debt) (left []debt, err error) {
	known, left, err := p.settleDoubts(part)
	if len(known) == 0 {
		return left, err
	}
	done := make([]job.Completion, len(known))
	ended := map[int32]map[uuid.UUID]bool{}
	for i, d := range known {
		done[i] = d.Completion
		if ended[d.queue] == nil {
			ended[d.queue] = map[uuid.UUID]bool{}
		}
		ended[d.queue][d.Key.Job] = true
	}
	ctx, cancel := context.WithTimeout(context.Background(), claimLimit)
	defer cancel()
	if _, failed := p.Store.CompletePulled(ctx, done); failed != nil {
		return append(left, known...), failed
	}
	for queue, jobs := range ended {
		p.hasten(queue, jobs)
	}
	return left, err
}

// settleDoubts asks which attempts there are of those that are not known, one
// session after the other, until one is not answered: that one is the last of
// what is left, for it may be the only one.
func (p *Puller) settleDoubts(part []debt) (known, left []debt, err error) {
	var sessions []uuid.UUID
	doubts := map[uuid.UUID][]debt{}
	for _, d := range part {
		if d.Attempt > 0 {
			known = append(known, d)
			continue
		}
		if doubts[d.Session] == nil {
			sessions = append(sessions, d.Session)
		}
		doubts[d.Session] = append(doubts[d.Session], d)
	}
	var unanswered []debt
	for n, session := range sessions {
		own := doubts[session]
		if err != nil || n >= maxAsked {
			left = append(left, own...)
			continue
		}
		var found []debt
		if found, err = p.ask(session, own); err != nil {
			unanswered = own
		}
		known = append(known, found...)
	}
	return known, append(left, unanswered...), err
}

// ask asks about the doubts of one session, and returns those that were right.
func (p *Puller) ask(session uuid.UUID, doubts []debt) (found []debt, err error) {
	keys := make([]job.Key, len(doubts))
	for i, d := range doubts {
		keys[i] = d.Key
	}
	ctx, cancel := context.WithTimeout(context.Background(), claimLimit)
	defer cancel()
	attempts, err := p.Store.Claimed(ctx, session, keys)
	if err != nil {
		return nil, err
	}
	numbers := map[runKey]int16{}
	for _, a := range attempts {
		numbers[keyOf(a.Key)] = a.Number
	}
	jobs := map[uuid.UUID]bool{}
	for _, d := range doubts {
		if d.Attempt = numbers[keyOf(d.Key)]; d.Attempt > 0 {
			found = append(found, d)
		} else {
			jobs[d.Key.Job] = true
		}
	}
	p.debts.settled(keys) // what is leased nobody else gets
	p.hasten(doubts[0].queue, jobs)
	return found, nil
}
