package postgres_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/pgtest"
)

// pulling turns the jobs of a bulk into jobs of workers, and opens a session for them.
func (b *bulk) pulling() (session job.WorkerSession) {
	b.t.Helper()
	b.exec(`UPDATE job SET handler = 'x', target_kind = 'worker', target_config = '{"handler":"x"}', admit = 0`)
	b.exec(`UPDATE run SET handler = 'x', needs_sweep = false, admit = 0, run_at = now() - interval '1 min'
		WHERE state = 0`)
	session = job.WorkerSession{ID: uuid.New()}
	require.NoError(
		b.t,
		b.pool.QueryRow(b.t.Context(), `SELECT namespace_id, queue_id FROM job LIMIT 1`).
			Scan(&session.Namespace, &session.Queue),
	)
	b.exec(
		`INSERT INTO queue (id, namespace_id, name) OVERRIDING SYSTEM VALUE VALUES ($1, $2, 'work')
			ON CONFLICT DO NOTHING`,
		session.Queue, session.Namespace,
	)
	b.exec(`SELECT setval('queue_id_seq', $1 + 1)`, session.Queue)
	b.exec(`INSERT INTO session (id, name, started_at, expires_at, may_own, namespace_id, queue_id)
		VALUES ($1, 'w', now(), now() + interval '1 hour', false, $2, $3)`,
		session.ID, session.Namespace, session.Queue)
	return session
}

func (b *bulk) aPending() (d job.Due) {
	b.t.Helper()
	require.NoError(
		b.t,
		b.pool.QueryRow(b.t.Context(), `SELECT partition, job_id, due_at, seq, handler FROM run
			WHERE state = 0 AND attempt = 0
			LIMIT 1`).
			Scan(&d.Partition, &d.Job, &d.DueAt, &d.Seq, &d.Handler),
	)
	return d
}

func pullFeeds(queue int32) (out []job.Feed) {
	for p := range int16(job.MaxPriority + 1) {
		out = append(out, job.Feed{Queue: queue, Handler: "x", Priority: p})
	}
	return out
}

// pullSteps are the steps of workers that run all the time.
func (b *bulk) pullSteps() []*hot {
	t, ctx := b.t, b.t.Context()
	var w job.WorkerSession
	var got job.PullClaimResult
	var due job.Due
	return []*hot{
		{name: "ScanDue", before: func() { w = b.pulling() }, step: func() {
			_, first, err := b.store.ScanDue(ctx, pullFeeds(w.Queue), job.ScanParams{Ahead: time.Second, Limit: 1})
			require.NoError(t, err)
			require.False(t, first[0].IsZero())
		}, ways: []string{"cluster", "run by queue_id handler priority run_at"}},
		{name: "PullClaim", step: func() {
			var err error
			got, err = b.store.PullClaim(ctx, job.PullClaimParams{
				Namespace: w.Namespace, Queue: w.Queue, Feeds: pullFeeds(w.Queue), Limit: 100,
				Polls: []job.Poll{{Session: w.ID, Handlers: []string{"x"}, Max: 50}},
			})
			require.NoError(t, err)
			require.Len(t, got.Claimed, 50)
		}, ways: []string{
			"cluster", "job by partition id", "namespace by id", "partition", "queue", "run by address",
			"run by partition job_id", "run by partition job_id due_at seq", "run by queue_id handler priority run_at", "session",
		}},
		{name: "Heartbeat", step: func() {
			percent := int16(1)
			_, gone, err := b.store.Heartbeat(
				ctx, w, time.Hour,
				[]job.Lease{{Key: got.Claimed[0].Key, Attempt: got.Claimed[0].Number, Percent: &percent}},
			)
			require.NoError(t, err)
			require.Empty(t, gone)
		}, ways: []string{
			"failover", "job_version by partition job_id version", "queue", "run by address",
			"run by partition job_id due_at seq", "session",
		}},
		{name: "CompletePulled", step: func() {
			var done []job.Completion
			for _, c := range got.Claimed[:20] {
				done = append(done, job.Completion{
					Key:     c.Key,
					Attempt: c.Number,
					Session: w.ID, Namespace: w.Namespace, Queue: w.Queue,
					Outcome: job.Outcome{Kind: job.Succeeded},
				})
			}
			done[1].Outcome = job.Outcome{Kind: job.Failed, Retryable: true}
			reported, err := b.store.CompletePulled(ctx, done)
			require.NoError(t, err)
			require.Empty(t, reported[0].Rejected)
		}, ways: []string{
			"job by partition id", "join of results", "permit by address", "permit by limit_kind limit_id number",
			"queue", "run by address", "run by partition job_id due_at seq", "session",
		}},
		{name: "PullAdmit", before: func() { due = b.aPending() }, step: func() {
			out, err := b.store.PullAdmit(ctx, w.Namespace, w.Queue, w.ID, due)
			require.NoError(t, err)
			require.True(t, out.Done)
			require.NotNil(t, out.Claimed)
		}, ways: []string{
			"cluster", "job by partition id", "namespace by id", "partition", "queue", "run by address",
			"run by partition job_id", "run by partition job_id due_at seq", "session",
		}},
		{
			name:   "RescueWorkers",
			before: func() { b.exec(pgtest.ExpireSession, w.ID) },
			step: func() {
				_, found, err := b.store.RescueWorkers(ctx, 1000)
				require.NoError(t, err)
				require.Equal(t, 31, found)
			},
			ways: nil,
		},
	}
}

// TestWorkersKeepTheirPlan is TestHotStatementsKeepTheirPlan for the statements of workers.
func TestWorkersKeepTheirPlan(t *testing.T) {
	t.Parallel()
	r := &recording{}
	b := setupBulk(t, r)
	b.exec(`ALTER TABLE run SET (autovacuum_enabled = false)`)
	b.exec(`ALTER TABLE job SET (autovacuum_enabled = false)`)
	b.shared(2000)
	b.pending(10)
	steps := b.pullSteps()
	for _, s := range steps {
		if s.before != nil {
			s.before()
		}
		s.sent = r.during(s.step)
	}
	check := func(statistics string) {
		for _, s := range steps {
			for _, mode := range []string{"force_custom_plan", "force_generic_plan"} {
				ways := b.explain(s.sent, mode)
				name := fmt.Sprintf("%s, run %s, %s", s.name, statistics, mode)
				t.Logf("%s: %q", name, ways)
				for _, way := range ways {
					require.NotRegexp(t, scans, way, name)
				}
				if s.ways != nil {
					require.Equal(t, s.ways, ways, name)
				}
			}
		}
	}
	check("never analysed")
	b.exec(`ANALYZE run, job`)
	check("analysed while full")
	b.exec(`CREATE TABLE kept AS SELECT * FROM run`)
	b.exec(`TRUNCATE run`)
	b.exec(`ANALYZE run`)
	b.exec(`INSERT INTO run SELECT * FROM kept`)
	check("analysed while empty")
}
