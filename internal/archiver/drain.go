package archiver

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/belfry-dev/belfry/internal/archive"
	"github.com/belfry-dev/belfry/internal/job"
)

// Progress is how far the export of a day is.
type Progress struct {
	Day  archive.Day
	Step string // as in Archiver.Step; "archived" after the last one
	Runs int64  // rows that were read
	// Found is how many occurrences are not as they must be: see Auditor.
	Found int64
}

// Drain exports all closed days that no other session exports. A day that fails does not keep later ones from being
// exported, and is tried once.
func (a *Archiver) Drain(ctx context.Context) error {
	var failures []error
	failed := map[archive.Day]bool{}
	if err := a.closeDays(ctx); err != nil {
		return err
	}
	for {
		t, err := a.take(ctx)
		if errors.Is(err, job.ErrNotFound) {
			return errors.Join(failures...)
		}
		if err != nil {
			return errors.Join(append(failures, err)...)
		}
		if failed[t.Day] { // days that were not tried come first, so none is left
			released := a.Days.FinishDay(ctx, t, archive.Result{Failed: true})
			return errors.Join(append(failures, released)...)
		}
		if err := a.archive(ctx, t); err != nil {
			failed[t.Day], failures = true, append(failures, err)
		}
		if ctx.Err() != nil {
			return errors.Join(append(failures, context.Cause(ctx))...)
		}
	}
}

// Keeping does work while it renews the session of the work. If that fails, the work is cancelled: another process may
// take its day.
func Keeping(ctx context.Context, every time.Duration, extend, work func(context.Context) error) error {
	ctx, stop := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				if err := extend(ctx); err != nil && ctx.Err() == nil {
					stop(fmt.Errorf("the session has ended: %w", err))
					return
				}
			}
		}
	}()
	err := work(ctx)
	stop(nil)
	<-done
	return err
}
