package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/postgres"
)

const (
	bareConnections = 2
	bareBatch       = 1000
	barePartitions  = 16 // planned at a time
)

// bare calls the store's plan, claim and complete as fast as it can, and nothing else. Its rate is the maximum that the
// engine could reach.
type bare struct {
	store   *postgres.Engine
	members *postgres.Members
	session uuid.UUID
	cursors int // whose runs fill about one batch
	runs    atomic.Int64
}

// bareRound works through the backlog with the calls of the store alone.
func (b *bench) bareRound(ctx context.Context, l backlog, round int, sum *rates) error {
	if err := b.scratch.Rewind(ctx); err != nil {
		return err
	}
	db, err := postgres.Open(ctx, b.scratch.NodeURL, bareConnections, postgres.Options{})
	if err != nil {
		return err
	}
	defer db.Close()
	perCursor := max(1, b.Jobs/(len(l.cursors)*job.Partitions))
	w := &bare{store: db.Engine(), members: db.Members(), session: uuid.New(), cursors: max(1, bareBatch/perCursor)}
	if err := w.own(ctx); err != nil {
		return err
	}
	if err := b.scratch.LoadCursors(ctx, l.cursors); err != nil {
		return err
	}
	s := newStep(b.Log, fmt.Sprintf("bare SQL, round %d", round+1), b.Jobs)
	defer s.end()
	if err := w.work(ctx, s.set); err != nil {
		return err
	}
	s.set(int(w.runs.Load()))
	if err := w.members.Unregister(ctx, w.session); err != nil {
		return err
	}
	if n := int(w.runs.Load()); n != b.Jobs {
		return fmt.Errorf("bare SQL ended %d runs of %d", n, b.Jobs)
	}
	return b.addRound(ctx, l, w.runs.Load(), sum)
}

// own makes the session the owner of all partitions.
func (w *bare) own(ctx context.Context) error {
	if err := w.store.CreateHistory(ctx, 1); err != nil {
		return err
	}
	if _, err := w.members.Register(ctx, w.session, "bare", time.Hour); err != nil {
		return err
	}
	all, err := w.members.Ownerships(ctx)
	if err != nil {
		return err
	}
	taken, err := w.members.Take(ctx, w.session, all)
	if err == nil && len(taken) != len(all) {
		err = fmt.Errorf("took %d partitions of %d", len(taken), len(all))
	}
	return err
}

func (w *bare) work(ctx context.Context, progress func(int)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	errs := make([]error, bareConnections)
	var all sync.WaitGroup
	for i := range bareConnections {
		all.Go(func() {
			if errs[i] = w.workOn(ctx, i); errs[i] != nil {
				cancel()
			}
		})
	}
	done := make(chan struct{})
	go func() { all.Wait(); close(done) }()
	tick := time.NewTicker(pollPause)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return errors.Join(errs...)
		case <-tick.C:
			progress(int(w.runs.Load()))
		}
	}
}

// workOn uses one connection for its share of the partitions.
func (w *bare) workOn(ctx context.Context, i int) error {
	for from := i; from < job.Partitions; from += barePartitions * bareConnections {
		var part []int16
		for p := from; p < job.Partitions && len(part) < barePartitions; p += bareConnections {
			part = append(part, int16(p))
		}
		for more := true; more; {
			planned, err := w.store.Plan(ctx, job.PlanParams{Partitions: part, Cursors: w.cursors})
			if err != nil {
				return err
			}
			if err := w.end(ctx, planned.Runs); err != nil {
				return err
			}
			more = planned.More
		}
	}
	return nil
}

// end claims and completes runs.
func (w *bare) end(ctx context.Context, runs []job.Run) error {
	keys := make([]job.Key, len(runs))
	for i, r := range runs {
		keys[i] = r.Key
	}
	claimed, err := w.store.Claim(ctx, w.session, keys, 0)
	if err != nil {
		return err
	}
	done := make([]job.Completion, len(claimed))
	for i, a := range claimed {
		done[i] = a.Completion(job.Outcome{Kind: job.Succeeded})
	}
	fenced, err := w.store.CompleteSucceeded(ctx, done)
	w.runs.Add(int64(len(done) - fenced))
	return err
}
