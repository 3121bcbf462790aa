package postgres_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/pgtest"
	"github.com/belfry-dev/belfry/internal/schedule"
)

// jobs is a store and a namespace for tests about jobs.
type jobs struct {
	t         testing.TB
	store     *pgtest.Store
	pool      *pgxpool.Pool
	namespace uuid.UUID
}

func setupJobs(t testing.TB) *jobs {
	t.Helper()
	pool := pgtest.New(t)
	store := pgtest.NewStore(pool)
	require.NoError(t, store.CreateHistory(t.Context(), 1))
	return &jobs{t: t, store: store, pool: pool, namespace: uuid.New()}
}

// idIn generates an id in a partition.
func idIn(partition int16) uuid.UUID {
	for {
		if id := uuid.Must(uuid.NewV7()); job.PartitionOf(id) == partition {
			return id
		}
	}
}

const partition = int16(7)

func definition(name string, spec schedule.Spec) job.Definition {
	return job.Definition{Name: name, Schedule: spec, Target: job.Target{Kind: "noop"}}
}

var (
	everySecond = schedule.Spec{Every: "1s"}
	everyMinute = schedule.Spec{Every: "1m"}
	everyHour   = schedule.Spec{Every: "1h"}
)

// now reads the database's clock.
func (b *jobs) now() (now time.Time) {
	b.t.Helper()
	require.NoError(b.t, b.pool.QueryRow(b.t.Context(), `SELECT clock_timestamp()`).Scan(&now))
	return now.UTC()
}

// soon is due every second, but not yet, so that nothing becomes due during a test, however slow the machine is.
func (b *jobs) soon(in time.Duration) schedule.Spec {
	b.t.Helper()
	return schedule.Spec{Every: "1s", StartAt: b.now().Add(in)}
}

// create creates a job in the test's partition.
func (b *jobs) create(d job.Definition) job.Job {
	b.t.Helper()
	j, err := b.store.CreateJob(
		b.t.Context(), job.CreateParams{Namespace: b.namespace, ID: idIn(partition), Definition: d, Actor: "ann"},
	)
	require.NoError(b.t, err)
	return j
}

func (b *jobs) update(j job.Job, d job.Definition) job.Job {
	b.t.Helper()
	j, err := b.store.UpdateJob(
		b.t.Context(), job.UpdateParams{Namespace: b.namespace, ID: j.ID, Definition: d, Actor: "bob"},
	)
	require.NoError(b.t, err)
	return j
}

func (b *jobs) pause(j job.Job) job.Change {
	b.t.Helper()
	c, err := b.store.PauseJob(b.t.Context(), job.ChangeParams{Namespace: b.namespace, ID: j.ID}, "on fire")
	require.NoError(b.t, err)
	return c
}

func (b *jobs) resume(j job.Job) job.Change {
	b.t.Helper()
	c, err := b.store.ResumeJob(b.t.Context(), job.ChangeParams{Namespace: b.namespace, ID: j.ID})
	require.NoError(b.t, err)
	return c
}

func (b *jobs) remove(j job.Job) job.Change {
	b.t.Helper()
	c, err := b.store.DeleteJob(b.t.Context(), job.ChangeParams{Namespace: b.namespace, ID: j.ID})
	require.NoError(b.t, err)
	return c
}

func (b *jobs) get(j job.Job) job.Job {
	b.t.Helper()
	got, err := b.store.Job(b.t.Context(), b.namespace, j.ID)
	require.NoError(b.t, err)
	return got
}

// plan plans the test's partition, with a look-ahead.
func (b *jobs) plan(ahead time.Duration) job.Planned {
	b.t.Helper()
	p, err := b.store.Plan(
		b.t.Context(), job.PlanParams{Partitions: []int16{partition}, LookAhead: ahead, Cursors: 100},
	)
	require.NoError(b.t, err)
	require.Empty(b.t, p.Broken)
	return p
}

func (b *jobs) exec(sql string, args ...any) {
	b.t.Helper()
	_, err := b.pool.Exec(b.t.Context(), sql, args...)
	require.NoError(b.t, err)
}

// back moves a job and its cursor into the past, as if it had been created then and no planner had run since.
func (b *jobs) back(j job.Job, d time.Duration) {
	b.t.Helper()
	b.exec(
		`UPDATE job SET plan_from = plan_from - $1::interval, paused_at = paused_at - $1::interval,
			created_at = created_at - $1::interval,
		updated_at = updated_at - $1::interval WHERE id = $2`, d, j.ID,
	)
}

// cursorBack moves the cursor of a job into the past, as if no node had served its partition since.
func (b *jobs) cursorBack(j job.Job, d time.Duration) {
	b.t.Helper()
	b.exec(`UPDATE partition SET missed_until = now() - $1::interval WHERE id = $2`, job.MissedGrace, j.Partition)
	b.exec(
		`UPDATE cursor SET next_due_at = next_due_at - $1::interval WHERE (partition, id) = (SELECT partition, cursor_id
			FROM job WHERE id = $2)`,
		d, j.ID,
	)
}

// entry is a line of the ledger.
type entry struct {
	Due    time.Time
	To     time.Time // of a range
	Count  int64     // of a range; else 1
	Seq    int16
	RunAt  time.Time
	State  job.RunState // of a live one
	Origin job.Origin
	Ended  job.Ended // 0: live
	Reason job.Reason
}

// ledger lists the runs of a job, live and ended.
func (b *jobs) ledger(j job.Job) []entry {
	b.t.Helper()
	all := b.ledgers(`job_id = $1`, j.ID)
	return all[j.ID]
}

// live lists the live runs of a job.
func (b *jobs) live(j job.Job) (out []entry) {
	b.t.Helper()
	for _, e := range b.ledger(j) {
		if e.Ended == 0 {
			out = append(out, e)
		}
	}
	return out
}

// ended lists what is in a job's history.
func (b *jobs) ended(j job.Job) (out []entry) {
	b.t.Helper()
	for _, e := range b.ledger(j) {
		if e.Ended != 0 {
			out = append(out, e)
		}
	}
	return out
}

func (b *jobs) ledgers(where string, args ...any) map[uuid.UUID][]entry {
	b.t.Helper()
	rows, err := b.pool.Query(context.Background(), fmt.Sprintf(`
SELECT job_id, due_at, NULL::timestamptz, 1::bigint, seq, run_at, state, origin, 0::smallint, '' FROM run WHERE %[1]s
UNION ALL
SELECT job_id, due_at, due_to, coalesce(count, 1), seq, run_at, 0::smallint, origin, ended, coalesce(reason, '')
FROM run_history WHERE %[1]s
ORDER BY 1, 2, 5`, where), args...)
	require.NoError(b.t, err)
	out := map[uuid.UUID][]entry{}
	var id uuid.UUID
	var e entry
	var to *time.Time
	_, err = pgx.ForEachRow(
		rows,
		[]any{&id, &e.Due, &to, &e.Count, &e.Seq, &e.RunAt, &e.State, &e.Origin, &e.Ended, &e.Reason},
		func() error {
			e.Due, e.RunAt, e.To = e.Due.UTC(), e.RunAt.UTC(), time.Time{}
			if to != nil {
				e.To = to.UTC()
			}
			out[id] = append(out[id], e)
			return nil
		},
	)
	require.NoError(b.t, err)
	return out
}

// dueTimes are the due times of entries.
func dueTimes(entries []entry) (out []time.Time) {
	for _, e := range entries {
		out = append(out, e.Due)
	}
	return out
}

// grid lists the multiples of step in (from, to].
func grid(step time.Duration, from, to time.Time) (out []time.Time) {
	for t := from.Truncate(step).Add(step); !t.After(to); t = t.Add(step) {
		out = append(out, t.UTC())
	}
	return out
}

func TestAJobIsReadAsItWasWritten(t *testing.T) {
	t.Parallel()
	b := setupJobs(t)
	d := job.Definition{
		Name: "nightly report", Labels: map[string]string{"team": "billing"},
		Schedule: schedule.Spec{Cron: "H 3 * * *", Timezone: "Europe/Berlin", Jitter: "5m"},
		Target:   job.Target{Kind: "http", Config: json.RawMessage(`{"url":"https://example.com"}`)},
		Payload:  json.RawMessage(`{"a": [1, 2]}`),
		Queue:    "reports", Priority: 4,
		Policy: job.Policy{Overlap: job.OverlapQueue, Missed: job.Missed{Policy: job.MissedAll}},
	}
	created := b.create(d)
	require.Equal(t, d.WithDefaults(), created.Definition)
	require.Equal(t, job.Active, created.State)
	require.EqualValues(t, 1, created.Version)
	require.Equal(t, created, b.get(created))
	byName, err := b.store.JobByName(t.Context(), b.namespace, d.Name)
	require.NoError(t, err)
	require.Equal(t, created, byName)

	_, err = b.store.Job(t.Context(), uuid.New(), created.ID)
	require.ErrorIs(t, err, job.ErrNotFound, "of another namespace")
	_, err = b.store.JobByName(t.Context(), b.namespace, "weekly report")
	require.ErrorIs(t, err, job.ErrNotFound)

	var actor, text string
	const first = `SELECT actor, definition FROM job_version WHERE job_id = $1 AND version = 1`
	require.NoError(t, b.pool.QueryRow(t.Context(), first, created.ID).Scan(&actor, &text))
	require.Equal(t, "ann", actor)
	var whole job.Definition
	require.NoError(t, json.Unmarshal([]byte(text), &whole))
	require.Equal(t, whole.Schedule, d.Schedule)
}
