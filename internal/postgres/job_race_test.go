package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/auditor"
	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/schedule"
)

// raceSchedules are few, so that many jobs share a cursor. Pairs of them have the same due times and different cursors,
// so that an edit from one to the other must neither lose nor duplicate a run.
var raceSchedules = []struct {
	spec schedule.Spec
	step int64
}{
	{schedule.Spec{Every: "1s"}, 1},
	{schedule.Spec{Cron: "* * * * * *"}, 1},
	{schedule.Spec{Every: "2s"}, 2},
	{schedule.Spec{Cron: "*/2 * * * * *"}, 2},
}

const (
	raceLookAhead = 2 * time.Second
	raceWorkers   = 6
	raceSlots     = 250
	hotSlots      = 3 // a third of the operations goes to these, and all when a second begins
)

// race runs operations on jobs against planners.
type race struct {
	*jobs
	partitions []int16
	operations atomic.Int64
	conflicts  atomic.Int64
	planned    atomic.Int64
	bulks      atomic.Int64
	begun      atomic.Int64
	outage     atomic.Bool

	mu    sync.Mutex
	slots [raceSlots]uuid.UUID
	lives map[uuid.UUID]*biography
}

// TestThePlannerRace: operations from many goroutines on jobs that share
// cursors, against two planners of the same partitions. Each occurrence that
// was due by the acknowledged operations must be in the ledger exactly once.
//
// It lasts 12 seconds, because errors can only occur where a second begins, and runs at least as many operations as
// BELFRY_RACE_OPS says. On a slow machine it lasts until all that it is about has happened.
func TestThePlannerRace(t *testing.T) {
	t.Parallel()
	lasts := 12 * time.Second
	if testing.Short() {
		lasts = 4 * time.Second
	}
	operations, _ := strconv.ParseInt(os.Getenv("BELFRY_RACE_OPS"), 10, 64)
	r := &race{jobs: setupJobs(t), partitions: []int16{7, 200}, lives: map[uuid.UUID]*biography{}}
	enough, cancel := context.WithTimeout(t.Context(), lasts)
	defer cancel()
	late, cancelLate := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancelLate()
	planners, stop := context.WithCancel(t.Context())
	defer stop()
	var planning, working sync.WaitGroup
	planning.Go(func() { r.keepPlanning(planners, 20*time.Millisecond, anywhere) })
	planning.Go(func() { r.keepPlanning(planners, 200*time.Millisecond, whereASecondBegins) })
	planning.Go(func() { r.breakPlanners(planners) })
	for range raceWorkers {
		working.Go(func() {
			for enough.Err() == nil || r.operations.Load() < operations || late.Err() == nil && !r.complete() {
				r.operations.Add(1)
				r.operate()
			}
		})
	}
	working.Go(func() { // an audit meets every change half-way
		for enough.Err() == nil {
			r.audited(true)
		}
	})
	working.Wait()
	stop()
	planning.Wait()
	r.resumeAll()
	end := r.planAll()
	v := r.judge(end)
	r.audited(false)
	var deadlocks int
	require.NoError(
		t,
		r.pool.QueryRow(t.Context(), `SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()`).
			Scan(&deadlocks),
	)
	t.Logf(
		"operations=%d bulks=%d jobs=%d plans=%d begun=%d occurrences=%d missing=%d extra=%d wrong=%d conflicts=%d"+
			" deadlocks=%d",
		r.operations.Load(), r.bulks.Load(), len(r.lives), r.planned.Load(), r.begun.Load(), v.occurrences, v.missing,
		v.extra, v.wrong, r.conflicts.Load(), deadlocks,
	)
	require.Zero(t, v.missing+v.extra+v.wrong, strings.Join(v.first[:min(len(v.first), 12)], "\n"))
	require.Zero(t, r.conflicts.Load(), "an operation gave up")
	require.Zero(t, deadlocks)
	require.Positive(t, r.bulks.Load())
	require.Positive(t, r.begun.Load(), "no operation met a cursor between two jobs")
}

// complete reports whether jobs were created in bulk, and an operation met a cursor between two jobs.
func (r *race) complete() bool { return r.bulks.Load() > 0 && r.begun.Load() > 0 }

// audited requires that the audit finds nothing.
func (r *race) audited(oracle bool) {
	a := r.audit(auditor.Params{Oracle: oracle})
	if a.Wrong()+a.Duplicates+a.Unreadable > 0 {
		r.t.Errorf("the audit found %+v: %s", a.Findings[:min(len(a.Findings), 5)], &a)
	}
}

// keepPlanning is one of the planners. It writes so few runs in a transaction that cursors stop between two jobs.
func (r *race) keepPlanning(ctx context.Context, often time.Duration, lookAhead func() time.Duration) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(rand.N(often)):
		}
		if r.outage.Load() {
			continue
		}
		// Not ctx: a plan that is cancelled half-way would test something else.
		_, err := r.store.Plan(
			context.WithoutCancel(ctx),
			job.PlanParams{
				Partitions: r.partitions, LookAhead: lookAhead(), Cursors: 1 + rand.IntN(8), Runs: 1 + rand.IntN(25),
			},
		)
		if !r.check(err) {
			return
		}
		r.planned.Add(1)
		r.noteBegun(context.WithoutCancel(ctx))
	}
}

// noteBegun counts cursors that stand between two jobs of one due time.
func (r *race) noteBegun(ctx context.Context) {
	var n int64
	err := r.pool.QueryRow(ctx, `SELECT count(*) FROM cursor WHERE after_job IS NOT NULL`).Scan(&n)
	if r.check(err) {
		r.begun.Add(n)
	}
}

// anywhere is a random look-ahead.
func anywhere() time.Duration { return rand.N(raceLookAhead / 4) }

// whereASecondBegins is a look-ahead that ends where a second begins. If a planner read the clock twice, it would lose
// what is due between the two readings.
func whereASecondBegins() time.Duration {
	now := clock.Now()
	return now.Truncate(time.Second).Add(raceLookAhead).Sub(now) - rand.N(time.Millisecond)
}

// nearSecond reports whether a due time is near, by this machine's clock. If the database runs on another machine, the
// race is slightly less hard.
func nearSecond() bool {
	now := clock.Now()
	return now.Sub(now.Round(time.Second)).Abs() < 30*time.Millisecond
}

// breakPlanners stops the planners from time to time for longer than their look-ahead, so that operations meet cursors
// that are behind.
func (r *race) breakPlanners(ctx context.Context) {
	for {
		r.outage.Store(false)
		select {
		case <-ctx.Done():
			return
		case <-time.After(2 * time.Second):
		}
		r.outage.Store(true)
		select {
		case <-ctx.Done():
			return
		case <-time.After(raceLookAhead + rand.N(time.Second)):
		}
	}
}

// check reports an error that an operation must not return. Any goroutine may call it.
func (r *race) check(err error) bool {
	switch {
	case err == nil:
		return true
	case errors.Is(err, job.ErrNotFound): // another deleted it
	case errors.Is(err, job.ErrConflict):
		r.conflicts.Add(1)
	default:
		r.t.Errorf("an operation failed: %v", err)
	}
	return false
}

// operate does something to a job.
func (r *race) operate() {
	slot := rand.IntN(raceSlots)
	if nearSecond() || rand.IntN(3) == 0 {
		slot %= hotSlots
	}
	r.mu.Lock()
	id := r.slots[slot]
	r.mu.Unlock()
	ctx := context.Background()
	if id == uuid.Nil {
		r.create(slot)
		return
	}
	switch n := rand.IntN(100); {
	case n < 40:
		which := raceSchedules[rand.IntN(len(raceSchedules))]
		j, err := r.store.UpdateJob(
			ctx, job.UpdateParams{Namespace: r.namespace, ID: id, Definition: r.definition(id, which.spec)},
		)
		if r.check(err) {
			r.record(id, deed{"edit", j.UpdatedAt, which.step})
		}
	case n < 62:
		c, err := r.store.PauseJob(ctx, job.ChangeParams{Namespace: r.namespace, ID: id}, "race")
		if r.check(err) && c.Changed {
			r.record(id, deed{kind: "pause", at: c.Now})
		}
	case n < 84:
		c, err := r.store.ResumeJob(ctx, job.ChangeParams{Namespace: r.namespace, ID: id})
		if r.check(err) && c.Changed {
			r.record(id, deed{kind: "resume", at: c.Now})
		}
	case n < 90:
		c, err := r.store.DeleteJob(ctx, job.ChangeParams{Namespace: r.namespace, ID: id})
		if r.check(err) {
			r.record(id, deed{kind: "delete", at: c.Now})
			r.mu.Lock()
			r.slots[slot] = uuid.Nil
			r.mu.Unlock()
		}
	default:
		key, err := r.store.TriggerJob(ctx, job.ChangeParams{Namespace: r.namespace, ID: id}, nil)
		if r.check(err) {
			r.mu.Lock()
			r.lives[id].triggers[key.DueAt]++
			r.mu.Unlock()
		}
	}
}

// definition returns the definition of a job. Its policy for missed occurrences of a pause depends only on its id.
func (r *race) definition(id uuid.UUID, spec schedule.Spec) job.Definition {
	d := definition(id.String(), spec)
	// Whatever an outage of the planners delays runs in the end: no skips of cursors.
	d.Missed = job.Missed{Policy: job.MissedAll, CatchUpWindow: job.MaxCatchUpWindow, Max: job.MaxMissed}
	d.Missed.Paused = []job.MissedPolicy{job.MissedSkip, job.MissedOnce, job.MissedAll}[id[15]%3]
	return d
}

// create creates one job, or several at once: the first in the slot, the others in free slots.
func (r *race) create(slot int) {
	bulk := job.BulkParams{Namespace: r.namespace}
	steps := map[uuid.UUID]int64{}
	for range 1 + rand.IntN(12)*rand.IntN(2) {
		id, which := idIn(r.partitions[rand.IntN(len(r.partitions))]), raceSchedules[rand.IntN(len(raceSchedules))]
		bulk.Jobs = append(bulk.Jobs, job.NewJob{ID: id, Definition: r.definition(id, which.spec)})
		steps[id] = which.step
	}
	made := make([]job.BulkResult, 1)
	var err error
	if first := bulk.Jobs[0]; len(bulk.Jobs) == 1 {
		made[0].Job, err = r.store.CreateJob(
			context.Background(),
			job.CreateParams{Namespace: r.namespace, ID: first.ID, Definition: first.Definition},
		)
	} else {
		r.bulks.Add(1)
		made, err = r.store.CreateJobs(context.Background(), bulk)
	}
	if !r.check(err) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, m := range made {
		if m.Err != nil {
			r.t.Errorf("one of a bulk failed: %v", m.Err)
			continue
		}
		id := m.Job.ID
		r.lives[id] = &biography{
			id:       id,
			deeds:    []deed{{"create", m.Job.CreatedAt, steps[id]}},
			triggers: map[time.Time]int{},
		}
		if at := (slot + i) % raceSlots; r.slots[at] == uuid.Nil {
			r.slots[at] = id
		}
	}
}

func (r *race) record(id uuid.UUID, d deed) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lives[id].deeds = append(r.lives[id].deeds, d)
}

// resumeAll ends every pause, because only then the occurrences of a pause are in the ledger.
func (r *race) resumeAll() {
	for id, life := range r.lives {
		c, err := r.store.ResumeJob(r.t.Context(), job.ChangeParams{Namespace: r.namespace, ID: id})
		if errors.Is(err, job.ErrNotFound) {
			require.True(r.t, life.has("delete"), "%s is gone", id)
			continue
		}
		require.NoError(r.t, err)
		if c.Changed {
			life.deeds = append(life.deeds, deed{kind: "resume", at: c.Now})
		}
	}
}

// planAll plans as far as the planners could have, and returns until when.
func (r *race) planAll() time.Time {
	for {
		p, err := r.store.Plan(
			r.t.Context(), job.PlanParams{Partitions: r.partitions, LookAhead: raceLookAhead, Cursors: 100},
		)
		require.NoError(r.t, err)
		require.Empty(r.t, p.Broken)
		if p.Cursors == 0 {
			return p.Now.Add(raceLookAhead)
		}
	}
}

// judge compares all ledgers. The operations of a job must be in order.
func (r *race) judge(end time.Time) (v verdict) {
	ledgers := r.ledgers(`true`)
	for id, life := range r.lives {
		v.add(life.judge(ledgers[id], end))
		for i := 1; i < len(life.deeds); i++ {
			require.True(r.t, life.deeds[i].at.After(life.deeds[i-1].at), "two changes at one instant: %+v", life.deeds)
		}
		delete(ledgers, id)
	}
	for id, l := range ledgers {
		v.note(&v.extra, "%d runs of %s, which nobody made", len(l), fmt.Sprint(id))
	}
	var skips int
	require.NoError(r.t, r.pool.QueryRow(r.t.Context(), `SELECT count(*) FROM cursor_skip`).Scan(&skips))
	v.wrong += skips
	return v
}
