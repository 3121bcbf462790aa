package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/engine"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/pgtest"
	"github.com/belfry-dev/belfry/internal/schedule"
)

// soleMember owns all partitions and never renews: its session outlives the test.
type soleMember struct{ session uuid.UUID }

func (m soleMember) Session() uuid.UUID { return m.session }
func (m soleMember) Valid() bool        { return true }
func (m soleMember) Owns(int16) bool    { return true }
func (m soleMember) Owned() []int16 {
	out := make([]int16, job.Partitions)
	for i := range out {
		out[i] = int16(i)
	}
	return out
}

// recorder is a target that records what it receives, and returns what answer does.
type recorder struct {
	mu     sync.Mutex
	seen   []job.Attempt
	answer func(job.Attempt) job.Outcome
}

func (r *recorder) Deliver(_ context.Context, a job.Attempt) job.Outcome {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen = append(r.seen, a)
	if r.answer != nil {
		return r.answer(a)
	}
	return job.Outcome{Kind: job.Succeeded}
}

func (r *recorder) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.seen)
}

type bundle struct {
	pool   *pgxpool.Pool
	store  *pgtest.Store
	target *recorder
	engine *engine.Engine
	bound  *clock.Bound
}

func setup(t *testing.T) *bundle {
	t.Helper()
	b := &bundle{pool: pgtest.New(t), target: &recorder{}, bound: &clock.Bound{}}
	b.store = pgtest.NewStore(pgtest.AsServer(t, b.pool))
	session, now := b.store.Own(t)
	m := soleMember{session}
	b.bound.Set(now)
	b.engine = engine.New(engine.Options{
		Planner: b.store, Claimer: b.store, Completer: b.store, Member: m, Bound: b.bound,
		Log:     slog.New(slog.NewTextHandler(t.Output(), nil)),
		Targets: map[string]engine.Target{"record": b.target}, LookAhead: 5 * time.Second,
		Slots: 50, // few, so that tests meet the limit
	})
	return b
}

// start runs the engine until the test ends, or until the function is called.
func (b *bundle) start(t *testing.T) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- b.engine.Run(ctx, 5*time.Second) }()
	stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(t, <-ended)
	})
	t.Cleanup(stop)
	return stop
}

func (b *bundle) create(t *testing.T, name string, spec schedule.Spec, change func(*job.Definition)) job.Job {
	t.Helper()
	d := job.Definition{Name: name, Schedule: spec, Target: job.Target{Kind: "record", Config: json.RawMessage(`{}`)}}
	if change != nil {
		change(&d)
	}
	j, err := b.store.CreateJob(t.Context(), job.CreateParams{Namespace: namespace, Definition: d, Actor: "test"})
	require.NoError(t, err)
	return j
}

func (b *bundle) eventually(t *testing.T, what string, query string, want any) {
	t.Helper()
	var got any
	require.Eventually(t, func() bool {
		var n int64
		if err := b.pool.QueryRow(context.Background(), query).Scan(&n); err != nil {
			got = err
			return false
		}
		got = n
		return fmt.Sprint(n) == fmt.Sprint(want)
	}, time.Minute, 20*time.Millisecond, "%s: want %v of %s", what, want, query)
	_ = got
}

// withoutOverdue is a planner whose search for overdue runs finds nothing: what every other way misses never starts.
type withoutOverdue struct {
	engine.Planner
	bound *clock.Bound
}

func (p withoutOverdue) Pending(ctx context.Context, partitions []int16, until time.Time) ([]job.Run, error) {
	if until.Before(p.bound.Now().Add(-2 * time.Second)) { // other searches are for what is still to come
		return nil, nil
	}
	return p.Planner.Pending(ctx, partitions, until)
}

// TestRunsHappenOnTime: each starts at its time, and not when a search for overdue runs finds it.
func TestRunsHappenOnTime(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.engine.Planner = withoutOverdue{b.engine.Planner, b.bound}
	stop := b.start(t)
	const jobs = 40
	end := b.bound.Now().Add(10 * time.Second).Truncate(time.Second)
	b.create(t, "each second", schedule.Spec{Every: "1s", EndAt: end}, func(d *job.Definition) {
		d.Overlap = job.OverlapAllow
		d.Missed = job.Missed{Policy: job.MissedAll, CatchUpWindow: job.Duration(time.Hour)}
	})
	at := b.bound.Now().Add(2 * time.Second).Truncate(time.Second)
	for i := range jobs {
		b.create(t, fmt.Sprintf("once-%d", i), schedule.Spec{At: at.Format(time.RFC3339)}, nil)
	}
	var seconds int
	const count = `SELECT greatest(ceil(extract(epoch FROM $1 - created_at)) - 1, 0)::int FROM job WHERE name = 'each second'`
	require.NoError(t, b.pool.QueryRow(t.Context(), count, end).Scan(&seconds))
	b.eventually(t, "runs end", `SELECT count(*) FROM run_history WHERE ended = 1`, jobs+seconds)
	b.eventually(t, "nothing is left", `SELECT count(*) FROM run`, 0)
	stop()
	require.Equal(t, jobs+seconds, b.target.count(), "each exactly once")
	var early int
	require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT count(*) FROM run_history WHERE ended_at < due_at`).Scan(&early))
	require.Zero(t, early)
}

func TestFailuresAreRetriedAndBuried(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.target.answer = func(a job.Attempt) job.Outcome {
		return job.Outcome{Kind: job.Failed, Retryable: true, Status: 503, Message: "try later"}
	}
	b.start(t)
	b.create(t, "fails", schedule.Spec{At: "2026-01-01T00:00:00Z"}, func(d *job.Definition) {
		d.Retry = job.Retry{MaxAttempts: 3, Backoff: job.BackoffNone}
	})
	b.eventually(t, "a dead letter", `SELECT count(*) FROM dead_letter WHERE reason = 'attempts' AND attempt = 3`, 1)
	b.eventually(t, "history", `
SELECT count(*) FROM run_history WHERE ended = 2 AND status = 503 AND jsonb_array_length(attempts) = 2`, 1)
	require.Equal(t, 3, b.target.count())
}

func TestOverlapSkip(t *testing.T) {
	t.Parallel()
	b := setup(t)
	release := make(chan struct{})
	b.target.answer = nil
	slow := &slowTarget{release: release}
	b.engine.Targets["slow"] = slow
	stop := b.start(t)
	b.create(t, "slow", schedule.Spec{Every: "1s"}, func(d *job.Definition) {
		d.Target.Kind = "slow"
		d.Missed.Policy = job.MissedAll // on a busy machine some are late, and must not be skipped for that
	})
	// One that was due before the first had started is not skipped either.
	b.eventually(t, "skips", `SELECT least(count(*), 3) FROM run_history WHERE ended = 4 AND reason = 'overlap'`, 3)
	close(release)
	b.eventually(t, "the first ends", `SELECT least(count(*), 1) FROM run_history WHERE ended = 1`, 1)
	stop()
	require.Equal(t, 1, slow.most, "never two at the same time")
}

type slowTarget struct {
	mu        sync.Mutex
	now, most int
	release   chan struct{}
}

func (s *slowTarget) Deliver(ctx context.Context, _ job.Attempt) job.Outcome {
	s.mu.Lock()
	s.now++
	s.most = max(s.most, s.now)
	s.mu.Unlock()
	select {
	case <-s.release:
	case <-ctx.Done():
	}
	s.mu.Lock()
	s.now--
	s.mu.Unlock()
	return job.Outcome{Kind: job.Succeeded}
}

func TestLostRunsAreRescued(t *testing.T) {
	t.Parallel()
	b := setup(t)
	j := b.create(t, "lost", schedule.Spec{At: "2026-01-01T00:00:00Z"}, nil)
	// A session that claims and dies.
	dead := uuid.New()
	_, err := b.store.Register(t.Context(), dead, "dead", time.Hour)
	require.NoError(t, err)
	_, err = b.pool.Exec(t.Context(),
		`UPDATE run SET state = 1, attempt = 1, session_id = $1, claimed_at = now()`, dead)
	require.NoError(t, err)
	require.NoError(t, b.store.Unregister(t.Context(), dead))
	b.start(t)
	b.eventually(t, "rescued and run", `SELECT count(*) FROM run_history WHERE ended = 1 AND attempt = 2`, 1)
	require.True(t, slices.ContainsFunc(b.target.seen, func(a job.Attempt) bool {
		return a.Key.Job == j.ID && a.Number == 2
	}))
	// A report of the dead session changes nothing.
	fenced, err := b.store.CompleteSucceeded(
		t.Context(), []job.Completion{{Key: b.target.seen[0].Key, Session: dead, Attempt: 1}},
	)
	require.NoError(t, err)
	require.Equal(t, 1, fenced)
}

func TestFailingJobsArePaused(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.target.answer = func(job.Attempt) job.Outcome {
		return job.Outcome{Kind: job.Failed, Status: 400, Message: "no"}
	}
	b.engine.Targets["gone"] = &recorder{answer: func(job.Attempt) job.Outcome {
		return job.Outcome{Kind: job.Failed, Gone: true, Status: 410}
	}}
	b.start(t)
	// Long enough that the pause comes before a third run, except on a busy machine.
	j := b.create(t, "fails", schedule.Spec{Every: "6s"}, func(d *job.Definition) { d.PauseAfterFailures = 2 })
	b.create(t, "gone", schedule.Spec{Every: "1s"}, func(d *job.Definition) { d.Target.Kind = "gone" })
	b.eventually(t, "both are paused", `SELECT count(*) FROM job WHERE state = 2 AND paused_by = 'belfry'`, 2)
	const buried = `SELECT count(*) FROM dead_letter d JOIN job j ON j.id = d.job_id WHERE j.name = 'fails'`
	b.eventually(t, "after two failures", `SELECT least(n.count, 2) FROM (`+buried+`) n`, 2)
	b.eventually(t, "what has started ends", `
SELECT count(*) FROM run r JOIN job j ON j.id = r.job_id WHERE j.name = 'fails' AND r.state = 1`, 0)
	var before int
	require.NoError(t, b.pool.QueryRow(t.Context(), buried).Scan(&before))
	change, err := b.store.ResumeJob(t.Context(), job.ChangeParams{Namespace: j.Namespace, ID: j.ID})
	require.NoError(t, err)
	require.True(t, change.Changed)
	require.Less(t, change.Missed, int64(30), "only what was due while it was paused")
	b.eventually(t, "it fails twice more before it is paused again", fmt.Sprintf(
		`SELECT least(n.count, %d) FROM (%s AND j.state = 2) n`, before+2, buried), before+2)
}

// cannotPause is a store that cannot pause failing jobs.
type cannotPause struct{ engine.Completer }

func (cannotPause) PauseFailing(context.Context, int) (int, error) {
	return 0, errors.New("cannot pause")
}

// TestANodeEndsAPause: a node resumes a job at the end of its pause, and runs what is due then, even if it fails to pause
// other jobs.
func TestANodeEndsAPause(t *testing.T) {
	t.Parallel()
	b := setup(t)
	j := b.create(t, "paused", schedule.Spec{Every: "1s"}, func(*job.Definition) {})
	var until time.Time
	b.engine.Completer = cannotPause{b.engine.Completer}
	require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT clock_timestamp() + interval '1 h'`).Scan(&until))
	_, err := b.store.PauseJob(t.Context(), job.ChangeParams{Namespace: j.Namespace, ID: j.ID, Until: until}, "")
	require.NoError(t, err)
	// Not at first: on a slow machine it could have passed before the pause.
	_, err = b.pool.Exec(t.Context(), `
WITH e AS (UPDATE job_pause_end SET resume_at = clock_timestamp() + interval '3 s' RETURNING job_id, resume_at)
UPDATE job SET paused_until = e.resume_at FROM e WHERE id = e.job_id`)
	require.NoError(t, err)
	b.start(t)
	b.eventually(t, "it is resumed", `SELECT count(*) FROM job WHERE state = 1 AND paused_until IS NULL`, 1)
	b.eventually(t, "it runs", `SELECT least(count(*), 1) FROM run_history WHERE ended = 1`, 1)
}

func TestRunsOfADeletedJobEnd(t *testing.T) {
	t.Parallel()
	b := setup(t)
	release := make(chan struct{})
	b.target.answer = func(job.Attempt) job.Outcome {
		<-release
		return job.Outcome{Kind: job.Failed, Retryable: true, Status: 503}
	}
	b.start(t)
	j := b.create(t, "deleted", schedule.Spec{At: "2026-01-01T00:00:00Z"}, nil)
	b.eventually(t, "it runs", `SELECT count(*) FROM run WHERE state = 1`, 1)
	_, err := b.store.DeleteJob(t.Context(), job.ChangeParams{Namespace: j.Namespace, ID: j.ID})
	require.NoError(t, err)
	close(release)
	b.eventually(t, "and is not retried", `SELECT count(*) FROM run_history WHERE ended = 3 AND reason = 'deleted'`, 1)
	b.eventually(t, "nothing is left", `SELECT count(*) FROM run`, 0)
}

// refusals is a store that lets a run end when the first attempt to start another run is refused, and notes how long
// after the last refusal that one starts.
type refusals struct {
	*pgtest.Store
	bound   *clock.Bound
	release chan struct{} // has a buffer

	mu      sync.Mutex
	refused map[job.RunKey]time.Duration // by clock.Elapsed
	waits   []time.Duration
}

func (r *refusals) Claim(
	ctx context.Context, session uuid.UUID, keys []job.Key, lead time.Duration,
) ([]job.Attempt, error) {
	out, err := r.Store.Claim(ctx, session, keys, lead)
	for _, a := range out {
		r.started(a.Key)
	}
	return out, err
}

func (r *refusals) started(key job.Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if last, before := r.refused[key.RunKey()]; before {
		r.waits = append(r.waits, clock.Elapsed()-last)
	}
}

func (r *refusals) Admit(
	ctx context.Context, session uuid.UUID, keys []job.Key, lead time.Duration,
) ([]job.Admitted, error) {
	now := r.bound.Now()
	out, err := r.Store.Admit(ctx, session, keys, lead)
	for i, a := range out {
		isDue := !keys[i].DueAt.After(now) // otherwise it is left alone until it is due
		switch {
		case a.Claimed != nil:
			r.started(keys[i])
		case !a.Done && isDue:
			r.refuse(keys[i])
		}
	}
	return out, err
}

func (r *refusals) refuse(key job.Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, before := r.refused[key.RunKey()]; !before {
		r.release <- struct{}{}
	}
	r.refused[key.RunKey()] = clock.Elapsed()
}

func (r *refusals) all() []time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.waits)
}

// A run that waits for another run of its job starts when that one ends, without waiting for a poll. A poll comes no
// earlier than 750 ms after a refusal, so a single run that starts before proves it, and the machine may stall for others.
func TestOverlapQueueStartsWhenTheOtherEnds(t *testing.T) {
	t.Parallel()
	const runs = 6
	b := setup(t)
	slow := &slowTarget{release: make(chan struct{}, 1000)}
	store := &refusals{Store: b.store, bound: b.bound, release: slow.release, refused: map[job.RunKey]time.Duration{}}
	b.engine.Targets["slow"], b.engine.Claimer = slow, store
	b.start(t)
	b.create(t, "queued", schedule.Spec{Every: "1s"}, func(d *job.Definition) {
		d.Target.Kind, d.Overlap = "slow", job.OverlapQueueAll
	})
	require.Eventually(t, func() bool {
		waits := store.all()
		return len(waits) >= 3 && slices.Min(waits) < 500*time.Millisecond
	}, time.Minute, 5*time.Millisecond, "between the refusal and the start")
	for range runs { // the others may end too
		slow.release <- struct{}{}
	}
	b.eventually(t, "they end", fmt.Sprintf(`SELECT least(count(*), %d) FROM run_history WHERE ended = 1`, runs), runs)
	t.Log(store.all())
	slow.mu.Lock()
	defer slow.mu.Unlock()
	require.Equal(t, 1, slow.most)
}

// Runs that a wrong clock makes due could not be undone.
func TestNothingIsPlannedAfterAJumpOfTheClock(t *testing.T) {
	t.Parallel()
	b := setup(t)
	right := b.bound.Now()
	b.bound.Set(clock.Sample{Now: right.Add(time.Hour)})
	b.create(t, "each second", schedule.Spec{Every: "1s"}, nil)
	b.start(t)
	select {
	case <-time.After(2500 * time.Millisecond):
	case <-t.Context().Done():
	}
	require.Zero(t, b.engine.Counts().Planned)
	b.bound.Set(clock.Sample{Now: right.Add(2500 * time.Millisecond)})
	require.Eventually(t, func() bool { return b.target.count() > 0 }, time.Minute, 20*time.Millisecond,
		"planning resumes when the clock is plausible again")
}
