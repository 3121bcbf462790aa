package pull

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/job"
)

// countingNotes counts the names of handlers that it is to store.
type countingNotes struct{ names int }

func (n *countingNotes) NoteHandlers(_ context.Context, _ job.WorkerSession, handlers []string) error {
	n.names += len(handlers)
	return nil
}

// TestInventedHandlersAreNotRemembered: of a session, as many as the database stores are, and no others are sent to it.
func TestInventedHandlersAreNotRemembered(t *testing.T) {
	t.Parallel()
	n := &countingNotes{}
	p := New(Options{Handlers: n})
	w := job.WorkerSession{ID: uuid.New(), Namespace: uuid.New()}
	p.known.add(w)
	for i := range 30 {
		names := make([]string, job.MaxHandlers)
		for j := range names {
			names[j] = fmt.Sprintf("h%d", i*50+j) // half of them are known
		}
		p.noteHandlers(t.Context(), w, names)
	}
	require.Equal(t, job.MaxNoted, n.names)
	require.EqualValues(t, 1+job.MaxNoted, p.known.share.Used())
	p.known.forget(w.Namespace, w.ID)
	require.Zero(t, p.known.share.Used())
	require.Empty(t, p.known.of)
}

// TestKnownSessionsAreDivided: a namespace with very many sessions and handlers forgets its own, and no others.
func TestKnownSessionsAreDivided(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // time does not pass
		k := newKnownSessions()
		session := func(namespace uuid.UUID, handlers ...string) job.WorkerSession {
			w := job.WorkerSession{ID: uuid.New(), Namespace: namespace}
			k.add(w)
			k.stored(w, handlers)
			return w
		}
		attacker, victim := uuid.New(), uuid.New()
		var theirs []job.WorkerSession
		for range 100 {
			theirs = append(theirs, session(victim, "mail"))
		}
		for range maxKnown {
			w := session(attacker, "a", "b", "c")
			_, found := k.get(attacker, w.ID)
			require.True(t, found)
			require.LessOrEqual(t, k.share.Used(), int64(maxKnown))
		}
		for _, w := range append(theirs, session(victim, "mail")) {
			_, found := k.get(victim, w.ID)
			require.True(t, found)
			require.Empty(t, k.unstored(w, []string{"mail"}))
		}
	})
}

// TestAFullNamespaceForgetsOneSession: not all, which would be read again at once.
func TestAFullNamespaceForgetsOneSession(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // time does not pass
		k := newKnownSessions()
		full := uuid.New()
		const most = maxKnown * 4 / 5
		for range most + 100 {
			w := job.WorkerSession{ID: uuid.New(), Namespace: full}
			k.add(w)
			_, found := k.get(full, w.ID)
			require.True(t, found)
		}
		require.EqualValues(t, most, k.of[full].size)
		require.Len(t, k.of[full].byID, most)

		w := job.WorkerSession{ID: uuid.New(), Namespace: uuid.New()}
		k.add(w)
		k.stored(w, []string{"a"})
		require.NoError(t, k.share.Take(uuid.New(), maxKnown-k.share.Used()))
		k.stored(w, []string{"b"})
		require.Equal(t, []string{"b"}, k.unstored(w, []string{"a", "b"}), "a session makes no space for its own handlers")
		require.EqualValues(t, maxKnown, k.share.Used())
	})
}

// TestUnusedSessionsLeaveTheirSpace: workers that are gone do not keep those of another namespace from being known.
func TestUnusedSessionsLeaveTheirSpace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := newKnownSessions()
		old, used, now := uuid.New(), uuid.New(), uuid.New()
		one := job.WorkerSession{ID: uuid.New(), Namespace: used}
		k.add(one)
		for range maxKnown * 3 / 4 {
			k.add(job.WorkerSession{ID: uuid.New(), Namespace: old})
		}
		<-time.After(keepUnused + time.Second)
		_, found := k.get(used, one.ID)
		require.True(t, found)
		for range maxKnown / 2 {
			k.add(job.WorkerSession{ID: uuid.New(), Namespace: now})
		}
		require.EqualValues(t, maxKnown/2, k.of[now].size)
		require.Nil(t, k.of[old])
		require.NotNil(t, k.of[used])
	})
}

// expiredStore finds that all sessions have expired.
type expiredStore struct{ Store }

func (expiredStore) PullClaim(_ context.Context, o job.PullClaimParams) (out job.PullClaimResult, err error) {
	out.Marks = make([]time.Time, len(o.Feeds))
	for _, p := range o.Polls {
		out.Expired = append(out.Expired, p.Session)
	}
	return out, nil
}

func (expiredStore) ScanDue(context.Context, []job.Feed, job.ScanParams) (time.Time, []time.Time, error) {
	return time.Time{}, nil, context.Canceled
}

// TestAClaimForgetsAnExpiredSession: its worker may never send a request again.
func TestAClaimForgetsAnExpiredSession(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := New(Options{Store: expiredStore{}, Bound: &clock.Bound{}})
		w := job.WorkerSession{ID: uuid.New(), Namespace: uuid.New(), QueueName: "q"}
		p.known.add(w)
		at := job.SessionPath{Namespace: w.Namespace, Queue: "q", ID: w.ID}
		_, err := p.Claim(t.Context(), at, job.PullParams{Handlers: []string{"x"}, Max: 1, Wait: time.Minute})
		require.ErrorIs(t, err, job.ErrSessionExpired)
		_, found := p.known.get(w.Namespace, w.ID)
		require.False(t, found)
		p.Stop()
		<-time.After(3 * keepQueue) // until the loops have ended
	})
}
