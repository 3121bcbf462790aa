package pull

import (
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/job"
)

// Limits of one claim.
const (
	maxPolls      = 200
	maxCandidates = 1000 // runs of one feed
	maxAdmits     = 50   // decisions
)

// round is one claim for several polls of a queue.
type round struct {
	polls  []*longPoll
	params job.PullClaimParams // Polls[i] is of polls[i]
	retry  []job.Assignment    // blocked runs that may be able to start by now
	// claimed are the runs for each poll.
	claimed [][]job.Claimed
	expired map[uuid.UUID]bool // sessions
}

// claim claims once for the polls that wait. It returns true if another claim may find more.
func (q *queue) claim(ctx context.Context) (more bool, err error) {
	r := q.begin()
	if len(r.polls) == 0 {
		return false, nil
	}
	p := q.puller
	release, err := p.claims.take(ctx, q.namespace)
	if err != nil {
		q.reply(r, err)
		return false, err
	}
	defer release()
	limited, cancel := context.WithTimeout(ctx, claimLimit)
	defer cancel()
	out, err := p.Store.PullClaim(limited, r.params)
	p.counters.claims.Add(1)
	if err != nil {
		q.reply(r, err)
		return false, fmt.Errorf("%d workers: %w", len(r.polls), err)
	}
	r.collect(out)
	if !out.Paused {
		q.advanceMarks(r.params.Feeds, out)
		for _, refused := range out.Refused {
			if refused.Refusal.Limit.Kind == job.LimitKey {
				q.block(refused.Due, blockedPause)
			}
		}
		q.admit(limited, r, append(r.retry, out.Undecided...))
	}
	p.rejectKeyless(ctx, q, r.claimed)
	more = q.finish(r, out)
	q.reply(r, nil)
	return more, nil
}

// begin chooses the polls of a claim and prepares its parameters. A claim has at most one poll of a session,
// because the database only knows which session it has leased a run to.
func (q *queue) begin() *round {
	q.mu.Lock()
	defer q.mu.Unlock()
	skip := q.skipped()
	r := &round{params: job.PullClaimParams{
		Namespace: q.namespace, Queue: q.id, Limit: maxCandidates, Ahead: scanPause, Skip: skip.filter(),
	}}
	handlers, sessions := map[string]bool{}, map[uuid.UUID]bool{}
	q.rounds++
	for _, p := range q.polls {
		if len(r.polls) == maxPolls || sessions[p.Session] {
			continue
		}
		p.round, p.claiming, sessions[p.Session] = q.rounds, true, true
		r.polls, r.params.Polls = append(r.polls, p), append(r.params.Polls, p.Poll)
		for _, h := range p.Handlers {
			handlers[h] = true
		}
	}
	for _, k := range feedsOf(handlers) {
		r.params.Feeds = append(r.params.Feeds, k.feed(q.id, q.feeds[k].mark))
	}
	r.retry = q.retryBlocked(skip, r.params.Polls)
	return r
}

// collect sorts the claimed runs by poll.
func (r *round) collect(out job.PullClaimResult) {
	r.claimed = make([][]job.Claimed, len(r.polls))
	r.expired = setOf(out.Expired)
	index := make(map[uuid.UUID]int, len(r.polls))
	for i := range r.params.Polls {
		p := &r.params.Polls[i]
		index[p.Session] = i
		if r.expired[p.Session] {
			p.Max = 0 // PullClaim refuses sessions in their last second; PullAdmit would not
		}
	}
	for _, c := range out.Claimed {
		i := index[c.Session]
		r.claimed[i] = append(r.claimed[i], c)
	}
}

// advanceMarks moves the marks of feeds to what the claim has left.
func (q *queue) advanceMarks(feeds []job.Feed, out job.PullClaimResult) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i, f := range feeds {
		if known := q.feeds[feedKey{f.Handler, f.Priority}]; known != nil {
			known.claimed(out.Now, out.Marks[i])
		}
	}
}

// admit decides about runs whose policy needs it, one by one.
func (q *queue) admit(ctx context.Context, r *round, runs []job.Assignment) {
	size := payloadBytes(r.claimed)
	for n, d := range runs {
		poll := r.params.Polls[d.Poll]
		if n >= maxAdmits || len(r.claimed[d.Poll]) >= poll.Max || size >= job.MaxClaimBytes {
			q.block(d.Due, 0)
			continue
		}
		claimed, done, err := q.puller.Store.PullAdmit(ctx, q.namespace, q.id, poll.Session, d.Due)
		switch {
		case err != nil:
			// The run may have been leased all the same, and its worker would not know.
			q.puller.Log.Warn("admission of a run for a worker failed", "run", job.FormatRunID(d.Key), "error", err)
			q.block(d.Due, blockedPause)
			lost := unresolved(d.Key, poll.Session, q)
			q.puller.returnLater(ctx, []undelivered{lost}, nil)
		case claimed != nil:
			r.claimed[d.Poll] = append(r.claimed[d.Poll], *claimed)
			size += len(claimed.Payload)
			q.unblock(d.Key)
		case done:
			q.unblock(d.Key)
		default:
			q.block(d.Due, blockedPause)
		}
	}
}

func payloadBytes(claimed [][]job.Claimed) (n int) {
	for _, runs := range claimed {
		for _, r := range runs {
			n += len(r.Payload)
		}
	}
	return n
}

// finish decides whether another claim may find more. If not, the next one waits for a scan.
func (q *queue) finish(r *round, out job.PullClaimResult) (more bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.atLimit = slices.ContainsFunc(out.Refused, func(r job.RefusedRun) bool {
		return r.Refusal.Limit.Kind == job.LimitQueue
	})
	some := slices.ContainsFunc(r.claimed, func(runs []job.Claimed) bool { return len(runs) > 0 })
	unserved := slices.ContainsFunc(q.polls, func(p *longPoll) bool { return p.round <= q.claimableIn })
	q.claimable = !out.Paused && !q.atLimit && (some || unserved)
	if !out.Next.IsZero() {
		q.setClaimableAt(out.Next)
	}
	return q.claimable
}

// reply replies to the polls that got runs or are over. The others wait on, behind those that the claim was
// not for.
func (q *queue) reply(r *round, err error) {
	p := q.puller
	now, n := p.Bound.Now(), 0
	q.mu.Lock()
	for i, poll := range r.polls {
		poll.claiming = false
		if at := slices.Index(q.polls, poll); at >= 0 {
			q.polls = slices.Delete(q.polls, at, at+1)
		}
		var out reply
		switch {
		case err != nil:
			out.err = err
		case r.expired[poll.Session]:
			out.err = job.ErrSessionExpired
		default:
			out.runs = r.claimed[i]
		}
		if out.err == nil && len(out.runs) == 0 && !q.closed && !poll.timedOut {
			q.polls = append(q.polls, poll)
			continue
		}
		q.removeHandlers(poll.Handlers)
		poll.reply <- out
		n++
	}
	q.mu.Unlock()
	p.polls.Give(q.namespace, int64(n))
	for _, runs := range r.claimed {
		p.counters.claimed.Add(int64(len(runs)))
		for _, c := range runs {
			p.Observe.Started(c.Queue, now.Sub(c.RunAt))
		}
	}
}

func setOf[T comparable](list []T) map[T]bool {
	out := make(map[T]bool, len(list))
	for _, v := range list {
		out[v] = true
	}
	return out
}
