package engine

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/auditor"
	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/engine/wheel"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/loop"
)

// Target delivers an attempt and returns its outcome.
type Target interface {
	Deliver(ctx context.Context, a job.Attempt) job.Outcome
}

// Member reports what this node may work on.
type Member interface {
	Session() uuid.UUID
	Owned() []int16
	Owns(partition int16) bool
	Valid() bool
}

// Observer receives events for metrics.
type Observer interface {
	Started(queue int32, late time.Duration)
	// Ended is called with the time from the start of an attempt to its outcome.
	Ended(queue int32, o job.Outcome, took time.Duration)
	Failed(loop string)      // a round of a loop failed and will be retried
	Found(kind auditor.Kind) // the audit found something new
}

type noObserver struct{}

func (noObserver) Started(int32, time.Duration)            {}
func (noObserver) Ended(int32, job.Outcome, time.Duration) {}
func (noObserver) Failed(string)                           {}
func (noObserver) Found(auditor.Kind)                      {}

// Tracer says which runs are traced.
type Tracer interface {
	// Sampled reports whether a run is traced whatever its outcome. trigger is Attempt.Trace.
	Sampled(key job.Key, trigger string) bool
}

// Options of an Engine. Zero values mean the defaults.
type Options struct {
	Planner    Planner
	Claimer    Claimer
	Completer  Completer
	Queues     Queues     // nil: no queue is ever paused or limited
	Namespaces Namespaces // nil: all queues share one turn
	Limits     Limits     // nil: there are no limits
	Auditor    Auditor    // nil: this engine does not audit
	Leases     Leases     // for FailedOver
	Member     Member
	Targets    map[string]Target // by kind
	Bound      *clock.Bound
	Log        *slog.Logger
	Observe    Observer          // may be nil
	OnRound    func(loop string) // called after each round of a loop; may be nil
	Tracer     Tracer            // nil: tracing is off

	LookAhead time.Duration // how far ahead runs are planned; 60s
	Lead      time.Duration // how long before its run time a run is claimed; 250ms
	// SweepPause is the pause between sweeps; 500ms. Searches for overdue runs pause 20 times as long.
	SweepPause time.Duration
	// WakeBack is how long ago a run that a wake-up finds may have become due, because the transaction that wrote it
	// took time; 2s. The sweep finds older ones.
	WakeBack time.Duration
	Slots    int // attempts in flight at the same time; 1000
	// MaxUpcoming is how many runs may wait in the wheel, at about 250 bytes each, while a backlog is planned;
	// 1,000,000.
	MaxUpcoming int
	Batch       int // runs in one statement; 1000
	// Claimers and Completers are how many statements of each kind may execute at the same time; 2. Successes have
	// completers of their own.
	Claimers, Completers int
	More                 loop.Group // loops of other steps of a run, which begin and end with the engine's own
}

// Engine works on the runs of the partitions that its node owns.
type Engine struct {
	Options
	wheel *wheel.Wheel
	stats Stats

	claimed   chan job.Attempt
	undecided *turns[job.Run]
	succeeded *turns[job.Completion]
	decided   *turns[job.Completion] // outcomes that take a decision, and a statement, each
	slots     slots
	inFlight  inFlight

	failedOver atomic.Bool // attempts may be leased to this node that it has forgotten

	loads        loads
	outage       outage
	woken        woken
	overduePart  int // only the loop "overdue" uses it
	queuesKnown  atomic.Bool
	limitsPolled time.Duration // clock.Elapsed; only the loop "waitlists" uses it
	resumed      time.Duration // clock.Elapsed; only the loop "pause" uses it
}

// New creates an Engine.
func New(o Options) *Engine {
	if o.LookAhead == 0 {
		o.LookAhead = time.Minute
	}
	if o.Lead == 0 {
		o.Lead = 250 * time.Millisecond
	}
	if o.SweepPause == 0 {
		o.SweepPause = 500 * time.Millisecond
	}
	if o.WakeBack == 0 {
		o.WakeBack = 2 * time.Second
	}
	if o.Slots == 0 {
		o.Slots = 1000
	}
	if o.MaxUpcoming == 0 {
		o.MaxUpcoming = 1_000_000
	}
	if o.Batch == 0 {
		o.Batch = 1000
	}
	if o.Claimers == 0 {
		o.Claimers = 2
	}
	if o.Completers == 0 {
		o.Completers = 2
	}
	if o.Observe == nil {
		o.Observe = noObserver{}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Engine{
		Options: o, wheel: wheel.New(o.Lead), slots: newSlots(o.Slots), inFlight: newInFlight(),
		woken:     woken{changed: make(chan struct{}, 1)},
		claimed:   make(chan job.Attempt, o.Slots), // as many as slots, so a claimer never blocks
		undecided: newTurns[job.Run](undecidedBatches*o.Batch, o.Batch),
		succeeded: newTurns[job.Completion](o.Slots, o.Batch),
		decided:   newTurns[job.Completion](o.Slots, min(o.Batch, decidedBatch)),
	}
}

// undecidedBatches is how many batches of runs may wait for a decision. Others come again later.
const undecidedBatches = 4

// Run works until ctx is done and then stops in order: it plans and claims nothing more, and delivers
// and completes what is claimed, for at most drain.
func (e *Engine) Run(ctx context.Context, drain time.Duration) error {
	// Attempts in flight outlive ctx, but not forever.
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var intake, admit, deliver, complete sync.WaitGroup
	intake.Go(func() { e.loops().Run(ctx) })
	for range e.Claimers {
		admit.Go(func() { e.admit(ctx) })
	}
	for range e.Slots {
		deliver.Go(func() { e.deliver(work) })
	}
	for range e.Completers {
		complete.Go(func() { e.complete(work, e.succeeded) })
		complete.Go(func() { e.complete(work, e.decided) })
	}

	<-ctx.Done()
	timer := time.AfterFunc(drain, stop)
	defer timer.Stop()
	intake.Wait()
	e.reportOutage(0, 0)
	admit.Wait()
	close(e.claimed)
	deliver.Wait()
	e.succeeded.close()
	e.decided.close()
	complete.Wait()
	if work.Err() != nil {
		return errors.New("engine: stopped before all attempts were reported; " +
			"their runs are rescued when the session ends")
	}
	return nil
}

// doubtPause is how often a loop asks whether the database clock is trusted again.
const doubtPause = 500 * time.Millisecond

// unlessInDoubt skips the rounds of a loop while the database clock is in doubt. The statements refuse too, because a
// node may be suspended between this check and its statement.
func (e *Engine) unlessInDoubt(once func(context.Context) (time.Duration, error)) func(
	context.Context) (time.Duration, error) {
	return func(ctx context.Context) (time.Duration, error) {
		if e.Bound.Doubt() != "" {
			return doubtPause, nil
		}
		return once(ctx)
	}
}

// TCP does not notice a server or proxy that hangs, so every call has a limit. A database that is merely
// slow ends statements itself, within a minute.
const (
	roundLimit     = 65 * time.Second // one round of a loop
	statementLimit = 15 * time.Second // a statement on a bounded number of runs, by key
)

// LoopNames returns the names of all loops whose failures are observed.
func (e *Engine) LoopNames() []string {
	names := []string{"complete"}
	for _, l := range e.loops() {
		names = append(names, l.Name)
	}
	return names
}

// loops returns the loops that bring work in. They end first when the node stops.
func (e *Engine) loops() loop.Group {
	g := loop.Group{
		{Name: "plan", Once: e.planOnce, Limit: roundLimit},
		{Name: "sweep", Once: e.sweepOnce, Limit: roundLimit},
		{
			Name: "wake", Once: e.wakeOnce, Wake: e.woken.changed, Limit: roundLimit,
			Backoff: loop.Backoff{Wait: true}, // otherwise failing rounds follow at the rate of wake-ups
		},
		{Name: "load", Once: e.loadOnce, Limit: roundLimit},
		{Name: "overdue", Once: e.overdueOnce, Limit: roundLimit},
		{Name: "rescue", Once: e.rescueOnce, Limit: roundLimit},
		{Name: "rescue_workers", Once: e.rescueWorkersOnce, Limit: roundLimit},
		{Name: "pause", Once: e.pauseOnce, Limit: roundLimit},
		{Name: "interrupt", Once: e.interruptOnce, Limit: roundLimit},
		// A claim round has no limit: its statements have, and resolving a claim lasts until there is a reply.
		{Name: "claim", Once: e.claimOnce, Wake: e.wheel.Changed(), Count: e.Claimers},
	}
	if e.Queues != nil {
		g = append(g, loop.Loop{Name: "queues", Once: e.queuesOnce, Limit: roundLimit})
	}
	if e.Namespaces != nil {
		g = append(g, loop.Loop{
			Name: "live-runs", Once: e.countOnce, Limit: roundLimit, Backoff: loop.Backoff{Off: true},
		})
	}
	if e.Limits != nil {
		g = append(g,
			loop.Loop{Name: "waitlists", Once: e.waitlistsOnce, Wake: e.wheel.WaitlistsChanged()},
			loop.Loop{Name: "reconcile", Once: e.reconcileOnce, Limit: roundLimit})
	}
	g = append(g, e.More...)
	if e.Auditor != nil {
		g = append(g, loop.Loop{Name: "audit", Once: e.auditOnce, Limit: roundLimit})
	}
	for i := range g {
		g[i].Once = e.unlessInDoubt(g[i].Once)
		g[i].Log, g[i].OnFailure, g[i].OnRound = e.Log, e.Observe.Failed, e.OnRound
		g[i].Ready = e.Member.Valid // without a session a round does nothing
	}
	return g
}
