package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/belfry-dev/belfry/internal/bench/scratch"
	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/job"
)

const (
	pollPause    = 50 * time.Millisecond
	payloadBytes = 300
	// stallTimeout is how long no run may start while some are due, before the rest counts as lost. It is longer than
	// the retries of a failed delivery.
	stallTimeout = 2 * time.Minute
)

// bench is a benchmark in progress: a scratch database and the processes that use it.
type bench struct {
	Options
	scratch    *scratch.Database
	postmaster int           // process id of the server; 0 if it is not on this machine
	offset     time.Duration // of the database's clock from this machine's
	starts     starts
	nodes      []*child
	sink       *sink // nil with target noop
	schedules  int   // number of distinct schedules
	fail       context.CancelCauseFunc
}

// work is one kind of benchmark.
type work func(*bench, context.Context, *Result) error

// measure creates the database, runs a benchmark and removes everything, also after an error and when ctx ends.
func measure(ctx context.Context, o Options, name string, do work) (r *Result, err error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	database, err := scratch.Create(ctx, o.Node.DatabaseURL)
	if err != nil {
		return nil, err
	}
	whole := context.WithoutCancel(ctx)
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	b := &bench{Options: o, scratch: database, fail: fail}
	defer func() { err = errors.Join(err, b.close(whole)) }()
	r = &Result{Setting: Setting{Bench: name, Jobs: o.Jobs, Target: o.Target, Nodes: o.Nodes, Cores: runtime.NumCPU()}}
	err = b.open(ctx, r)
	if err == nil {
		err = do(b, ctx, r)
	}
	if cause := context.Cause(ctx); cause != nil && err != nil {
		return nil, cause // the cause, not its consequences
	}
	return r, err
}

func (b *bench) open(ctx context.Context, r *Result) error {
	if _, err := fmt.Fprintf(b.Log, "scratch database %s\n", b.scratch.Name); err != nil {
		return err
	}
	if err := b.scratch.Open(ctx); err != nil {
		return err
	}
	settings, err := b.scratch.Settings(ctx)
	if err != nil {
		return err
	}
	r.PostgresVersion, r.Fsync, r.SynchronousCommit = settings.Version, settings.Fsync, settings.SynchronousCommit
	b.postmaster = postmasterOf(settings.Backend, b.scratch.Name)
	before := clock.Now()
	now, err := b.scratch.Now(ctx)
	after := clock.Now()
	b.offset = now.Sub(before.Add(after.Sub(before) / 2))
	return err
}

// close ends what is left. Children are first, because they have connections.
func (b *bench) close(ctx context.Context) error {
	for _, n := range b.nodes {
		n.kill()
	}
	if b.sink != nil {
		b.sink.child.kill()
	}
	b.scratch.Close()
	if b.Keep {
		_, err := fmt.Fprintf(b.Log, "scratch database %s is kept\n", b.scratch.Name)
		return err
	}
	return b.scratch.Drop(ctx)
}

// load creates the jobs, and the sink that they are delivered to.
func (b *bench) load(ctx context.Context, schedules int) error {
	target := job.Target{Kind: b.Target}
	if b.Target == HTTP {
		var err error
		if b.sink, err = b.startSink(ctx); err != nil {
			return err
		}
		select {
		case url := <-b.sink.url:
			target.Config = json.RawMessage(`{"url":` + strconv.Quote(url) + `}`)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	b.schedules = schedules
	s := newStep(b.Log, "loading jobs", b.Jobs)
	defer s.end()
	return b.scratch.LoadJobs(ctx, scratch.Jobs{
		Definition: job.Definition{
			Name: "bench", Target: target, Payload: json.RawMessage(`"` + strings.Repeat("x", payloadBytes-2) + `"`),
			Policy: job.Policy{Missed: missed},
		},
		Jobs: b.Jobs, Schedules: schedules,
	}, s.set)
}

// missed skips nothing, however late a node is.
var missed = job.Missed{
	Policy: job.MissedAll, CatchUpWindow: job.Duration(24 * time.Hour), Pace: job.Duration(time.Millisecond),
}

// startNodes starts the nodes and waits until together they own all partitions.
func (b *bench) startNodes(ctx context.Context) error {
	s := newStep(b.Log, "starting nodes", job.Partitions)
	defer s.end()
	for i := range b.Nodes {
		args := []string{
			"node", "--slots", strconv.Itoa(b.Node.Slots), "--connections", strconv.Itoa(int(b.Node.Connections)),
			"--look-ahead", b.Node.LookAhead.String(), "--session-ttl", b.Node.SessionTTL.String(),
		}
		if b.scratch.Owned {
			args = append(args, "--owned")
		}
		if b.Profile != "" {
			name := b.Profile
			if i > 0 {
				name += "." + strconv.Itoa(i)
			}
			args = append(args, "--profile", name)
		}
		n, err := spawn(ctx, b.scratch.NodeURL, args, b.starts.read, b.fail)
		if err != nil {
			return err
		}
		b.nodes = append(b.nodes, n)
	}
	return b.poll(ctx, func() (bool, error) {
		partitions, owners, err := b.scratch.Owners(ctx)
		s.set(partitions)
		return partitions == job.Partitions && owners == b.Nodes, err
	})
}

// stop stops the nodes, which report their last starts, and then the sink, which reports what it received.
func (b *bench) stop() error {
	var errs []error
	for _, n := range b.nodes {
		errs = append(errs, n.stop())
	}
	b.nodes = nil
	if b.sink != nil {
		errs = append(errs, b.sink.child.stop())
	}
	return errors.Join(errs...)
}

// poll calls done until it returns true.
func (b *bench) poll(ctx context.Context, done func() (bool, error)) error {
	tick := time.NewTicker(pollPause)
	defer tick.Stop()
	for {
		if ok, err := done(); ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// drain waits until all runs that are due before a time have ended, or no run starts any more. It queries the database
// rarely while there is work to do.
func (b *bench) drain(ctx context.Context, before time.Time, total int) error {
	s := newStep(b.Log, "draining", total)
	defer s.end()
	const rarely = 2 * time.Second
	started, changed, queried := -1, clock.Elapsed(), clock.Elapsed()
	return b.poll(ctx, func() (bool, error) {
		now, n := clock.Elapsed(), b.starts.count()
		s.set(n)
		if n != started {
			started, changed = n, now
		}
		if now-changed > stallTimeout {
			_, err := fmt.Fprintf(b.Log, "nothing has started for %s: what is left counts as lost\n", stallTimeout)
			return true, err
		}
		if n < total && now-queried < rarely {
			return false, nil
		}
		queried = now
		unended, err := b.scratch.Unended(ctx, before)
		return !unended, err
	})
}

// waitUntil waits for a time of the database clock.
func (b *bench) waitUntil(ctx context.Context, name string, at time.Time) error {
	begin := clock.Now().Add(b.offset)
	s := newStep(b.Log, name, int(at.Sub(begin).Seconds())+1)
	defer s.end()
	return b.poll(ctx, func() (bool, error) {
		now := clock.Now().Add(b.offset)
		s.set(int(now.Sub(begin).Seconds()))
		return !now.Before(at), nil
	})
}

// count adds the expected runs to a result: those that succeeded in the ledger and, with a sink, reached it. All others
// are lost.
func (b *bench) count(ctx context.Context, r *Result, expected []scratch.Expected) error {
	deliveries := func(o scratch.Occurrence) int { return o.Attempts }
	if b.sink != nil {
		deliveries = func(o scratch.Occurrence) int { return b.sink.received[job.FormatRunID(o.Key)] }
	}
	var t tally
	err := b.scratch.Occurrences(ctx, expected, func(o scratch.Occurrence) error {
		t.add(o.Succeeded, deliveries(o))
		return nil
	})
	// The number of expected runs is computed, because the database would not know runs that it has lost.
	all := int64(0)
	for _, e := range expected {
		all += int64((b.Jobs - e.Schedule + b.schedules - 1) / b.schedules) // jobs with this number modulo schedules
	}
	r.Runs, r.Lost, r.Duplicates = r.Runs+t.runs, r.Lost+all-t.runs, r.Duplicates+t.duplicates
	return err
}
