package postgres_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/pgtest"
	"github.com/belfry-dev/belfry/internal/pull"
	"github.com/belfry-dev/belfry/internal/server"
)

// TestWorkersNeedNoOtherRole walks everything that a node does for workers, and for targets that report, with a login
// that can do nothing but take the role that row-level security restricts. So each of their statements takes it.
func TestWorkersNeedNoOtherRole(t *testing.T) {
	t.Parallel()
	b := setupBulk(t, nil)
	ctx := t.Context()
	b.shared(20)
	b.pending(2)
	w := b.pulling()
	q, err := b.pool.Query(ctx, `SELECT name FROM queue WHERE id = $1`, w.Queue)
	require.NoError(t, err)
	w.QueueName, err = pgx.CollectExactlyOneRow(q, pgx.RowTo[string])
	require.NoError(t, err)
	login := pgtest.Role(t, b.pool.Config().ConnString(), "LOGIN NOINHERIT")
	b.exec(`GRANT belfry_api TO ` + login)
	config := b.pool.Config().Copy()
	config.ConnConfig.User = login
	pool, err := pgxpool.NewWithConfig(ctx, config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	_, err = pool.Exec(ctx, `SELECT FROM run`)
	require.ErrorContains(t, err, "permission denied")
	store := pgtest.NewStore(pool)

	var mine, adopted job.WorkerSession
	var got job.PullClaimResult
	leases := func() (out []job.Lease) {
		for _, c := range got.Claimed {
			out = append(out, job.Lease{Key: c.Key, Attempt: c.Number})
		}
		return out
	}
	open := job.SessionParams{Namespace: w.Namespace, Queue: w.QueueName, Make: true, Name: "m", TTL: time.Hour}
	report := func(i int) access.Report {
		c := got.Claimed[i]
		b.exec(`UPDATE run SET state = 2 WHERE job_id = $1 AND due_at = $2`, c.Key.Job, c.Key.DueAt)
		return access.Report{
			Namespace: w.Namespace, Key: c.Key, Session: adopted.ID, Attempt: c.Number, Until: clock.Now().Add(time.Hour),
		}
	}
	steps := []struct {
		name string
		work func() error
	}{
		{"OpenSession", func() (err error) {
			other := open
			other.Queue = "new"
			if _, _, err = store.OpenSession(ctx, other); err == nil {
				mine, _, err = store.OpenSession(ctx, open)
			}
			return err
		}},
		{"WorkerSession", func() error {
			_, err := store.WorkerSession(ctx, w.Namespace, w.QueueName, mine.ID)
			return err
		}},
		{"NoteHandlers", func() error { return store.NoteHandlers(ctx, mine, []string{"x"}) }},
		{"PullClaim", func() (err error) {
			got, err = store.PullClaim(ctx, job.PullClaimParams{
				Namespace: w.Namespace, Queue: w.Queue, Feeds: pullFeeds(w.Queue), Limit: 100,
				Polls: []job.Poll{{Session: mine.ID, Handlers: []string{"x"}, Max: 8}},
			})
			require.Len(t, got.Claimed, 8)
			return err
		}},
		{"PullKeepKeys", func() error {
			keyed := got.Claimed[7].Attempt
			keyed.OwnKey = "its-key"
			return store.PullKeepKeys(ctx, w.Namespace, w.Queue, []*job.Attempt{&keyed})
		}},
		{"PullAdmit", func() error {
			out, err := store.PullAdmit(ctx, w.Namespace, w.Queue, mine.ID, b.aPending())
			require.NotNil(t, out.Claimed)
			return err
		}},
		{"Heartbeat", func() error {
			_, gone, err := store.Heartbeat(ctx, mine, time.Hour, append(leases(), job.Lease{Key: job.Key{Job: uuid.New()}}))
			require.Len(t, gone, 1)
			return err
		}},
		{"OpenSession", func() (err error) {
			again := open
			again.Adopt, again.Runs = mine.ID, leases()
			var gone []job.Gone
			adopted, gone, err = store.OpenSession(ctx, again)
			require.Empty(t, gone)
			return err
		}},
		{"CompletePulled", func() error {
			var done []job.Completion
			for i, c := range got.Claimed[:4] {
				done = append(done, job.Completion{
					Key: c.Key, Attempt: c.Number, Session: adopted.ID, Namespace: w.Namespace, Queue: w.Queue,
					Outcome: job.Outcome{Kind: []job.OutcomeKind{job.Succeeded, job.Failed}[i%2], Retryable: i > 1},
				})
			}
			out, err := store.CompletePulled(ctx, done)
			for _, r := range out {
				require.NoError(t, r.Err)
				require.Empty(t, r.Rejected)
			}
			return err
		}},
		{"HeartbeatRun", func() error { _, err := store.HeartbeatRun(ctx, report(4)); return err }},
		{"ReportRun", func() error { return store.ReportRun(ctx, report(4), job.Outcome{Kind: job.Succeeded}) }},
		{"ReportRun", func() error { return store.ReportRun(ctx, report(5), job.Outcome{Kind: job.Failed}) }},
		{"EndSession", func() error { return store.EndSession(ctx, adopted) }},
	}
	walked := map[string]bool{
		"ScanDue":      true, // for all namespaces at once
		"ResolveClaim": true, // of a session and runs that the node itself has claimed for
	}
	for _, s := range steps {
		walked[s.name] = true
		require.NoError(t, s.work(), s.name)
	}
	for _, of := range []reflect.Type{
		reflect.TypeFor[pull.Store](), reflect.TypeFor[pull.Sessions](), reflect.TypeFor[pull.HandlerNotes](),
		reflect.TypeFor[server.Reports](),
	} {
		for i := range of.NumMethod() {
			require.True(t, walked[of.Method(i).Name], of.Method(i).Name)
		}
	}
}
