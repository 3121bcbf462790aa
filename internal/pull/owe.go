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
	more = more[:min(len(more), max(maxOwed-len(d.list), 0))]
	d.list = append(d.list, more...)
	for _, m := range more {
		if m.Attempt == 0 {
			d.doubtful[keyOf(m.Key)] = m.queue
		}
	}
	if !d.paying && len(d.list) > 0 {
		d.paying = true
		go p.pay()
	}
}

// settleNow writes debts, and owes them if it cannot.
func (p *Puller) settleNow(all []debt) {
	if len(all) == 0 {
		return
	}
	if err := p.payOnce(all); err != nil {
		p.Log.Warn("runs that no worker was told of cannot be given back yet", "runs", len(all), "error", err)
		p.owe(all)
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
	pause := owePause
	for part := p.debts.take(); len(part) > 0; {
		err := p.payOnce(part)
		if err == nil {
			trouble.Worked(p.Log, "runs that no worker was told of can be given back again")
			part, pause = p.debts.take(), owePause
			continue
		}
		stopped := p.isStopped()
		<-time.After(pause)
		if stopped {
			part = p.debts.take()
			continue
		}
		trouble.Failed(p.Log, "runs that no worker was told of cannot be given back", err, "runs", len(part), "again_in", pause)
		pause = min(2*pause, oweMaxPause)
	}
}

func (p *Puller) payOnce(part []debt) error {
	ctx, cancel := context.WithTimeout(context.Background(), claimLimit)
	defer cancel()
	if err := p.settleDoubts(ctx, part); err != nil {
		return err
	}
	var done []job.Completion
	for _, d := range part {
		if d.Attempt > 0 {
			done = append(done, d.Completion)
		}
	}
	if len(done) > 0 {
		if _, err := p.Store.CompletePulled(ctx, done); err != nil {
			return err
		}
	}
	ended := map[int32]map[uuid.UUID]bool{}
	for _, d := range part {
		if ended[d.queue] == nil {
			ended[d.queue] = map[uuid.UUID]bool{}
		}
		ended[d.queue][d.Key.Job] = true
	}
	for queue, jobs := range ended {
		p.hasten(queue, jobs)
	}
	return nil
}

// settleDoubts asks which attempts there are of those that are not known.
func (p *Puller) settleDoubts(ctx context.Context, part []debt) error {
	doubts := map[uuid.UUID][]job.Key{}
	for _, d := range part {
		if d.Attempt == 0 {
			doubts[d.Session] = append(doubts[d.Session], d.Key)
		}
	}
	found := map[runKey]job.Attempt{}
	for session, keys := range doubts {
		attempts, err := p.Store.Claimed(ctx, session, keys)
		if err != nil {
			return err
		}
		for _, a := range attempts {
			found[keyOf(a.Key)] = a
		}
	}
	for i := range part {
		if d := &part[i]; d.Attempt == 0 && found[keyOf(d.Key)].Session == d.Session {
			d.Attempt = found[keyOf(d.Key)].Number
		}
	}
	for _, keys := range doubts {
		p.debts.settled(keys) // what is leased nobody else gets
	}
	return nil
}
