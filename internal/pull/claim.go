package pull

import (
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/clock"
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
	known  map[string]bool     // handlers of the polls
	late   int                 // queue.late when it began
	// claimed are the runs for each poll.
	claimed [][]job.Claimed
	blocked bool               // it blocked a run, so another claim finds others
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
		q.advanceMarks(r, out)
		for _, refused := range out.Refused {
			b := blockedRun{due: refused.Due}
			if b.refuse(refused.Refusal); b.key != (line{}) {
				r.blocked = q.block(b) || r.blocked
			}
		}
		for _, due := range out.Waiting {
			b := blockedRun{due: due}
			b.refuse(job.Refusal{})
			r.blocked = q.block(b) || r.blocked
		}
		for _, due := range out.Undecided {
			r.blocked = q.block(blockedRun{due: due}) || r.blocked
		}
		q.admit(limited, r)
	}
	err = q.decideKeys(limited, r.claimed)
	more = q.finish(r, out)
	q.reply(r, nil)
	return more, err
}

// decideKeys decides the idempotency keys of runs that have none yet, and stores those that an expression gave before
// any worker receives a run. Runs without a key fail, and runs whose key may not be stored are returned.
func (q *queue) decideKeys(ctx context.Context, claimed [][]job.Claimed) (err error) {
	var made []*job.Attempt
	for _, runs := range claimed {
		for i := range runs {
			if runs[i].MakeKey() {
				made = append(made, &runs[i].Attempt)
			}
		}
	}
	if len(made) > 0 {
		err = q.puller.Store.PullKeepKeys(ctx, q.namespace, q.id, made)
	}
	var back []undelivered
	for i := range claimed {
		claimed[i] = slices.DeleteFunc(claimed[i], func(c job.Claimed) bool {
			outcome := c.WithoutKey()
			if c.KeyProblem == "" {
				outcome = notDelivered("its idempotency key could not be stored")
			}
			keep := c.KeyProblem == "" && (err == nil || c.KeyExpression == "")
			if !keep {
				back = append(back, undelivered{job.Completion{
					Key: c.Key, Attempt: c.Number, Session: c.Session, Namespace: q.namespace, Queue: q.id, Outcome: outcome,
				}, q.id})
			}
			return !keep
		})
	}
	q.puller.returnNow(ctx, back)
	return err
}

// begin chooses the polls of a claim and prepares its parameters. A claim has at most one poll of a session,
// because the database only knows which session it has leased a run to.
func (q *queue) begin() *round {
	q.mu.Lock()
	defer q.mu.Unlock()
	r := &round{known: map[string]bool{}, late: q.late, params: job.PullClaimParams{
		Namespace: q.namespace, Queue: q.id, Limit: maxCandidates, Ahead: scanPause, Skip: q.skipped().filter(),
	}}
	sessions := map[uuid.UUID]bool{}
	q.rounds++
	for _, p := range q.polls {
		if len(r.polls) == maxPolls || sessions[p.Session] {
			continue
		}
		p.round, p.claiming, sessions[p.Session] = q.rounds, true, true
		r.polls, r.params.Polls = append(r.polls, p), append(r.params.Polls, p.Poll)
		for _, h := range p.Handlers {
			r.known[h] = true
		}
	}
	r.params.Waits = q.waits(r.known)
	for _, k := range feedsOf(r.known) {
		r.params.Feeds = append(r.params.Feeds, k.feed(q.id, q.feeds[k].mark))
	}
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
func (q *queue) advanceMarks(r *round, out job.PullClaimResult) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i, f := range r.params.Feeds {
		if known := q.feeds[feedKey{f.Handler, f.Priority}]; known != nil {
			known.read(f.Mark, out.Now, out.Marks[i], q.late != r.late)
		}
	}
}

// admit decides about blocked runs, one by one.
func (q *queue) admit(ctx context.Context, r *round) {
	q.mu.Lock()
	turns := q.retryBlocked(q.skipped(), r.known)
	q.mu.Unlock()
	size, began := payloadBytes(r.claimed), clock.Elapsed()
	count := func(poll int) int { return len(r.claimed[poll]) }
	for n := 0; len(turns) > 0; {
		next := turns[:0]
		for _, t := range turns {
			poll := job.Choose(r.params.Polls, t.runs[0].due.Handler, count)
			late := clock.Elapsed()-began > claimLimit/2 // later ones could be in doubt when the claim ends
			if n >= maxAdmits || late || size >= job.MaxClaimBytes || poll < 0 {
				continue
			}
			n++
			started, rest := q.admitOne(ctx, t.runs, r.params.Polls[poll].Session)
			if started != nil {
				r.claimed[poll] = append(r.claimed[poll], *started)
				size += len(started.Payload)
			}
			if t.runs = rest; len(rest) > 0 {
				next = append(next, t)
			}
		}
		turns = next
	}
}

// admitOne decides about the first run of a line, and returns the others that may be able to start now. If it waits for
// another run of its job, so do those of its job that are due later, but the line's key may have a permit for others.
func (q *queue) admitOne(
	ctx context.Context, runs []*blockedRun, session uuid.UUID,
) (started *job.Claimed, rest []*blockedRun) {
	b := *runs[0]
	out, err := q.puller.Store.PullAdmit(ctx, q.namespace, q.id, session, b.due)
	if out.Done {
		q.unblock(b.due.Key)
		return out.Claimed, runs[1:]
	}
	b.refuse(out.Refusal)
	q.block(b)
	if err != nil {
		// The run may have been leased all the same, and its worker would not know.
		q.puller.Log.Warn("admission of a run for a worker failed", "run", job.FormatRunID(b.due.Key), "error", err)
		q.puller.returnLater(ctx, []undelivered{unresolved(b.due.Key, session, q)}, nil)
	} else if out.Refusal == (job.Refusal{}) {
		rest = slices.DeleteFunc(runs[1:], func(o *blockedRun) bool {
			return o.due.Job == b.due.Job && b.due.CompareDue(o.due.Key) < 0
		})
	}
	return nil, rest
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
	some := r.blocked || out.Skipped > 0 ||
		slices.ContainsFunc(r.claimed, func(runs []job.Claimed) bool { return len(runs) > 0 })
	unserved := slices.ContainsFunc(q.polls, func(p *longPoll) bool { return p.round <= q.claimableIn })
	q.claimable = !out.Paused && !q.atLimit && (some || unserved)
	if !out.Next.IsZero() {
		q.setClaimableAt(out.Next)
	}
	q.noteKeys(r.claimed)
	return q.claimable
}

// reply replies to the polls that got runs or are over. The others wait on, behind those that the claim was
// not for.
func (q *queue) reply(r *round, err error) {
	p, n := q.puller, 0
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
	}
}

func setOf[T comparable](list []T) map[T]bool {
	out := make(map[T]bool, len(list))
	for _, v := range list {
		out[v] = true
	}
	return out
}
