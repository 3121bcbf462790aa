package pull_test

import (
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
)

const countSessions = `SELECT count(*) FROM session WHERE queue_id IS NOT NULL`

// adopting is a worker with a session and some runs.
type adopting struct {
	*bundle
	at   job.SessionPath
	runs []job.Claimed
}

func setupAdopt(t *testing.T, runs int) *adopting {
	t.Helper()
	b := &adopting{bundle: setup(t)}
	b.pull = b.puller(time.Minute)
	id := b.job("a", "x", nil)
	b.at = b.open()
	for range runs {
		b.trigger(id)
	}
	for len(b.runs) < runs {
		b.runs = append(b.runs, b.claim(b.at, runs, patience, "x")...)
	}
	return b
}

// adopt opens a session that takes over runs of an old one.
func (b *adopting) adopt(old uuid.UUID, runs ...job.Claimed) job.OpenedSession {
	b.t.Helper()
	o := job.SessionParams{Namespace: b.at.Namespace, Queue: b.at.Queue, Name: "w", Adopt: old}
	for _, r := range runs {
		o.Runs = append(o.Runs, job.Lease{Key: r.Key, Attempt: r.Number})
	}
	s, err := b.pull.Open(b.t.Context(), o)
	require.NoError(b.t, err)
	return s
}

func (b *adopting) path(s job.OpenedSession) job.SessionPath {
	return job.SessionPath{Namespace: b.at.Namespace, Queue: b.at.Queue, ID: s.ID}
}

// rescued runs the rescue of workers' runs and returns how many it found.
func (b *bundle) rescued() int {
	b.t.Helper()
	_, found, err := b.store.RescueWorkers(b.t.Context(), 100)
	require.NoError(b.t, err)
	return found
}

// A worker did not receive the reply to its last claim. The runs that it does not name are rescued immediately,
// and it keeps the others.
func TestAdopt(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.job("a", "x", nil)
	b.trigger(id)
	old := b.open()
	known := b.claim(old, 1, patience, "x")
	b.trigger(id)
	unknown := b.claim(old, 1, patience, "x") // the worker does not receive this reply
	require.Len(t, unknown, 1)
	s, err := b.pull.Open(t.Context(), job.SessionParams{
		Namespace: access.DefaultNamespace, Queue: "work", Name: "w",
		Adopt: old.ID, Runs: []job.Lease{{Key: known[0].Key, Attempt: 1}},
	})
	require.NoError(t, err)
	require.Empty(t, s.Gone)
	require.Equal(t, 1, b.rescued())
	now := job.SessionPath{Namespace: access.DefaultNamespace, Queue: "work", ID: s.ID}
	again := b.claim(now, 5, patience, "x")
	require.Len(t, again, 1)
	require.Equal(t, unknown[0].Key.DueAt.UnixMicro(), again[0].Key.DueAt.UnixMicro())
	require.Equal(t, []job.GoneReason{"", ""}, b.succeed(now, known[0], again[0]))
}

// The reply to an adoption is lost, so the worker adopts again from the session that it knows. Its runs are by
// then with a session that no one has heard of.
func TestAdoptAgainAfterALostReply(t *testing.T) {
	t.Parallel()
	b := setupAdopt(t, 3)
	first, second, third := b.runs[0], b.runs[1], b.runs[2]
	b.adopt(b.at.ID, first, second, third)
	require.Zero(t, b.rescued(), "this removes the first session")
	b.adopt(b.at.ID, first, second, third) // this reply is lost too
	s := b.adopt(b.at.ID, first, second)
	require.Empty(t, s.Gone)
	require.Equal(t, 1, b.rescued(), "runs that the worker does not name are available to others")
	now := b.path(s)
	require.Equal(t, 1, b.number(countSessions), "no session is left over")
	leases := []job.Lease{{Key: first.Key, Attempt: 1}, {Key: second.Key, Attempt: 1}}
	gone, err := b.pull.Heartbeat(t.Context(), now, leases)
	require.NoError(t, err)
	require.Empty(t, gone)
	again := b.claim(now, 3, patience, "x")
	require.Len(t, again, 1)
	require.Equal(t, []job.GoneReason{"", "", ""}, b.succeed(now, first, second, again[0]))
}

// A delayed request arrives after its worker has repeated it and received a reply. It takes the runs away, and
// the worker gets them back.
func TestAdoptArrivesLate(t *testing.T) {
	t.Parallel()
	b := setupAdopt(t, 1)
	s := b.adopt(b.at.ID, b.runs...)
	b.adopt(b.at.ID, b.runs...) // no one waits for this reply
	_, err := b.pull.Heartbeat(t.Context(), b.path(s), nil)
	require.ErrorIs(t, err, job.ErrSessionExpired)
	s = b.adopt(s.ID, b.runs...)
	require.Empty(t, s.Gone)
	require.Zero(t, b.rescued())
	require.Equal(t, []job.GoneReason{""}, b.succeed(b.path(s), b.runs...))
}

// Of several adoptions at the same time, one session remains, and it has the run.
func TestAdoptConcurrently(t *testing.T) {
	t.Parallel()
	b := setupAdopt(t, 1)
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			_, err := b.pull.Open(t.Context(), job.SessionParams{
				Namespace: b.at.Namespace, Queue: b.at.Queue, Name: "w",
				Adopt: b.at.ID, Runs: []job.Lease{{Key: b.runs[0].Key, Attempt: 1}},
			})
			assertNil(t, err)
		})
	}
	wait.Wait()
	require.Zero(t, b.rescued())
	require.Equal(t, 1, b.number(countSessions))
	require.Equal(t, 1, b.number(`
		SELECT count(*) FROM run r JOIN session s ON s.id = r.session_id
		WHERE r.state = 1 AND r.attempt = 1 AND s.expires_at > now()`))
}
