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
	// stallTimeout is how long nothing may start while something is due before
	// the rest is counted as lost. Longer than the retries of a failed delivery.
	stallTimeout = 2 * time.Minute
)

// bench is a benchmark under way: a scratch database and the processes on it.
type bench struct {
	Options
	scratch    *scratch.Database
	postmaster int           // 0: not on this machine
	offset     time.Duration // of the database's clock from this machine's
	starts     starts
	nodes      []*child
	sink       *sink // nil: noop
	schedules  int   // distinct ones
	fail       context.CancelCauseFunc
}

// measure makes the database, lets work measure, and removes everything again:
// also after an error, and when ctx ends.
func measure(ctx context.Context, o Options, name string, work func(*bench, context.Context, *Result) error) (r *Result, err error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	made, err := scratch.Create(ctx, o.Node.DatabaseURL)
	if err != nil {
		return nil, err
	}
	whole := context.WithoutCancel(ctx)
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	b := &bench{Options: o, scratch: made, fail: fail}
	defer func() { err = errors.Join(err, b.close(whole)) }()
	r = &Result{Setting: Setting{Bench: name, Jobs: o.Jobs, Target: o.Target, Nodes: o.Nodes, Cores: runtime.NumCPU()}}
	err = b.open(ctx, r)
	if err == nil {
		err = work(b, ctx, r)
	}
	if cause := context.Cause(ctx); cause != nil && err != nil {
		return nil, cause // why, and not what it led to
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

// close ends what is still there. Children first: they hold connections.
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

// load makes the jobs, and the sink that they go to.
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

// missed lets nothing be skipped, however late a node is.
var missed = job.Missed{Policy: job.MissedAll, CatchUpWindow: job.Duration(24 * time.Hour), Pace: job.Duration(time.Millisecond)}

// startNodes starts nodes and waits until they share all partitions.
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

// stop asks the nodes to end, in which they tell the last of their starts, and
// then the sink, which tells what it received.
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

// poll asks done again and again, until it says so.
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

// drain waits until all that is due before a time has ended, or nothing starts
// any more. The database is asked rarely as long as it has work to do.
func (b *bench) drain(ctx context.Context, before time.Time, total int) error {
	s := newStep(b.Log, "draining", total)
	defer s.end()
	const rarely = 2 * time.Second
	started, changed, asked := -1, clock.Elapsed(), clock.Elapsed()
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
		if n < total && now-asked < rarely {
			return false, nil
		}
		asked = now
		unended, err := b.scratch.Unended(ctx, before)
		return !unended, err
	})
}

// waitUntil waits for a time of the database's clock.
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

// count adds to a result what happened of what had to: a run is in the ledger as
// succeeded and, with a sink, reached it. All others are lost.
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
	// How many there had to be is not asked of the database: what it lost it would not tell.
	all := int64(0)
	for _, e := range expected {
		all += int64((b.Jobs - e.Schedule + b.schedules - 1) / b.schedules) // the jobs with that number modulo schedules
	}
	r.Runs, r.Lost, r.Duplicates = r.Runs+t.runs, r.Lost+all-t.runs, r.Duplicates+t.duplicates
	return err
}
