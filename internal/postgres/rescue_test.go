package postgres_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/pgtest"
	"github.com/belfry-dev/belfry/internal/why"
)

// rescue calls Rescue and returns how many runs it found, and whether it read the whole partition to find them.
func (b *bulk) rescue(r *recording) (found int, searched bool) {
	b.t.Helper()
	sent := r.during(func() {
		var err error
		_, found, err = b.store.Rescue(b.t.Context(), allPartitions(), 100)
		require.NoError(b.t, err)
	})
	return found, slices.ContainsFunc(sent, func(s statement) bool {
		return strings.Contains(s.sql, "FROM run") && strings.Contains(s.sql, "partition = ANY")
	})
}

// TestRescueSearchesWhenASessionDied: reading all live runs each second would cost more than the work itself, most of
// all while an old snapshot is open.
func TestRescueSearchesWhenASessionDied(t *testing.T) {
	t.Parallel()
	r := &recording{}
	b := setupBulk(t, r)
	b.shared(100)
	b.pending(2)
	other := uuid.New()
	_, err := b.store.Register(t.Context(), other, "other", time.Hour)
	require.NoError(t, err)

	found, searched := b.rescue(r)
	require.Zero(t, found)
	require.True(t, searched, "the first time nothing is known")
	done := b.claim(b.keys(20))
	found, searched = b.rescue(r)
	require.Zero(t, found)
	require.False(t, searched, "nobody died")

	// Partitions move while their runs go on; then the session that works on those dies.
	b.exec(`UPDATE run SET session_id = $1 WHERE job_id = $2`, other, done[0].Key.Job)
	found, _ = b.rescue(r)
	require.Zero(t, found)
	b.exec(pgtest.ExpireSession, other)
	found, searched = b.rescue(r)
	require.Equal(t, 1, found)
	require.True(t, searched)
	found, searched = b.rescue(r)
	require.Zero(t, found)
	require.False(t, searched)

	// Runs of a partition that is new to this node may belong to any session.
	b.exec(`UPDATE run SET session_id = gen_random_uuid() WHERE job_id = $1`, done[1].Key.Job)
	mine := slices.DeleteFunc(allPartitions(), func(p int16) bool { return p == done[1].Key.Partition })
	_, n, err := b.store.Rescue(t.Context(), mine, 100)
	require.NoError(t, err)
	require.Zero(t, n)
	found, _ = b.rescue(r)
	require.Equal(t, 1, found)
}

// TestRescueFindsWhatIsOverdueByKey: a target accepted the run and never reported.
func TestRescueFindsWhatIsOverdueByKey(t *testing.T) {
	t.Parallel()
	r := &recording{}
	b := setupBulk(t, r)
	b.shared(100)
	b.pending(1)
	done := b.claim(b.keys(3))
	for i := range done {
		done[i].Outcome = job.Outcome{Kind: job.Accepted}
	}
	_, fenced, err := b.store.CompleteDecided(t.Context(), done)
	require.NoError(t, err)
	require.Zero(t, fenced)
	found, _ := b.rescue(r)
	require.Zero(t, found, "there is time left")
	b.exec(`UPDATE run SET expires_at = now() WHERE job_id = $1`, done[0].Key.Job)
	found, searched := b.rescue(r)
	require.Equal(t, 1, found)
	require.False(t, searched)

	// Overdue for longer than any search: its partition had no owner.
	b.exec(`UPDATE run SET expires_at = now() - interval '1 day' WHERE job_id = $1`, done[1].Key.Job)
	mine := slices.DeleteFunc(allPartitions(), func(p int16) bool { return p == done[1].Key.Partition })
	_, n, err := b.store.Rescue(t.Context(), mine, 100)
	require.NoError(t, err)
	require.Zero(t, n)
	found, _ = b.rescue(r)
	require.Equal(t, 1, found)
}

// TestAnUnreadablePolicyDelaysNoOtherRun: ended runs leave, and lost runs are rescued, with the default policy.
func TestAnUnreadablePolicyDelaysNoOtherRun(t *testing.T) {
	t.Parallel()
	b := setupBulk(t, nil)
	b.shared(100)
	b.pending(1)
	done := b.claim(b.keys(5))
	b.exec(`UPDATE job SET policy = '{"retry": 7' WHERE id = $1`, done[2].Key.Job)
	b.exec(`UPDATE run SET session_id = gen_random_uuid() WHERE state = 1`)
	retries, found, err := b.store.Rescue(t.Context(), allPartitions(), 100)
	require.NoError(t, err)
	require.Equal(t, 5, found)
	require.Len(t, retries, 5)
}

// TestADeadlineEndsRunsForWorkers: no worker asks for them, so no request of one skips them.
func TestADeadlineEndsRunsForWorkers(t *testing.T) {
	t.Parallel()
	b := setupJobs(t)
	session := b.session()
	owned := b.ownership()
	b.take(session, owned)
	run := func(name, handler string, deadline time.Duration) job.Job {
		d := definition(name, everyMinute)
		d.Deadline = job.Duration(deadline)
		if handler != "" {
			d.Target = job.Target{Kind: "worker", Config: json.RawMessage(`{"handler":"` + handler + `"}`)}
		}
		return b.create(d)
	}
	late, node := run("late", "h", 5*time.Second), run("node", "", 5*time.Second)
	missed := run("missed", "h", 5*time.Second)
	stay := []job.Job{
		run("in time", "h", time.Hour), run("no deadline", "h", 0), run("retried", "h", 5*time.Second),
		run("backfill", "h", 5*time.Second), run("not due", "h", 5*time.Second),
	}
	b.plan(2 * time.Minute)
	b.exec(`DELETE FROM run a USING run b WHERE a.job_id = b.job_id AND a.due_at > b.due_at`)
	// All at the same time, although a minute may have begun between their creations, and far from the present.
	b.exec(`UPDATE run SET due_at = first + move, run_at = first + move
		FROM (SELECT min(due_at) AS first FROM run) f,
		     (VALUES (true, interval '5 min'), (false, interval '-5 min')) m (ahead, move)
		WHERE ahead = (job_id = $1)`, stay[4].ID)
	b.exec(`UPDATE run SET due_at = due_at - interval '1 h' WHERE job_id = $1`, missed.ID)
	b.exec(`UPDATE run SET attempt = 1, attempts = '[]' WHERE job_id = $1`, stay[2].ID)
	b.exec(`UPDATE run SET origin = 2 /* backfill */ WHERE job_id = $1`, stay[3].ID)
	b.exec(`UPDATE partition SET missed_from = now() - interval '2 h', missed_until = now() - interval '30 min'`)
	due := dueTimes(b.live(late))

	admitted, err := b.store.Admit(t.Context(), session, b.pendingKeys(node), 0)
	require.NoError(t, err)
	require.True(t, admitted[0].Done)
	_, found, err := b.store.Rescue(t.Context(), allPartitions(), 100)
	require.NoError(t, err)
	require.Zero(t, found, "no attempt was lost")
	require.Empty(t, b.live(late))
	want := b.ended(node)
	require.Equal(t, job.ReasonExpired, want[0].Reason)
	require.Equal(t, want, b.ended(late), "as a run that a node delivers")
	for _, j := range append(stay, missed) {
		require.Len(t, b.live(j), 1, j.Name)
	}
	stories, err := b.store.Why(t.Context(), why.Params{Namespace: b.namespace, Job: late.ID, At: due[0].Format(time.RFC3339)})
	require.NoError(t, err)
	require.Contains(t, stories[0].Text, "deadline, 5s after it was due")
}
