package engine

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/loop"
)

// Target delivers an attempt and says what it came to.
type Target interface {
	Deliver(ctx context.Context, a job.Attempt) job.Outcome
}

// Member says what this node may work on.
type Member interface {
	Session() uuid.UUID
	Owned() []int16
	Owns(partition int16) bool
	Valid() bool
}

// Planner is the store, as plan sees it.
type Planner interface {
	Plan(ctx context.Context, in job.PlanParams) (job.Planned, error)
	NextDue(ctx context.Context, partitions []int16) (now time.Time, next map[int16]time.Time, err error)
	Pending(ctx context.Context, partitions []int16, until time.Time) ([]job.Run, error)
	Woken(ctx context.Context, partitions []int16, from, to time.Time) ([]job.Run, error)
}

// Claimer is the store, as claim sees it.
type Claimer interface {
	Claim(ctx context.Context, session uuid.UUID, keys []job.Key, lead time.Duration) ([]job.Attempt, error)
	// Undecided returns those of the runs that are pending.
	Undecided(ctx context.Context, keys []job.Key) ([]job.Key, error)
	// Claimed returns those of the runs that are leased to the session.
	Claimed(ctx context.Context, session uuid.UUID, keys []job.Key) ([]job.Attempt, error)
	Admit(ctx context.Context, session uuid.UUID, key job.Key, lead time.Duration) (job.Admitted, error)
	// Fenced returns those of the attempts that are no longer the live one of their run.
	Fenced(ctx context.Context, attempts []job.Attempt) ([]job.Attempt, error)
}

// Completer is the store, as complete and rescue see it.
type Completer interface {
	CompleteSucceeded(ctx context.Context, done []job.Completion) (fenced int, err error)
	CompleteDecided(ctx context.Context, done []job.Completion) (retries []job.Run, fenced int, err error)
	Rescue(ctx context.Context, partitions []int16, limit int) (retries []job.Run, found int, err error)
	// RescueWorkers does the same for workers that are gone, of all partitions.
	RescueWorkers(ctx context.Context, limit int) (retries []job.Run, found int, err error)
}

// Observer is told what happens, for metrics.
type Observer interface {
	Started(late time.Duration)
	Ended(o job.Outcome)
	Failed(loop string) // a round of a loop, which is tried again
}

type nobody struct{}

func (nobody) Started(time.Duration) {}
func (nobody) Ended(job.Outcome)     {}
func (nobody) Failed(string)         {}

// Options of an Engine. Zero values mean the defaults.
type Options struct {
	Planner   Planner
	Claimer   Claimer
	Completer Completer
	Queues    Queues // nil: none is ever paused or limited
	Limits    Limits // nil: there are none
	Member    Member
	Targets   map[string]Target // by kind
	Bound     *clock.Bound
	Log       *slog.Logger

	LookAhead time.Duration // how far ahead runs are planned; 60s
	Lead      time.Duration // how long before its time a run is claimed; 250ms
	Slots     int           // attempts at once; 1000
	// Observe is told of each start how late it was, and of each outcome; nil: nobody is.
	Observe Observer
	Batch   int // runs in one statement; 1000
	// Claimers and Completers is how many statements of each kind may be under
	// way at once; 2.
	Claimers, Completers int
}

// Engine works on the runs of the partitions that its node owns.
type Engine struct {
	Options
	wheel *wheel
	stats Stats

	claimed   chan job.Attempt
	undecided chan job.Run
	completed chan job.Completion
	slots     slots
	underWay  underWay

	loads       loads
	overduePart int // of the loop "overdue"
	queuesKnown atomic.Bool
	lanesAsked  time.Duration // by clock.Elapsed; of the loop "lanes"
}

// New makes an Engine.
func New(o Options) *Engine {
	if o.LookAhead == 0 {
		o.LookAhead = time.Minute
	}
	if o.Lead == 0 {
		o.Lead = 250 * time.Millisecond
	}
	if o.Slots == 0 {
		o.Slots = 1000
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
		o.Observe = nobody{}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Engine{
		Options: o, wheel: newWheel(o.Lead), slots: slots{free: o.Slots}, underWay: underWay{cancel: map[runKey]*interruptible{}},
		claimed: make(chan job.Attempt, o.Slots), undecided: make(chan job.Run, o.Batch), completed: make(chan job.Completion, o.Slots),
	}
}

// Run works until ctx ends, then stops in order: nothing more is planned or
// claimed, what is claimed is delivered and completed, within drain.
func (e *Engine) Run(ctx context.Context, drain time.Duration) error {
	// What is under way outlives ctx, but not for ever.
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
		complete.Go(func() { e.complete(work) })
	}

	<-ctx.Done()
	timer := time.AfterFunc(drain, stop)
	defer timer.Stop()
	intake.Wait()
	close(e.undecided)
	admit.Wait()
	close(e.claimed)
	deliver.Wait()
	close(e.completed)
	complete.Wait()
	if work.Err() != nil {
		return errors.New("engine: stopped before all attempts were reported; their runs are rescued when the session ends")
	}
	return nil
}

// loops are those that take work in. They end first when the node stops.
func (e *Engine) loops() loop.Group {
	g := loop.Group{
		{Name: "plan", Once: e.planOnce, Limit: loopLimit},
		{Name: "sweep", Once: e.sweepOnce, Limit: loopLimit},
		{Name: "load", Once: e.loadOnce, Limit: loopLimit},
		{Name: "overdue", Once: e.overdueOnce, Limit: loopLimit},
		{Name: "rescue", Once: e.rescueOnce, Limit: loopLimit},
		{Name: "interrupt", Once: e.interruptOnce, Limit: loopLimit},
		{Name: "queues", Once: e.queuesOnce, Limit: loopLimit},
		{Name: "mend", Once: e.mendOnce, Limit: loopLimit},
		// No limit: each of their calls has one, and an unresolved claim is asked about until there is an answer.
		{Name: "lanes", Once: e.lanesOnce, Wake: e.wheel.lanes.changed},
		{Name: "claim", Once: e.claimOnce, Wake: e.wheel.changed, Count: e.Claimers},
	}
	for i := range g {
		g[i].Log, g[i].OnFailure = e.Log, e.Observe.Failed
		g[i].Ready = e.Member.Valid // without a session a round does nothing
	}
	return g
}

// A server or a proxy that hangs is not noticed by TCP: no call may wait for
// ever. A database that is merely slow ends statements itself, within a minute.
const (
	loopLimit = 65 * time.Second // one round of a loop
	keyLimit  = 15 * time.Second // a statement on a bounded number of runs, by key
)

// slots counts the attempts that may be under way.
type slots struct {
	mu   sync.Mutex
	free int
}

// acquire takes up to most slots, or none if fewer than least are free.
func (s *slots) acquire(most, least int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := min(most, s.free)
	if n < least {
		return 0
	}
	s.free -= n
	return n
}

func (s *slots) release(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free += n
}

func (s *slots) left() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.free
}
