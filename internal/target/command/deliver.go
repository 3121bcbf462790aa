package command

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/target/command/runner"
	"github.com/belfry-dev/belfry/internal/target/gate"
	"github.com/belfry-dev/belfry/internal/target/secret"
)

const (
	fallbackTimeout = 30 * time.Second // for attempts that come without one
	// soonest is within how long one that was just deferred comes again. Who was often, comes later.
	soonest  = 5 * time.Second
	patience = 20 // deferrals, for which the time grows by soonest again
	maxAfter = 2 * time.Minute
)

// Options of the target.
type Options struct {
	runner.Settings
	Slots      int      // commands at once
	User       int      // who the runner is, if the node is root
	Executable []string // this program with the arguments that make it a runner
	Secrets    secret.Source
	Log        *slog.Logger
}

// Target runs commands. Safe for concurrent use.
type Target struct {
	opts    Options
	process process
	slots   *gate.Gate

	mu    sync.Mutex
	lives map[*life]struct{}
}

// life is a command under way.
type life struct {
	attempt job.Attempt
	output  *output
	told    int64 // how much of its output the last Outputs told
}

// New makes the target. Nothing runs before Start.
func New(opts Options) *Target {
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	opts.Node = uuid.NewString()
	return &Target{opts: opts, process: process{opts: opts}, slots: gate.New(gate.Options{PerHost: max(opts.Slots, 1)}), lives: map[*life]struct{}{}}
}

// Start starts the runner and tries its sandbox. An error says why commands
// cannot be run here and what to do.
func (t *Target) Start(ctx context.Context) error {
	if err := hideProcess(); err != nil {
		return fmt.Errorf("hide the node's memory from its neighbours: %w", err)
	}
	return t.process.start(ctx)
}

// Close ends the runner, and with it what still runs.
func (t *Target) Close() { t.process.close() }

// Deliver runs one command and says what its end means: see doc.go.
func (t *Target) Deliver(ctx context.Context, a job.Attempt) job.Outcome {
	c, err := parse([]byte(a.Config))
	if err != nil {
		// It was checked when the job was saved: by a version with other rules.
		return job.Outcome{Kind: job.Failed, Message: clean("the target's config is not valid, mend the job: "+err.Error(), maxMessage)}
	}
	if ctx.Err() != nil {
		return stopping(false)
	}
	// Who finds no slot free waits for a moment in its slot of the node, and else comes
	// again. All commands are one place, and how they end says nothing about it.
	pass, later := t.slots.Enter(ctx, gate.Destination{})
	switch {
	case later != nil && ctx.Err() != nil:
		return stopping(false)
	case later != nil:
		later.RetryAfter = comeAgain(later.RetryAfter, a.Number)
		later.Message = fmt.Sprintf("not run yet: %d commands run on this node, which is all that may at once; it waits for its turn", t.opts.Slots)
		return *later
	}
	defer pass.Leave(gate.Neutral)
	timeout := a.Timeout
	if timeout <= 0 {
		timeout = fallbackTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	given, err := c.read(ctx, t.opts.Secrets, a.Namespace)
	if err != nil {
		return job.Outcome{Kind: job.Failed, Retryable: !errors.Is(err, secret.ErrNone), Message: clean("not run: "+err.Error(), maxMessage)}
	}
	l := &life{attempt: a, output: newOutput(given.secrets)}
	t.begin(l)
	defer t.end(l)
	got := t.process.run(ctx, c.spec(&a, given, timeout), l.output)
	l.output.end()
	out := c.outcome(ctx, timeout, got, l.output)
	out.Output, out.OutputTotal = l.output.read()
	return out
}

func (t *Target) begin(l *life) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lives[l] = struct{}{}
}

func (t *Target) end(l *life) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.lives, l)
}

// Outputs tells what commands under way have written, of those that have
// written anything since the last call.
func (t *Target) Outputs() (out []job.Output) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for l := range t.lives {
		text, total := l.output.read()
		if total == l.told {
			continue
		}
		l.told = total
		out = append(out, job.Output{Key: l.attempt.Key, Attempt: l.attempt.Number, Namespace: l.attempt.Namespace, Text: text, Total: total})
	}
	return out
}

// dueLayout is RFC 3339 with all six digits, so that texts sort as times do.
const dueLayout = "2006-01-02T15:04:05.000000Z07:00"

func (c *config) spec(a *job.Attempt, given *given, timeout time.Duration) *runner.Spec {
	run := job.FormatRunID(a.Key)
	s := &runner.Spec{
		Program: c.program, Args: c.args, Stdin: []byte(a.Payload), Network: c.network, Timeout: timeout, Image: c.image,
		Label: run + "/" + strconv.Itoa(int(a.Number)),
		Env: []string{
			"BELFRY_RUN_ID=" + run, "BELFRY_IDEMPOTENCY_KEY=" + a.IdempotencyKey(), "BELFRY_JOB=" + job.FormatJobID(a.Key.Job),
			"BELFRY_DUE_AT=" + a.Key.DueAt.UTC().Format(dueLayout), "BELFRY_ATTEMPT=" + strconv.Itoa(int(a.Number)),
			"TRACEPARENT=" + a.Traceparent(),
		},
	}
	if c.stdin != nil {
		s.Stdin = []byte(given.stdin)
	}
	s.Env = append(s.Env, given.env...)
	return s
}

// comeAgain is when an attempt that was deferred comes again: so soon that a slot is
// not free for long while it waits, compared with how long it has waited already; and so
// late that many which wait for hours cost little, and none comes 30,000 times in a month.
func comeAgain(after time.Duration, attempt int16) time.Duration {
	most := min(soonest*time.Duration(1+attempt/patience), maxAfter)
	if after <= most {
		return after
	}
	return most/2 + rand.N(most/2) //nolint:gosec // to spread them
}
