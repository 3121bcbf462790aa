package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"

	belfry "github.com/belfry-dev/belfry/sdk/go"
)

// Worker pulls runs of one queue. Create one for each queue that a process serves.
type Worker struct {
	client   *belfry.Client
	queue    string
	name     string
	slots    int
	drain    time.Duration
	log      *slog.Logger
	handlers map[string]Handler
	wrap     []Middleware
	tracer   trace.Tracer

	free    chan struct{} // a token for each free slot
	reports chan report

	mu     sync.Mutex
	leased map[string]*lease // by run id

	link link
}

// lease is a run that is leased to this worker.
type lease struct {
	run    *Run
	cancel context.CancelCauseFunc
}

// Option changes how a Worker works.
type Option func(*Worker)

// Slots sets the maximum number of runs at the same time; the default is 10. The worker never claims more.
func Slots(n int) Option { return func(w *Worker) { w.slots = max(n, 1) } }

// Name sets the worker's name, for people; the default is the host name.
func Name(name string) Option { return func(w *Worker) { w.name = name } }

// Drain sets how long a stopping worker waits for handlers before it ends their contexts; the default is 30 s.
func Drain(d time.Duration) Option { return func(w *Worker) { w.drain = d } }

// Log sets the logger; the default is [slog.Default].
func Log(l *slog.Logger) Option { return func(w *Worker) { w.log = l } }

// New creates a Worker for a queue. The client should use a key with the role worker that is bound to the
// queue.
func New(client *belfry.Client, queue string, opts ...Option) *Worker {
	host, _ := os.Hostname() // only a name for people
	w := &Worker{
		client: client, queue: queue, name: host, slots: 10, drain: 30 * time.Second, log: slog.Default(),
		handlers: map[string]Handler{}, leased: map[string]*lease{},
	}
	for _, o := range opts {
		o(w)
	}
	if w.tracer == nil {
		w.tracer = globalTracer()
	}
	if w.name == "" {
		w.name = "worker"
	}
	w.free, w.reports = make(chan struct{}, w.slots), make(chan report, w.slots)
	for range w.slots {
		w.free <- struct{}{}
	}
	w.link.worker = w
	return w
}

// Handle sets the handler for a name, which is the one in the config of a job's target. Call it before Run.
func (w *Worker) Handle(name string, h Handler) { w.handlers[name] = h }

// Handle is Worker.Handle for a handler with a decoded payload: see [Typed].
func Handle[P any](w *Worker, name string, h func(ctx context.Context, run *Run, payload P) error) {
	w.Handle(name, Typed(h))
}

// Typed returns a Handler that decodes the payload. An invalid payload is a permanent failure, because a retry
// would have the same payload.
func Typed[P any](h func(ctx context.Context, run *Run, payload P) error) Handler {
	return func(ctx context.Context, run *Run) error {
		var p P
		if err := run.Decode(&p); err != nil {
			return Permanent(err)
		}
		return h(ctx, run, p)
	}
}

// Use adds middleware to all handlers, including those that are set later. The first is outermost.
func (w *Worker) Use(m ...Middleware) { w.wrap = append(w.wrap, m...) }

// handler returns the handler of a name, with its middleware.
func (w *Worker) handler(name string) Handler {
	h := w.handlers[name]
	for _, m := range slices.Backward(w.wrap) {
		h = m(h)
	}
	return h
}

// Run processes runs until ctx ends. Then it claims no more runs, gives handlers the time of Drain to end,
// reports their outcomes and ends the session. It returns an error if the worker cannot work at all: the
// server rejects its key, or there are no handlers.
func (w *Worker) Run(ctx context.Context) error {
	names := slices.Sorted(maps.Keys(w.handlers))
	if len(names) == 0 {
		return errors.New("worker: there are no handlers; set some with Handle before Run")
	}
	// Running handlers continue after ctx has ended.
	work, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stop(nil)
	if err := w.link.open(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	var beat, reporting, handling sync.WaitGroup
	beating, stopBeating := context.WithCancel(work)
	beat.Go(func() { w.link.beat(beating) })
	sending, stopSending := context.WithCancel(context.WithoutCancel(ctx))
	defer stopSending()
	reporting.Go(func() { w.report(sending) })

	err := w.pull(ctx, work, names, &handling)
	time.AfterFunc(w.drain, func() { stop(ErrStopping) })
	if await(&handling, w.drain+endTimeout) {
		close(w.reports)
		time.AfterFunc(endTimeout, stopSending)
		reporting.Wait()
	} else {
		err = errors.Join(err, errors.New("worker: stopped before all handlers have ended; "+
			"other workers get their runs"))
	}
	stopBeating()
	beat.Wait()
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
	defer cancel()
	return errors.Join(err, w.link.end(last))
}

// await waits for a group until the timeout, and reports whether it is done.
func await(group *sync.WaitGroup, timeout time.Duration) bool {
	done := make(chan struct{})
	go func() {
		group.Wait()
		close(done)
	}()
	t := time.NewTimer(timeout)
	defer t.Stop()
	select {
	case <-done:
		return true
	case <-t.C:
		return false
	}
}

const (
	endTimeout = 5 * time.Second
	pollWait   = 20 * time.Second
	maxClaim   = 100
	firstWait  = 100 * time.Millisecond // after a failure; doubles up to maxWait
	maxWait    = 5 * time.Second
)

// pull claims runs while there are free slots.
func (w *Worker) pull(ctx, work context.Context, names []string, handling *sync.WaitGroup) error {
	wait := firstWait
	for {
		n := w.acquire(ctx)
		if n == 0 {
			return nil // stopping
		}
		took, err := w.link.claim(ctx, names, n, func(r *Run) {
			// The run must be known before anything else is sent: a new session adopts only known runs.
			ctx, cancel := context.WithCancelCause(work)
			w.add(r, cancel)
			handling.Go(func() {
				defer cancel(nil)
				w.work(ctx, r)
			})
		})
		w.release(n - took)
		switch {
		case ctx.Err() != nil && took == 0:
			return nil
		case final(err):
			return fmt.Errorf("worker: %w", err)
		case err != nil:
			w.log.WarnContext(ctx, "claim failed", "queue", w.queue, "again_in", wait, "error", err)
			pause(ctx, wait)
			wait = min(2*wait, maxWait)
			continue
		}
		wait = firstWait
	}
}

// final reports whether a retry would fail too.
func final(err error) bool {
	switch belfry.CodeOf(err) {
	case "unauthenticated", "forbidden", "invalid", "bad_request":
		return true
	default:
		return false
	}
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// acquire waits for a free slot and takes all free slots, up to maxClaim. It returns 0 if the worker is
// stopping.
func (w *Worker) acquire(ctx context.Context) (n int) {
	select {
	case <-ctx.Done():
		return 0
	case <-w.free:
		n = 1
	}
	for n < maxClaim {
		select {
		case <-w.free:
			n++
		default:
			return n
		}
	}
	return n
}

func (w *Worker) release(n int) {
	for range n {
		w.free <- struct{}{}
	}
}

// work calls the handler of a run and passes on its outcome.
func (w *Worker) work(ctx context.Context, r *Run) {
	defer w.release(1)
	ctx, stop := context.WithTimeoutCause(ctx, r.Timeout, ErrTimeout)
	defer stop()
	err := w.process(ctx, r)
	w.reports <- report{r, outcomeOf(err, context.Cause(ctx))}
}

// outcomeOf is OutcomeOf, but also considers why the context ended.
func outcomeOf(err, cause error) Outcome {
	switch {
	case err == nil:
		return OutcomeOf(nil)
	case errors.Is(cause, ErrStopping): // the run is not to blame
		return OutcomeOf(Snooze(0))
	case errors.Is(cause, ErrTimeout):
		return OutcomeOf(fmt.Errorf("%w: %w", ErrTimeout, err))
	default:
		return OutcomeOf(err)
	}
}

// call calls the handler. A panic counts as an error.
func (w *Worker) call(ctx context.Context, r *Run) (err error) {
	defer func() {
		if p := recover(); p != nil {
			w.log.ErrorContext(ctx, "handler panicked", "handler", r.Handler, "run", r.ID, "panic", p, "stack", stack())
			err = fmt.Errorf("the handler panicked: %v", p)
		}
	}()
	return w.handler(r.Handler)(ctx, r)
}

func (w *Worker) add(r *Run, cancel context.CancelCauseFunc) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.leased[r.ID] = &lease{r, cancel}
}

// drop forgets a run, if it is this attempt.
func (w *Worker) drop(id string, attempt int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if l := w.leased[id]; l != nil && l.run.Attempt == attempt {
		delete(w.leased, id)
	}
}

func (w *Worker) has(id string, attempt int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	l := w.leased[id]
	return l != nil && l.run.Attempt == attempt
}

// lost drops a run that is no longer this worker's and ends its context.
func (w *Worker) lost(g gone) {
	w.mu.Lock()
	defer w.mu.Unlock()
	l := w.leased[g.Run]
	if l == nil || l.run.Attempt != g.Attempt {
		return
	}
	delete(w.leased, g.Run)
	w.log.Warn("run lost", "run", g.Run, "attempt", g.Attempt, "reason", g.Reason)
	switch g.Reason {
	case "cancelled":
		l.cancel(ErrCancelled)
	case "timeout":
		l.cancel(ErrTimeout)
	default:
		l.cancel(ErrLost)
	}
}

// lostAll drops all runs, because the session has ended.
func (w *Worker) lostAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, l := range w.leased {
		delete(w.leased, id)
		l.cancel(ErrLost)
	}
}

// leases returns the runs of this worker, optionally with progress that was not sent yet.
func (w *Worker) leases(progress bool) []leaseWire {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := make([]leaseWire, 0, len(w.leased))
	for id, l := range w.leased {
		one := leaseWire{Run: id, Attempt: l.run.Attempt}
		if progress {
			one.Percent, one.Progress = l.run.takeProgress()
		}
		out = append(out, one)
	}
	return out
}
