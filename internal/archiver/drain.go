package archiver

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/belfry-dev/belfry/internal/archive"
	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/job"
)

// Progress is how far the export of a day is.
type Progress struct {
	Day  archive.Day
	Step string // as in Archiver.Step; "archived" after the last one
	Runs int64  // rows that were read
	// Found is how many occurrences are not as they must be: see Auditor.
	Found int64
	// AuditError is set if the audit failed, and the day is archived without it.
	AuditError error
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

// Renewal is how a command keeps its session.
type Renewal struct {
	Every, TTL time.Duration
	Extend     func(context.Context) error
}

// Keeping does work while it renews the session of the work. When the session has ended, the work is cancelled: another
// process may take its day. A renewal that fails is retried until then.
func (r Renewal) Keeping(ctx context.Context, work func(context.Context) error) error {
	ctx, stop := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := r.keep(ctx); err != nil {
			stop(fmt.Errorf("the session has ended: %w", err))
		}
	}()
	err := work(ctx)
	stop(nil)
	<-done
	return err
}

// keep renews the session until ctx ends, and returns an error if the session ends before.
func (r Renewal) keep(ctx context.Context) error {
	tick := time.NewTicker(r.Every)
	defer tick.Stop()
	ends := clock.Elapsed() + r.TTL
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		began := clock.Elapsed()
		limited, cancel := context.WithTimeout(ctx, ends-began)
		err := r.Extend(limited)
		cancel()
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			ends = began + r.TTL
		case errors.Is(err, job.ErrSessionExpired), clock.Elapsed() >= ends:
			return err
		}
	}
}
