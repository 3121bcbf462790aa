package engine

import (
	"context"
	"errors"
	"time"

	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/loop"
)

// Completer is the store as complete and rescue use it.
type Completer interface {
	CompleteSucceeded(ctx context.Context, done []job.Completion) (fenced int, err error)
	CompleteDecided(ctx context.Context, done []job.Completion) (retries []job.Run, fenced int, err error)
	Rescue(ctx context.Context, partitions []int16, limit int) (retries []job.Run, found int, err error)
	// PauseFailing pauses jobs that have failed too often, and returns how many jobs it looked at.
	PauseFailing(ctx context.Context, limit int) (int, error)
	// ResumePaused resumes jobs whose pause ends, and returns how many it resumed.
	ResumePaused(ctx context.Context, partitions []int16, limit int) (int, error)
	// RescueWorkers does the same for workers that are dead, in all partitions.
	RescueWorkers(ctx context.Context, limit int) (retries []job.Run, found int, err error)
}

const (
	// completeDelay is how long a completion waits for others, because small batches cost more per run. A node that
	// dies meanwhile leaves a run that is delivered again, so it is short.
	completeDelay = 2 * time.Millisecond
	completeRetry = 200 * time.Millisecond
	// decidedBatch is how many other outcomes, of which many take a statement each, are written at once. Those that
	// come later wait meanwhile.
	decidedBatch = 200
)

// complete writes outcomes in batches: those that came in while the last batch was being written, and
// those of the next completeDelay. Successes are a queue of their own: they are written together in one statement, and do
// not wait for other outcomes, which cost more, such as those of runs that are deferred again and again.
func (e *Engine) complete(ctx context.Context, q *turns[job.Completion]) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	var batch []job.Completion
	for open := true; open; {
		batch, open = e.collect(timer, q, batch)
		batch = e.completeBatch(ctx, batch, open)
	}
}

// collect adds outcomes to those that were set aside, and returns whether there may be more. If some were set aside, it
// waits no longer than completeRetry for others.
func (e *Engine) collect(timer *time.Timer, q *turns[job.Completion], batch []job.Completion) ([]job.Completion, bool) {
	wait := time.Hour
	if len(batch) > 0 {
		wait = completeRetry
	}
	timer.Reset(wait)
	select {
	case <-q.added:
		timer.Reset(completeDelay)
		select {
		case <-timer.C:
		case <-q.ended:
		}
	case <-timer.C:
	case <-q.ended:
	}
	return append(batch, q.take(q.most, nil)...), !q.drained()
}

// completeBatch writes a batch, and retries until the database accepts it: a known outcome must not be
// lost. Writing it twice is harmless, because the second one is fenced.
//
// While the clock is in doubt, the database accepts only successes. What it refuses is set aside and returned, so that
// the successes that come later are written. It is not much, because nothing is claimed meanwhile.
func (e *Engine) completeBatch(ctx context.Context, batch []job.Completion, maySetAside bool) (aside []job.Completion) {
	var succeeded, others []job.Completion
	for _, c := range batch {
		if plainSuccess(&c) {
			succeeded = append(succeeded, c)
		} else {
			others = append(others, c)
		}
	}
	aside = batch[:0]
	loop.Loop{
		Name: "complete", Log: e.Log, OnFailure: e.Observe.Failed, Limit: statementLimit,
		Attrs:   []any{"runs", len(batch)},
		Backoff: loop.Backoff{Min: completeRetry, Max: completeRetry},
		Once: func(ctx context.Context) (time.Duration, error) {
			err := e.completeOnce(ctx, &succeeded, &others)
			if err != nil && maySetAside && e.Bound.Doubt() != "" {
				aside = append(append(aside, succeeded...), others...)
				err = nil
			}
			if err != nil {
				return 0, err
			}
			return 0, loop.ErrDone
		},
	}.Run(ctx)
	return aside
}

// plainSuccess returns whether there is nothing to write but that the run succeeded.
func plainSuccess(c *job.Completion) bool {
	return c.Outcome.Kind == job.Succeeded && c.Outcome.Message == "" && c.Outcome.Output == ""
}

// completeOnce writes both kinds of completions and empties what it has written.
func (e *Engine) completeOnce(ctx context.Context, succeeded, others *[]job.Completion) error {
	if len(*succeeded) > 0 {
		fenced, err := e.Completer.CompleteSucceeded(ctx, *succeeded)
		if err != nil {
			return err
		}
		e.countCompleted(len(*succeeded), fenced)
		e.forget(succeeded)
	}
	if len(*others) > 0 {
		retries, fenced, err := e.Completer.CompleteDecided(ctx, *others)
		if err != nil {
			return err
		}
		e.countCompleted(len(*others), fenced)
		e.stats.retried.Add(int64(len(retries)))
		owned := retries[:0]
		for _, r := range retries {
			if e.Member.Owns(r.Partition) {
				owned = append(owned, r)
			}
		}
		e.add(ctx, owned)
		e.forget(others)
	}
	return nil
}

// forget empties completions that are written: their attempts are no longer in flight.
func (e *Engine) forget(written *[]job.Completion) {
	e.inFlight.removeAll(*written)
	e.wheel.RunsEnded(*written)
	*written = nil
}

const (
	failingPause = 200 * time.Millisecond
	failingLimit = 20 // jobs in one round
	resumePause  = time.Second
	resumeLimit  = 200 // jobs in one round, each in its own transaction
)

// pauseOnce pauses jobs that have failed too often, and resumes jobs of its own partitions whose pause ends. It asks the
// database about ends of pauses once in resumePause, and about failures only if a job has failed. A failure of one does
// not stop the other.
func (e *Engine) pauseOnce(ctx context.Context) (time.Duration, error) {
	paused, err := e.Completer.PauseFailing(ctx, failingLimit)
	more := paused == failingLimit
	if now := clock.Elapsed(); now-e.resumed >= resumePause {
		resumed, resumeErr := e.Completer.ResumePaused(ctx, e.Member.Owned(), resumeLimit)
		if err = errors.Join(err, resumeErr); resumed < resumeLimit {
			e.resumed = now
		} else {
			more = true
		}
	}
	if more {
		return 0, err
	}
	return failingPause, err
}

func (e *Engine) countCompleted(n, fenced int) {
	e.stats.completed.Add(int64(n - fenced))
	if fenced > 0 {
		e.stats.fenced.Add(int64(fenced))
		e.Log.Warn("outcomes fenced: their attempts are no longer live", "runs", fenced)
	}
}
