package pull_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/pgtest"
	"github.com/belfry-dev/belfry/internal/pull"
	"github.com/belfry-dev/belfry/internal/schedule"
)

const (
	patience = 5 * time.Minute
	pause    = time.Millisecond // between two checks of a condition
)

// bundle is a database and a node that hands out its runs.
type bundle struct {
	t     *testing.T
	pool  *pgxpool.Pool
	store *pgtest.Store
	bound *clock.Bound
	pull  *pull.Puller
}

func setup(t *testing.T) *bundle {
	t.Helper()
	b := &bundle{t: t, pool: pgtest.New(t), bound: &clock.Bound{}}
	b.store = pgtest.NewStore(pgtest.AsServer(t, b.pool))
	require.NoError(t, b.store.CreateHistory(t.Context(), 1))
	var now time.Time
	require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT clock_timestamp()`).Scan(&now))
	b.bound.Set(clock.Sample{Now: now})
	b.pull = b.puller(time.Hour)
	return b
}

// puller starts another node.
func (b *bundle) puller(ttl time.Duration) *pull.Puller {
	p := pull.New(pull.Options{
		Store: b.store, Sessions: b.store, Bound: b.bound, TTL: ttl,
		Log: slog.New(slog.NewTextHandler(b.t.Output(), nil)),
	})
	b.t.Cleanup(p.Stop)
	return p
}

// job creates a job for workers. Its runs are due when it is triggered.
func (b *bundle) job(name, handler string, change func(*job.Definition)) uuid.UUID {
	b.t.Helper()
	d := job.Definition{
		Name: name, Queue: "work", Schedule: schedule.Spec{Every: "24h"}, Payload: json.RawMessage(`{"n":1}`),
		Target: worker(handler), Policy: job.Policy{Overlap: job.OverlapAllow},
	}
	if change != nil {
		change(&d)
	}
	create := job.CreateParams{Namespace: access.DefaultNamespace, Definition: d, Actor: "test"}
	j, err := b.store.CreateJob(b.t.Context(), create)
	require.NoError(b.t, err)
	return j.ID
}

// worker is the target of jobs that workers execute.
func worker(handler string) job.Target {
	return job.Target{Kind: job.WorkerKind, Config: json.RawMessage(fmt.Sprintf(`{"handler":%q}`, handler))}
}

// update changes a job.
func (b *bundle) update(id uuid.UUID, change func(*job.Definition)) {
	b.t.Helper()
	j, err := b.store.Job(b.t.Context(), access.DefaultNamespace, id)
	require.NoError(b.t, err)
	change(&j.Definition)
	_, err = b.store.UpdateJob(b.t.Context(), job.UpdateParams{
		Namespace: access.DefaultNamespace, ID: id, Definition: j.Definition, Actor: "test",
	})
	require.NoError(b.t, err)
}

func (b *bundle) trigger(id uuid.UUID) job.Key {
	b.t.Helper()
	change := job.ChangeParams{Namespace: access.DefaultNamespace, ID: id, Actor: "test"}
	k, err := b.store.TriggerJob(b.t.Context(), change, nil)
	require.NoError(b.t, err)
	return k
}

func (b *bundle) open() job.SessionPath {
	b.t.Helper()
	s, err := b.pull.Open(b.t.Context(), job.SessionParams{
		Namespace: access.DefaultNamespace, Queue: "work", Name: "w", Make: true,
	})
	require.NoError(b.t, err)
	return job.SessionPath{Namespace: access.DefaultNamespace, Queue: "work", ID: s.ID}
}

func (b *bundle) claim(at job.SessionPath, most int, wait time.Duration, handlers ...string) []job.Claimed {
	b.t.Helper()
	got, err := b.pull.Claim(b.t.Context(), at, job.PullParams{Handlers: handlers, Max: most, Wait: wait})
	require.NoError(b.t, err)
	return got
}

// polling starts a poll that waits until the returned function is called, which returns what the poll got.
func (b *bundle) polling(at job.SessionPath, most int, handlers ...string) (end func() []job.Claimed) {
	ctx, cancel := context.WithCancel(b.t.Context())
	b.t.Cleanup(cancel)
	got := make(chan []job.Claimed, 1)
	go func() {
		runs, err := b.pull.Claim(ctx, at, job.PullParams{Handlers: handlers, Max: most, Wait: time.Hour})
		assertNil(b.t, err)
		got <- runs
	}()
	return func() []job.Claimed { cancel(); return <-got }
}

func (b *bundle) succeed(at job.SessionPath, runs ...job.Claimed) []job.GoneReason {
	b.t.Helper()
	why, err := b.pull.Complete(b.t.Context(), at, succeeded(runs))
	require.NoError(b.t, err)
	return why
}

func succeeded(runs []job.Claimed) (done []job.Completion) {
	for _, r := range runs {
		outcome := job.Outcome{Kind: job.Succeeded}
		done = append(done, job.Completion{Key: r.Key, Attempt: r.Number, Outcome: outcome})
	}
	return done
}

// report reports an outcome that the node has to accept.
func (b *bundle) report(s job.SessionPath, r job.Claimed, o job.Outcome) {
	b.t.Helper()
	done := []job.Completion{{Key: r.Key, Attempt: r.Number, Outcome: o}}
	why, err := b.pull.Complete(b.t.Context(), s, done)
	require.NoError(b.t, err)
	require.Equal(b.t, []job.GoneReason{""}, why)
}

func (b *bundle) number(query string, args ...any) (n int) {
	b.t.Helper()
	require.NoError(b.t, b.pool.QueryRow(b.t.Context(), query, args...).Scan(&n))
	return n
}

func (b *bundle) exec(query string, args ...any) {
	b.t.Helper()
	_, err := b.pool.Exec(b.t.Context(), query, args...)
	require.NoError(b.t, err)
}

// waiting waits until n long polls wait.
func (b *bundle) waiting(n int) {
	b.t.Helper()
	require.Eventually(b.t, func() bool { return b.pull.Counts().Waiting == n }, patience, pause)
}

// assertNil is for goroutines, which must not call require.
func assertNil(t *testing.T, err error) bool {
	if err != nil {
		t.Error(err)
	}
	return err == nil
}
