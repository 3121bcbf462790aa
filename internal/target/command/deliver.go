package command

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/target/command/runner"
	"github.com/belfry-dev/belfry/internal/target/gate"
	"github.com/belfry-dev/belfry/internal/target/message"
	"github.com/belfry-dev/belfry/internal/target/secret"
	"github.com/belfry-dev/belfry/internal/target/settings"
	"github.com/belfry-dev/belfry/internal/trace"
)

const (
	fallbackTimeout = 30 * time.Second // for attempts without a timeout
	// A deferred run returns within delayStep. Every delayRuns deferrals, the limit grows by delayStep, up
	// to maxDelay.
	delayStep = 5 * time.Second
	delayRuns = 20
	maxDelay  = 2 * time.Minute
)

// Options of the target.
type Options struct {
	runner.Settings
	Slots      int      // maximum number of commands at the same time, which namespaces share
	User       int      // the runner's user id if the node runs as root
	Executable []string // this program, with the arguments that start a runner
	Secrets    secret.Source
	// Namespace returns the name of a namespace. It is asked if an entry of Programs or Images names one.
	Namespace func(ctx context.Context, id uuid.UUID) (string, error)
	Log       *slog.Logger
}

// Target runs commands. Safe for concurrent use.
type Target struct {
	opts    Options
	process process
	slots   *gate.Gate

	scoped bool // an entry of Programs or Images names a namespace
	names  settings.Names

	mu      sync.Mutex
	running map[*execution]struct{}
}

// execution is a running command.
type execution struct {
	attempt  job.Attempt
	output   *output
	reported int64 // how much of its output the last call of Outputs returned
}

// New creates the target. Call Start before the first delivery.
func New(opts Options) *Target {
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	opts.Node = uuid.NewString()
	opts.Slots = max(opts.Slots, 1)
	return &Target{
		opts: opts, process: process{opts: opts}, slots: gate.New(gate.Options{Shared: opts.Slots}),
		running: map[*execution]struct{}{}, names: settings.Names{Read: opts.Namespace},
		scoped: slices.ContainsFunc(slices.Concat(opts.Programs, opts.Images), func(entry string) bool {
			namespace, _ := runner.Scoped(entry)
			return namespace != ""
		}),
	}
}

// namespace returns the name of a namespace, if the runner needs it.
func (t *Target) namespace(ctx context.Context, id uuid.UUID) (string, error) {
	if !t.scoped {
		return "", nil
	}
	return t.names.Get(ctx, id)
}

// Start starts the runner and tries its sandbox. The error says why commands cannot be run here and what to
// do.
func (t *Target) Start(ctx context.Context) error {
	if err := hideProcess(); err != nil {
		return fmt.Errorf("hide the node's memory from other processes: %w", err)
	}
	return t.process.start(ctx)
}

// Close stops the runner and kills the commands that still run.
func (t *Target) Close() { t.process.close() }

// Deliver runs one command and returns its outcome: see the package page.
func (t *Target) Deliver(ctx context.Context, a job.Attempt) job.Outcome {
	c, err := parse([]byte(a.Config))
	if err != nil {
		// The config was valid when the job was saved: the version that checked it had other rules.
		return job.Outcome{
			Kind:    job.Failed,
			Message: message.Clean("the target's config is not valid, fix the job: "+err.Error(), maxMessage),
		}
	}
	if ctx.Err() != nil {
		return stopping(false)
	}
	// Without a free command slot, the gate waits briefly or defers the run. All commands of a namespace have the
	// same destination, and their results are neutral, so the breaker never opens.
	pass, deferred := t.slots.Enter(ctx, gate.Destination{Namespace: a.Namespace})
	switch {
	case deferred != nil && ctx.Err() != nil:
		return stopping(false)
	case deferred != nil:
		deferred.RetryAfter = retryAfter(deferred.RetryAfter, a.Number)
		deferred.Message = fmt.Sprintf("not run yet: the namespace has its share of the %d commands that this node runs "+
			"at the same time; waiting until one of them ends", t.opts.Slots)
		if t.slots.Full() {
			deferred.Message = fmt.Sprintf("not run yet: this node already runs %d commands, its limit; "+
				"waiting for a free slot", t.opts.Slots)
		}
		return *deferred
	}
	defer pass.Leave(gate.Neutral)
	timeout := a.Timeout
	if timeout <= 0 {
		timeout = fallbackTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	in, err := c.readSecrets(ctx, t.opts.Secrets, a.Namespace)
	if err != nil {
		return job.Outcome{
			Kind: job.Failed, Retryable: !secret.Permanent(err),
			Message: message.Clean("not run: "+err.Error(), maxMessage),
		}
	}
	spec := c.spec(&a, in, timeout)
	if spec.Namespace, err = t.namespace(ctx, a.Namespace); err != nil {
		return job.Outcome{
			Kind: job.Failed, Retryable: true, Message: message.Clean("not run: "+err.Error(), maxMessage),
		}
	}
	e := &execution{attempt: a, output: newOutput(in.secrets)}
	t.add(e)
	defer t.remove(e)
	got := t.process.run(ctx, spec, e.output)
	e.output.end()
	out := c.outcome(ctx, timeout, got, e.output)
	out.Output, out.OutputTotal = e.output.read()
	return out
}

func (t *Target) add(e *execution) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.running[e] = struct{}{}
}

func (t *Target) remove(e *execution) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.running, e)
}

// Outputs returns the output of running commands that have written anything since the last call.
func (t *Target) Outputs() (out []job.Output) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for e := range t.running {
		text, total := e.output.read()
		if total == e.reported {
			continue
		}
		e.reported = total
		out = append(out, job.Output{
			Key: e.attempt.Key, Session: e.attempt.Session, Attempt: e.attempt.Number,
			Namespace: e.attempt.Namespace, Text: text, Total: total,
		})
	}
	return out
}

// dueLayout is RFC 3339 with all six digits, so that strings sort like times.
const dueLayout = "2006-01-02T15:04:05.000000Z07:00"

func (c *config) spec(a *job.Attempt, in *input, timeout time.Duration) *runner.Spec {
	run, number := job.FormatRunID(a.Key), strconv.Itoa(int(a.Number))
	s := &runner.Spec{
		Program: c.program, Args: c.args, Stdin: []byte(a.Payload), Network: c.network, Timeout: timeout,
		Image: c.image,
		Label: run + "/" + number,
		Env: []string{
			"BELFRY_RUN_ID=" + run,
			"BELFRY_IDEMPOTENCY_KEY=" + a.IdempotencyKey(),
			"BELFRY_JOB=" + job.FormatJobID(a.Key.Job),
			"BELFRY_DUE_AT=" + a.Key.DueAt.UTC().Format(dueLayout),
			"BELFRY_ATTEMPT=" + number,
			"TRACEPARENT=" + trace.Parent(a),
		},
	}
	if c.stdin != nil {
		s.Stdin = []byte(in.stdin)
	}
	s.Env = append(s.Env, in.env...)
	return s
}

// retryAfter limits how long a run is deferred. The limit grows with the number of deferrals: a run that has
// just been deferred returns soon, so that a free slot is not idle for long. Runs that wait for hours return
// rarely, so that many of them cost little, and none returns 30,000 times in a month.
func retryAfter(after time.Duration, attempt int16) time.Duration {
	limit := min(delayStep*time.Duration(1+attempt/delayRuns), maxDelay)
	if after <= limit {
		return after
	}
	return limit/2 + rand.N(limit/2) //nolint:gosec // to spread them
}
