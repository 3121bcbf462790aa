package pull

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/loop"
)

const (
	// The pause after a failed return, which doubles up to the maximum.
	returnPause    = 100 * time.Millisecond
	maxReturnPause = 2 * time.Second
	// maxUndelivered is how many undelivered runs a node remembers. Others are left to the rescue.
	maxUndelivered = 10_000
)

// undelivered is a run that is leased to a session whose worker never received it, and how its attempt ends.
// The session is alive, so no other node ends the attempt.
type undelivered struct {
	job.Completion       // Attempt 0: the claim is unresolved, the run may not be leased at all
	queue          int32 // may have runs that wait for this one
}

// notDelivered is the outcome of an attempt that never reached a worker. The worker certainly did nothing, so
// the attempt does not count and the run is available immediately, also under at_most_once.
func notDelivered(reason string) job.Outcome { return job.Outcome{Kind: job.Snoozed, Message: reason} }

// unresolved is a run that may have been leased to a session: the reply was lost.
func unresolved(k job.Key, session uuid.UUID, q *queue) undelivered {
	outcome := notDelivered("the database's reply was lost before the worker received the run")
	return undelivered{
		job.Completion{Key: k, Session: session, Namespace: q.namespace, Queue: q.id, Outcome: outcome}, q.id,
	}
}

// undeliveredRuns are the runs that this node has to return.
type undeliveredRuns struct {
	mu        sync.Mutex
	list      []undelivered
	returning bool
	// unresolved are the runs with an unresolved claim, and their queues. They must not be claimed again
	// before the answer: the same session could get the run, and returning would take it away again.
	unresolved map[job.RunKey]int32
}

// unresolvedOf lists the runs of a queue with an unresolved claim.
func (u *undeliveredRuns) unresolvedOf(queue int32) (out []job.RunKey) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for k, q := range u.unresolved {
		if q == queue {
			out = append(out, k)
		}
	}
	return out
}

// resolved removes runs whose claim is resolved.
func (u *undeliveredRuns) resolved(runs []undelivered) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, r := range runs {
		delete(u.unresolved, r.Key.RunKey())
	}
}

// add appends runs. The caller holds the lock.
func (u *undeliveredRuns) add(more []undelivered) {
	u.list = append(u.list, more...)
	for _, r := range more {
		if r.Attempt == 0 {
			u.unresolved[r.Key.RunKey()] = r.queue
		}
	}
}

// putBack appends runs that could not be returned.
func (u *undeliveredRuns) putBack(left []undelivered) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.add(left)
}

// take removes up to maxBatch runs from the list. If there is none, the loop that returns them ends.
func (u *undeliveredRuns) take() []undelivered {
	u.mu.Lock()
	defer u.mu.Unlock()
	n := min(len(u.list), maxBatch)
	part := u.list[:n:n]
	u.list, u.returning = u.list[n:], n > 0
	return part
}

// drop forgets all runs and returns how many there were.
func (u *undeliveredRuns) drop() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	n := len(u.list)
	u.list = nil
	clear(u.unresolved)
	return n
}

// returnNow returns runs, and retries in the background if that fails.
func (p *Puller) returnNow(ctx context.Context, runs []undelivered) {
	if len(runs) == 0 {
		return
	}
	if left, err := p.returnRuns(ctx, runs); len(left) > 0 {
		p.returnLater(ctx, left, err)
	}
}

// returnLater returns runs in the background, until the database accepts them. The error is why that failed
// already, or nil.
func (p *Puller) returnLater(ctx context.Context, runs []undelivered, err error) {
	u := &p.undelivered
	u.mu.Lock()
	defer u.mu.Unlock()
	n := min(len(runs), max(maxUndelivered-len(u.list), 0))
	if n < len(runs) {
		p.leaveToRescue(len(runs)-n, "too many runs are undelivered")
	}
	u.add(runs[:n])
	if u.returning || len(u.list) == 0 {
		return
	}
	u.returning = true
	ctx = context.WithoutCancel(ctx)
	if l := p.returnLoop(); err != nil {
		go l.RunAfter(ctx, err)
	} else {
		go l.Run(ctx)
	}
}

// leaveToRescue logs that runs are not returned. They end with their workers' sessions, or by their timeout.
func (p *Puller) leaveToRescue(n int, reason string) {
	p.Log.Warn("undelivered runs left to the rescue", "runs", n, "reason", reason)
}

// returner is the loop that returns undelivered runs, with what it remembers from round to round.
type returner struct {
	*Puller
	accepted bool // by the database, in the last round
	last     bool // the node has stopped, so the next failure is the last
}

// returnLoop returns undelivered runs until none is left. After Stop it retries once more.
func (p *Puller) returnLoop() loop.Loop {
	r := &returner{Puller: p}
	return loop.Loop{
		Name: "worker_return", Title: "return of undelivered runs", Once: r.once,
		Backoff: loop.Backoff{Min: returnPause, Max: maxReturnPause},
		Ready:   func() bool { return r.accepted }, Log: p.Log, OnFailure: p.Observe.Failed,
	}
}

func (r *returner) once(ctx context.Context) (time.Duration, error) {
	r.accepted = false
	part := r.undelivered.take()
	if len(part) == 0 {
		return 0, loop.ErrDone
	}
	left, err := r.returnRuns(ctx, part)
	r.undelivered.putBack(left)
	switch {
	case err == nil:
		r.accepted, r.last = true, false
		return 0, nil
	case r.last && len(left) == len(part):
		r.leaveToRescue(r.undelivered.drop(), "the node is stopping: "+err.Error())
		return 0, nil
	default:
		r.last = r.isStopped()
		return 0, fmt.Errorf("%d runs: %w", len(left), err)
	}
}

// returnRuns resolves and completes runs. It returns those that are left, after an error or because one round
// does not resolve that many. What it has resolved stays resolved.
func (p *Puller) returnRuns(ctx context.Context, runs []undelivered) (left []undelivered, err error) {
	leased, left, err := p.resolve(ctx, runs)
	if len(leased) == 0 {
		return left, err
	}
	done := make([]job.Completion, len(leased))
	for i, r := range leased {
		done[i] = r.Completion
	}
	ctx, cancel := context.WithTimeout(ctx, claimLimit)
	defer cancel()
	results, failed := p.Store.CompletePulled(ctx, done)
	if failed != nil {
		return append(left, leased...), failed
	}
	ended := map[int32][]job.Key{}
	for i, r := range results {
		if r.Err != nil { // of another namespace than the others
			left, err = append(left, leased[i]), cmp.Or(err, r.Err)
			continue
		}
		ended[leased[i].queue] = append(ended[leased[i].queue], leased[i].Key)
	}
	for queue, keys := range ended {
		p.runsEnded(queue, keys)
	}
	return left, err
}
