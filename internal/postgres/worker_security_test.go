package postgres_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/pgtest"
)

func (b *bulk) count(what string) (n int) {
	b.t.Helper()
	require.NoError(b.t, b.pool.QueryRow(b.t.Context(), `SELECT count(*) FROM `+what).Scan(&n))
	return n
}

// TestWorkersReachNothingOfOthers: what a node does for a worker, or for a target that reports, cannot read or change
// rows of another namespace, even with the right ids. So a condition that is missing in a statement gives nothing away.
func TestWorkersReachNothingOfOthers(t *testing.T) {
	t.Parallel()
	b := setupBulk(t, nil)
	ctx, store := t.Context(), pgtest.NewStore(pgtest.AsServer(t, b.pool))
	b.shared(20)
	b.pending(2)
	theirs := b.pulling()
	mine, _, err := store.OpenSession(
		ctx, job.SessionParams{Namespace: uuid.New(), Queue: "mine", Make: true, Name: "m", TTL: time.Hour},
	)
	require.NoError(t, err)
	claim := func(w job.WorkerSession, feeds int32) job.PullClaimResult {
		got, err := store.PullClaim(ctx, job.PullClaimParams{
			Namespace: w.Namespace, Queue: w.Queue, Feeds: pullFeeds(feeds), Limit: 100,
			Polls: []job.Poll{{Session: w.ID, Handlers: []string{"x"}, Max: 3}},
		})
		require.NoError(t, err)
		return got
	}
	got := claim(theirs, theirs.Queue)
	require.Len(t, got.Claimed, 3)
	run := got.Claimed[0]
	lease := job.Lease{Key: run.Key, Attempt: run.Number}
	due := b.aPending()
	state := func() string {
		var text string
		require.NoError(t, b.pool.QueryRow(ctx, `SELECT string_agg(row_to_json(x)::text, '' ORDER BY x.session_id)
			FROM (SELECT *, session_id IS NULL FROM run) x`).Scan(&text))
		require.Equal(t, 1, b.count(`session WHERE id = '`+theirs.ID.String()+`' AND expires_at > now()`))
		return text
	}
	before := state()

	wrong := theirs // what a statement would see that forgets the namespace
	wrong.Namespace = mine.Namespace
	require.Empty(t, claim(mine, theirs.Queue).Claimed)
	require.True(t, claim(wrong, theirs.Queue).Paused)
	admitted, err := store.PullAdmit(ctx, mine.Namespace, theirs.Queue, theirs.ID, due)
	require.NoError(t, err)
	require.Nil(t, admitted.Claimed)
	_, _, err = store.Heartbeat(ctx, wrong, time.Hour, []job.Lease{lease})
	require.ErrorIs(t, err, job.ErrSessionExpired)
	require.NoError(t, store.EndSession(ctx, wrong))
	require.NoError(t, store.NoteHandlers(ctx, wrong, []string{"y"}))
	require.Zero(t, b.count(`session WHERE 'y' = ANY (handlers)`))
	for _, kind := range []job.OutcomeKind{job.Succeeded, job.Failed} {
		out, err := store.CompletePulled(ctx, []job.Completion{{
			Key: run.Key, Attempt: run.Number, Session: theirs.ID, Namespace: mine.Namespace, Queue: mine.Queue,
			Outcome: job.Outcome{Kind: kind},
		}})
		require.NoError(t, err)
		require.Equal(t, []job.Reported{{Rejected: job.GoneLost}}, out)
	}
	report := access.Report{
		Namespace: mine.Namespace, Key: run.Key, Session: theirs.ID, Attempt: run.Number,
		Until: clock.Now().Add(time.Hour),
	}
	require.ErrorIs(t, store.ReportRun(ctx, report, job.Outcome{Kind: job.Succeeded}), job.ErrStale)
	_, err = store.HeartbeatRun(ctx, report)
	require.ErrorIs(t, err, job.ErrStale)
	require.Equal(t, before, state())

	// Their own worker and target can do all of it.
	report.Namespace = theirs.Namespace
	_, err = store.HeartbeatRun(ctx, report)
	require.NoError(t, err)
	require.NoError(t, store.ReportRun(ctx, report, job.Outcome{Kind: job.Succeeded}))
	_, gone, err := store.Heartbeat(ctx, theirs, time.Hour, []job.Lease{lease})
	require.NoError(t, err)
	require.Len(t, gone, 1)
	require.NoError(t, store.EndSession(ctx, theirs))
}

// reports are those of workers of three namespaces, half of them failures, on runs that they have claimed.
func (b *bulk) reports(store *pgtest.Store) (done []job.Completion) {
	ctx, t := b.t.Context(), b.t
	b.shared(20)
	b.pending(1)
	sessions := []job.WorkerSession{b.pulling()}
	for range 2 {
		w, _, err := store.OpenSession(
			ctx, job.SessionParams{Namespace: uuid.New(), Queue: "q", Make: true, Name: "w", TTL: time.Hour},
		)
		require.NoError(t, err)
		sessions = append(sessions, w)
		b.exec(`WITH j AS (UPDATE job SET namespace_id = $1, queue_id = $2
				WHERE id IN (SELECT id FROM job WHERE queue_id = $3 ORDER BY id LIMIT 5) RETURNING id)
			UPDATE run SET queue_id = $2 WHERE job_id IN (SELECT id FROM j)`, w.Namespace, w.Queue, sessions[0].Queue)
	}
	for i, w := range sessions {
		got, err := store.PullClaim(ctx, job.PullClaimParams{
			Namespace: w.Namespace, Queue: w.Queue, Feeds: pullFeeds(w.Queue), Limit: 100,
			Polls: []job.Poll{{Session: w.ID, Handlers: []string{"x"}, Max: 4}},
		})
		require.NoError(t, err)
		require.Len(t, got.Claimed, 4)
		for n, c := range got.Claimed {
			o := job.Outcome{Kind: job.Succeeded}
			if n%2 == i%2 {
				o = job.Outcome{Kind: job.Failed, Message: "no"}
			}
			done = append(done, job.Completion{
				Key: c.Key, Attempt: c.Number, Session: w.ID, Namespace: w.Namespace, Queue: w.Queue, Outcome: o,
			})
		}
	}
	return done
}

// TestOneBatchOfReportsFromSeveralNamespaces: each is accepted in its own namespace and queue.
func TestOneBatchOfReportsFromSeveralNamespaces(t *testing.T) {
	t.Parallel()
	b := setupBulk(t, nil)
	store := pgtest.NewStore(pgtest.AsServer(t, b.pool))
	done := b.reports(store)
	out, err := store.CompletePulled(t.Context(), append(done, job.Completion{
		Key: done[0].Key, Attempt: 77, Session: done[0].Session, Namespace: done[0].Namespace, Queue: done[0].Queue,
	}))
	require.NoError(t, err)
	for i, r := range out {
		require.NoError(t, r.Err)
		require.Equal(t, i == len(done), r.Rejected != "", i)
	}
	require.Zero(t, b.count(`run WHERE state <> 0`))
	require.Equal(t, len(done), b.count(`run_history`))
}

// TestReportsOfOneNamespaceFail: those of the others in the same batch are written, and its own can be sent again.
func TestReportsOfOneNamespaceFail(t *testing.T) {
	t.Parallel()
	b := setupBulk(t, nil)
	ctx, store := t.Context(), pgtest.NewStore(pgtest.AsServer(t, b.pool))
	done := b.reports(store)
	blocked := done[0]
	require.Equal(t, job.Failed, blocked.Outcome.Kind)
	tx, err := b.pool.Begin(ctx)
	require.NoError(t, err)
	_, err = tx.Exec(ctx, `SELECT FROM run WHERE job_id = $1 FOR UPDATE`, blocked.Key.Job)
	require.NoError(t, err)
	out, err := store.CompletePulled(ctx, done)
	require.NoError(t, err)
	for i, r := range out {
		failed := done[i].Namespace == blocked.Namespace && done[i].Outcome.Kind == job.Failed
		require.Equal(t, failed, r.Err != nil, "%d: %v", i, r.Err)
		require.Empty(t, r.Rejected)
	}
	require.NoError(t, tx.Rollback(ctx))
	out, err = store.CompletePulled(ctx, done[:4])
	require.NoError(t, err)
	for i, r := range out {
		require.NoError(t, r.Err)
		require.Equal(t, done[i].Outcome.Kind != job.Failed, r.Rejected != "", "a success was written before")
	}
	require.Equal(t, len(done), b.count(`run_history`))
}

// TestAQueuesScopeIsItsRuns: a transaction of queues alone sees their runs, history and permits, and no other row.
func TestAQueuesScopeIsItsRuns(t *testing.T) {
	t.Parallel()
	b := setupBulk(t, nil)
	b.shared(20)
	b.pending(2)
	w := b.pulling()
	b.exec(`INSERT INTO permit (limit_kind, limit_id, number, queue_id, partition, job_id, due_at, seq)
		SELECT 1, queue_id, row_number() OVER (), queue_id, partition, job_id, due_at, seq FROM run`)
	b.exec(`INSERT INTO run_history (partition, seq, version, job_id, due_at, run_at, ended_at, ended, attempt, origin,
			status, queue_id)
		SELECT partition, seq, 1, job_id, due_at, run_at, now(), 1, 1, 0, 0, queue_id FROM run`)
	for _, table := range []string{"run", "run_history", "permit"} {
		b.exec(`UPDATE ` + table + ` SET queue_id = queue_id + 1000 WHERE job_id IN (SELECT id FROM job ORDER BY id LIMIT 5)`)
	}
	pool := pgtest.AsServer(t, b.pool)
	for _, table := range tables {
		want := 0
		if table == "run" || table == "run_history" || table == "permit" {
			want = 30
			require.Equal(t, 40, b.count(table))
		}
		inTx(t, pool, "none", func(tx pgx.Tx) {
			_, err := tx.Exec(t.Context(), `SELECT set_config('belfry.queues', $1::integer[]::text, true)`,
				[]int32{w.Queue, -1})
			require.NoError(t, err)
			var n int
			where := ""
			if table == "session" {
				where = " WHERE namespace_id IS NOT NULL" // all see the sessions of nodes
			}
			require.NoError(t, tx.QueryRow(t.Context(), `SELECT count(*) FROM `+table+where).Scan(&n))
			require.Equal(t, want, n, table)
		})
	}
}

// TestWorkersTransactionsAreRestricted: each transaction for a worker begins by taking the role that row-level security
// restricts, until its end: behind a pooler, the next transaction of the connection may be another client's.
func TestWorkersTransactionsAreRestricted(t *testing.T) {
	t.Parallel()
	r := &recording{}
	b := setupBulk(t, r)
	b.shared(200)
	b.pending(2)
	for _, s := range b.pullSteps() {
		if s.before != nil {
			s.before()
		}
		sent := r.during(s.step)
		if s.name == "ScanDue" || s.name == "RescueWorkers" { // a node's own, for all namespaces
			continue
		}
		first := true
		for _, one := range sent {
			switch one.sql {
			case "begin":
			case "commit":
				first = true
			default:
				if first {
					require.Contains(t, one.sql, `set_config('role', 'belfry_api', true)`, s.name)
				}
				first = false
				require.LessOrEqual(t, strings.Count(one.sql, "set_config("), strings.Count(one.sql, ", true)"), one.sql)
			}
		}
	}
}
