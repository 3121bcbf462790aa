package pull_test

import (
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
)

// adopting is a worker with some runs and a session.
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

// adopt opens a session in place of another, with some runs.
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

func (b *adopting) rescued() int {
	b.t.Helper()
	_, found, err := b.store.RescueWorkers(b.t.Context(), 100)
	require.NoError(b.t, err)
	return found
}

// The answer to an adoption is lost, and the worker asks again, for the session
// that it knows: its runs are with one that nobody has heard of.
func TestAnAdoptionWhoseAnswerWasLost(t *testing.T) {
	t.Parallel()
	b := setupAdopt(t, 3)
	first, second, third := b.runs[0], b.runs[1], b.runs[2]
	b.adopt(b.at.ID, first, second, third)
	require.Zero(t, b.rescued(), "it forgets the first session")
	b.adopt(b.at.ID, first, second, third) // lost too
	s := b.adopt(b.at.ID, first, second)
	require.Empty(t, s.Gone)
	require.Equal(t, 1, b.rescued(), "what it does not know any more is for others")
	now := b.path(s)
	require.Equal(t, 1, b.number(`SELECT count(*) FROM session WHERE queue_id IS NOT NULL`), "there is none that nobody holds")
	gone, err := b.pull.Heartbeat(t.Context(), now, []job.Lease{{Key: first.Key, Attempt: 1}, {Key: second.Key, Attempt: 1}})
	require.NoError(t, err)
	require.Empty(t, gone)
	again := b.claim(now, 3, patience, "x")
	require.Len(t, again, 1)
	require.Equal(t, []job.GoneReason{"", "", ""}, b.succeed(now, first, second, again[0]))
}

// A request that was under way for long comes when its worker has another answer:
// it takes the runs away, and the worker gets them back.
func TestAnAdoptionThatComesLate(t *testing.T) {
	t.Parallel()
	b := setupAdopt(t, 1)
	s := b.adopt(b.at.ID, b.runs...)
	b.adopt(b.at.ID, b.runs...) // whose answer nobody waits for
	_, err := b.pull.Heartbeat(t.Context(), b.path(s), nil)
	require.ErrorIs(t, err, job.ErrSessionExpired)
	s = b.adopt(s.ID, b.runs...)
	require.Empty(t, s.Gone)
	require.Zero(t, b.rescued())
	require.Equal(t, []job.GoneReason{""}, b.succeed(b.path(s), b.runs...))
}

// Several at once: the run is with one that lives, and there is no other.
func TestAdoptionsAtOnce(t *testing.T) {
	t.Parallel()
	b := setupAdopt(t, 1)
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			_, err := b.pull.Open(t.Context(), job.SessionParams{
				Namespace: b.at.Namespace, Queue: b.at.Queue, Name: "w", Adopt: b.at.ID, Runs: []job.Lease{{Key: b.runs[0].Key, Attempt: 1}},
			})
			assertNil(t, err)
		})
	}
	wait.Wait()
	require.Zero(t, b.rescued())
	require.Equal(t, 1, b.number(`SELECT count(*) FROM session WHERE queue_id IS NOT NULL`))
	require.Equal(t, 1, b.number(`SELECT count(*) FROM run r JOIN session s ON s.id = r.session_id WHERE r.state = 1 AND r.attempt = 1 AND s.expires_at > now()`))
}
