package pull

import (
	"context"
	"maps"
	"time"

	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/telemetry"
)

const (
	lookPause = 200 * time.Millisecond
	// lookAhead is how early a look sees a run, so that its claim is on time.
	lookAhead = time.Second
	maxLooked = 2000 // lanes in one statement
	// failedPause is after a look that failed, at most.
	failedPause = 2 * time.Second
)

// look finds out which queues that somebody waits for have runs that are due,
// all with one statement. It ends when nobody waits.
func (p *Puller) look() {
	timer := time.NewTimer(lookPause)
	defer timer.Stop()
	var trouble telemetry.Trouble
	for pause := lookPause; ; {
		some, err := p.lookOnce()
		if err != nil {
			pause = min(2*pause, failedPause)
			trouble.Failed(p.Log, "look for due runs failed", err, "again_in", pause)
		} else {
			pause = lookPause
			trouble.Worked(p.Log, "look for due runs works again")
		}
		if !some && p.lookedOut() {
			return
		}
		p.await(timer, pause, err != nil)
	}
}

// await pauses. A poll that comes ends the pause, but looks keep a distance.
func (p *Puller) await(timer *time.Timer, d time.Duration, failed bool) {
	timer.Reset(d)
	select {
	case <-timer.C:
		return
	case <-p.wake:
	}
	// Who comes to a lane that was just looked at can wait for the next look.
	if failed || !p.unknown() {
		<-timer.C
	}
}

// unknown says whether somebody waits for a lane of which nothing is known.
func (p *Puller) unknown() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, q := range p.queues {
		q.mu.Lock()
		for h := range q.awaited() {
			if q.lanes[laneKey{h, 0}].mark.IsZero() {
				q.mu.Unlock()
				return true
			}
		}
		q.mu.Unlock()
	}
	return false
}

// lookedOut ends the looker if nobody waits.
func (p *Puller) lookedOut() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.looking = p.waiting > 0 && !p.stopped
	return !p.looking
}

func (p *Puller) isStopped() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stopped
}

// place is a lane that is looked at.
type place struct {
	queue *queue
	key   laneKey
}

// lookOnce looks at all lanes that somebody waits for, and says whether there are
// any.
func (p *Puller) lookOnce() (some bool, err error) {
	p.mu.Lock()
	queues := make([]*queue, 0, len(p.queues))
	for _, q := range p.queues {
		queues = append(queues, q)
	}
	p.mu.Unlock()
	var lanes []job.Feed
	var places []place
	skip, limit := map[runKey]bool{}, 1
	flush := func() error {
		if len(lanes) == 0 {
			return nil
		}
		some = true
		err := p.lookAt(lanes, places, job.PollParams{Ahead: lookAhead, Limit: limit, Skip: leaveOut(skip)})
		lanes, places, skip, limit = nil, nil, map[runKey]bool{}, 1
		return err
	}
	for _, q := range queues {
		l, s, n := q.looks(p.Bound.Now())
		for _, one := range l {
			lanes, places = append(lanes, one), append(places, place{q, laneKey{one.Handler, one.Priority}})
		}
		maps.Copy(skip, s)
		limit = max(limit, n+1)
		if len(lanes) >= maxLooked {
			if err := flush(); err != nil {
				return some, err
			}
		}
	}
	err = flush()
	return some, err
}

// looks lists the lanes that are to be looked at, what is to be left out, and how
// many that are.
func (q *queue) looks(now time.Time) (lanes []job.Feed, skip map[runKey]bool, n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.line) == 0 {
		return nil, nil, 0
	}
	elapsed := clock.Elapsed()
	handlers := q.awaited()
	for _, k := range lanesOf(handlers) {
		lanes = append(lanes, job.Feed{Queue: q.id, Handler: k.handler, Priority: k.priority, Mark: q.lanes[k].from(now, elapsed)})
	}
	skip = q.apart()
	for k, p := range q.parked {
		if skip[k] && p.at <= elapsed && handlers[p.due.Handler] {
			q.heat()
		}
	}
	if q.hot {
		q.poke()
	}
	return lanes, skip, len(skip)
}

// lookAt sends the statement, and wakes the queues that have something due.
func (p *Puller) lookAt(lanes []job.Feed, places []place, o job.PollParams) error {
	ctx, cancel := context.WithTimeout(context.Background(), claimLimit)
	defer cancel()
	now, first, err := p.Store.LookDue(ctx, lanes, o)
	p.counts.looks.Add(1)
	if err != nil {
		return err
	}
	for i, at := range places {
		q := at.queue
		q.mu.Lock()
		if known := q.lanes[at.key]; known != nil {
			known.looked(now, first[i])
		}
		switch {
		case first[i].IsZero():
		case !first[i].After(now):
			q.heat()
		default:
			q.soon(first[i])
		}
		q.mu.Unlock()
	}
	return nil
}

// soon wakes the queue when a run of it is due, and not a look later. The lock is held.
func (q *queue) soon(at time.Time) {
	wait := q.puller.Bound.Until(at)
	if wait > lookPause {
		return // the next look is before that
	}
	time.AfterFunc(wait, func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.heat()
	})
}
