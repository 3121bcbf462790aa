package engine

import (
	"context"
	"time"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/loop"
)

const (
	completeDelay = 5 * time.Millisecond // how long a completion waits for company
	completeRetry = 200 * time.Millisecond
)

// complete writes outcomes in batches: those that came while the last batch was
// being written, and at most completeDelay more.
func (e *Engine) complete(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	var batch []job.Completion
	for first := range e.completed {
		batch = append(batch[:0], first)
		timer.Reset(completeDelay)
	collect:
		for len(batch) < e.Batch {
			select {
			case c, ok := <-e.completed:
				if !ok {
					break collect
				}
				batch = append(batch, c)
			case <-timer.C:
				break collect
			}
		}
		e.write(ctx, batch)
		e.wheel.hasten(batch)
		e.wheel.vacate(batch)
	}
}

// write completes a batch, again and again until the database takes it: an
// outcome that is known must not be lost. Twice is harmless, it is fenced.
func (e *Engine) write(ctx context.Context, batch []job.Completion) {
	var succeeded, others []job.Completion
	for _, c := range batch {
		if c.Outcome.Kind == job.Succeeded && c.Outcome.Message == "" && c.OwnKey == "" && c.Outcome.Output == "" { // else there is more to write
			succeeded = append(succeeded, c)
		} else {
			others = append(others, c)
		}
	}
	loop.Loop{
		Name: "complete", Log: e.Log, OnFailure: e.Observe.Failed, Limit: keyLimit,
		Attrs:   []any{"runs", len(batch)},
		Backoff: loop.Backoff{Min: completeRetry, Max: completeRetry},
		Once: func(ctx context.Context) (time.Duration, error) {
			if err := e.writeOnce(ctx, &succeeded, &others); err != nil {
				return 0, err
			}
			return 0, loop.ErrDone
		},
	}.Run(ctx)
}

// writeOnce empties what it has written.
func (e *Engine) writeOnce(ctx context.Context, succeeded, others *[]job.Completion) error {
	if len(*succeeded) > 0 {
		fenced, err := e.Completer.CompleteSucceeded(ctx, *succeeded)
		if err != nil {
			return err
		}
		e.count(len(*succeeded), fenced)
		e.stats.succeeded.Add(int64(len(*succeeded) - fenced))
		*succeeded = nil
	}
	if len(*others) > 0 {
		retries, fenced, err := e.Completer.CompleteDecided(ctx, *others)
		if err != nil {
			return err
		}
		e.count(len(*others), fenced)
		e.stats.retried.Add(int64(len(retries)))
		mine := retries[:0]
		for _, r := range retries {
			if e.Member.Owns(r.Partition) {
				mine = append(mine, r)
			}
		}
		e.wheel.add(mine)
		*others = nil
	}
	return nil
}

func (e *Engine) count(n, fenced int) {
	e.stats.completed.Add(int64(n - fenced))
	if fenced > 0 {
		e.stats.fenced.Add(int64(fenced))
		e.Log.Warn("outcomes fenced: another attempt took their place", "runs", fenced)
	}
}
