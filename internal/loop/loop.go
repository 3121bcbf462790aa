package loop

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/belfry-dev/belfry/internal/telemetry"
)

// ErrDone ends a loop from inside: Once returns it when there is nothing left to do. It counts as a
// success.
var ErrDone = errors.New("loop: done")

// Loop is work that is repeated. Name, Once and Log are required.
type Loop struct {
	// Name is the value of the log attribute "loop", and what OnFailure gets.
	Name string
	// Title begins the log messages "<title> failed" and "<title> recovered". Default: "loop".
	Title string
	// Once runs one round and returns the pause before the next one. Zero means no pause.
	Once func(context.Context) (pause time.Duration, err error)
	// Limit is the maximum duration of a round: its context ends then. Zero means no limit.
	Limit time.Duration
	// Wake ends a pause early. Nil means never.
	Wake <-chan struct{}
	// Backoff is the pause after failures. Default: 200ms, doubling up to 2s.
	Backoff Backoff
	// Ready reports whether the last round could have failed at all, see the package comment.
	// Nil means it always could.
	Ready func() bool
	// OnFailure is called for each failed round, with Name. It may be nil.
	OnFailure func(name string)
	// OnRound is called after each round, whether it succeeded or failed, with Name. It may be nil.
	OnRound func(name string)
	// Count is how many goroutines of a Group run this loop. Default: 1.
	Count int
	Log   *slog.Logger
	// Attrs are added to each line that the loop logs.
	Attrs []any
}

// Backoff is the pause after failed rounds. It starts at Min and doubles with each failure up to Max.
type Backoff struct {
	Min, Max time.Duration
	// Wait makes the pause last even if Wake is signalled. Otherwise Wake ends it early.
	Wait bool
	// Off means a failed round is followed by the pause that it returned, like any other round.
	Off bool
}

var defaultBackoff = Backoff{Min: 200 * time.Millisecond, Max: 2 * time.Second}

// Run repeats Once until ctx is done or Once returns ErrDone.
func (l Loop) Run(ctx context.Context) { l.newRunner().run(ctx) }

// RunAfter is Run for work that has failed once already: it handles err as the error of a first round.
func (l Loop) RunAfter(ctx context.Context, err error) {
	r := l.newRunner()
	if ctx.Err() == nil {
		r.pause(ctx, r.failed(0, err), true)
	}
	r.run(ctx)
}

// runner is a Loop while it runs, with what it remembers from round to round.
type runner struct {
	Loop
	trouble telemetry.Trouble
	backoff time.Duration // the next one
}

func (l Loop) newRunner() *runner {
	if l.Title == "" {
		l.Title = "loop"
	}
	if l.Backoff.Min == 0 {
		l.Backoff.Min, l.Backoff.Max = defaultBackoff.Min, defaultBackoff.Max
	}
	return &runner{Loop: l, backoff: l.Backoff.Min}
}

func (r *runner) run(ctx context.Context) {
	for ctx.Err() == nil {
		pause, err := r.once(ctx)
		if r.OnRound != nil {
			r.OnRound(r.Name)
		}
		done := errors.Is(err, ErrDone)
		failed := err != nil && !done
		switch {
		case failed && ctx.Err() != nil:
			return
		case failed:
			pause = r.failed(pause, err)
		case r.Ready == nil || r.Ready():
			r.backoff = r.Backoff.Min
			r.trouble.Worked(r.Log, r.Title+" recovered", r.attrs()...)
		}
		if done {
			return
		}
		r.pause(ctx, pause, failed)
	}
}

func (r *runner) once(ctx context.Context) (time.Duration, error) {
	if r.Limit == 0 {
		return r.Once(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, r.Limit)
	defer cancel()
	return r.Once(ctx)
}

// failed reports a failed round and returns the pause before the next one.
func (r *runner) failed(pause time.Duration, err error) time.Duration {
	if !r.Backoff.Off {
		pause = r.backoff
		r.backoff = min(2*r.backoff, r.Backoff.Max)
	}
	pause = max(pause, 0)
	if r.OnFailure != nil {
		r.OnFailure(r.Name)
	}
	r.trouble.Failed(r.Log, r.Title+" failed", err, append(r.attrs(), "retry_in", pause)...)
	return pause
}

func (r *runner) attrs() []any { return append([]any{"loop", r.Name}, r.Attrs...) }

func (r *runner) pause(ctx context.Context, d time.Duration, failed bool) {
	if d <= 0 {
		return
	}
	wake := r.Wake
	if failed && r.Backoff.Wait {
		wake = nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-wake:
	}
}

// Group is loops that run side by side, each in its own goroutine or in Count of them.
type Group []Loop

// Run runs all loops and returns when all of them have ended.
func (g Group) Run(ctx context.Context) {
	var running sync.WaitGroup
	for _, l := range g {
		for range max(l.Count, 1) {
			running.Go(func() { l.Run(ctx) })
		}
	}
	running.Wait()
}
