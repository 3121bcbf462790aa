package postgres_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
)

// TestTheKeyOfALostAttemptIsKept: the target may have received the first attempt of a node that died. Whatever becomes of
// the job, the next attempt has the same idempotency key.
func TestTheKeyOfALostAttemptIsKept(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]string{"an expression": `"old/" + job.name`, "the id": ""} {
		for _, how := range []string{"claim", "resolve", "limited", "admit"} {
			t.Run(name+", "+how, func(t *testing.T) {
				t.Parallel()
				b := setupLimits(t)
				d := definition("keyed", past)
				d.IdempotencyKey, d.Queue = first, "narrow"
				if how == "limited" {
					b.limit("narrow", job.QueueLimits{MaxRunning: 1})
				}
				if how == "admit" {
					d.Overlap = job.OverlapQueue
				}
				j := b.create(d)
				k := b.keyOf(j)
				lost := b.start(how, b.session, k)
				key := lost.IdempotencyKey()
				if first != "" {
					require.Equal(t, "old/keyed", key)
				}
				d.IdempotencyKey = `"new"`
				b.update(j, d)
				b.expire(b.session)
				again := b.session2()
				_, found, err := b.store.Rescue(t.Context(), allPartitions(), 10)
				require.NoError(t, err)
				require.Equal(t, 1, found)
				second := b.start(how, again, k)
				require.EqualValues(t, 2, second.Number)
				require.Equal(t, key, second.IdempotencyKey())
			})
		}
	}
}

// TestAKeyThatIsNotStoredIsDecidedLater: a node dies between its claim and the storing of the key, so it has delivered
// nothing. The next attempt decides the key. If the job was edited in between, the rescue cannot know that, and the key is
// the id: the target may have received that one.
func TestAKeyThatIsNotStoredIsDecidedLater(t *testing.T) {
	t.Parallel()
	for _, edited := range []bool{false, true} {
		b := setupLimits(t)
		d := definition("keyed", past)
		d.IdempotencyKey = `"key/" + job.name`
		j := b.create(d)
		k := b.keyOf(j)
		got, err := b.store.Claim(t.Context(), b.session, []job.Key{k}, time.Second)
		require.NoError(t, err)
		require.Len(t, got, 1)
		want := "key/keyed"
		if edited {
			d.IdempotencyKey = `"new"`
			b.update(j, d)
			want = job.FormatRunID(k)
		}
		b.expire(b.session)
		again := b.session2()
		_, found, err := b.store.Rescue(t.Context(), allPartitions(), 10)
		require.NoError(t, err)
		require.Equal(t, 1, found)
		second := b.start("claim", again, k)
		require.Equal(t, want, second.IdempotencyKey())
	}
}

// TestKeysOfRescuedAttemptsAreNotStored: the next attempt decides its own key.
func TestKeysOfRescuedAttemptsAreNotStored(t *testing.T) {
	t.Parallel()
	b := setupLimits(t)
	d := definition("keyed", past)
	d.IdempotencyKey = `"key"`
	k := b.keyOf(b.create(d))
	stale, err := b.store.Claim(t.Context(), b.session, []job.Key{k}, time.Second)
	require.NoError(t, err)
	require.True(t, stale[0].MakeKey())
	b.expire(b.session)
	b.session2()
	_, _, err = b.store.Rescue(t.Context(), allPartitions(), 10)
	require.NoError(t, err)
	require.ErrorContains(t, b.store.KeepKeys(t.Context(), []*job.Attempt{&stale[0]}), "has been rescued since")
}

// TestARunThatWasCancelledKeepsItsKey: its target may have received it.
func TestARunThatWasCancelledKeepsItsKey(t *testing.T) {
	t.Parallel()
	b := setupLimits(t)
	d := definition("plain", past)
	j := b.create(d)
	k := b.keyOf(j)
	b.start("claim", b.session, k)
	o := job.RunParams{Namespace: j.Namespace, Key: k, Actor: "test"}
	_, err := b.store.CancelRun(t.Context(), o)
	require.NoError(t, err)
	d.IdempotencyKey = `"new"`
	b.update(j, d)
	require.NoError(t, b.store.RetryRun(t.Context(), o))
	again := b.start("claim", b.session, k)
	require.Equal(t, job.FormatRunID(k), again.IdempotencyKey())
}

// session2 is a session that takes everything over.
func (b *limits) session2() uuid.UUID {
	b.t.Helper()
	id := b.jobs.session()
	b.exec(`UPDATE partition SET owner = $1, epoch = epoch + 1`, id)
	return id
}

// start starts a run in one of the ways that nodes have.
func (b *limits) start(how string, session uuid.UUID, k job.Key) job.Attempt {
	b.t.Helper()
	ctx := b.t.Context()
	var attempts []job.Attempt
	var err error
	switch how {
	case "admit":
		var admitted job.Admitted
		admitted, err = b.store.AdmitOne(ctx, session, k, time.Second)
		require.NoError(b.t, err)
		require.NotNil(b.t, admitted.Claimed)
		attempts = []job.Attempt{admitted.Claimed.Attempt}
	case "limited":
		attempts, _, err = admit(ctx, b.store, session, []job.Key{k})
	case "resolve": // the reply was lost before the key was stored
		_, err = b.store.Claim(ctx, session, []job.Key{k}, time.Second)
		require.NoError(b.t, err)
		attempts, err = b.store.ResolveClaim(ctx, session, []job.Key{k})
	default:
		attempts, err = b.store.Claim(ctx, session, []job.Key{k}, time.Second)
	}
	require.NoError(b.t, err)
	require.Len(b.t, attempts, 1)
	if attempts[0].MakeKey() {
		require.NoError(b.t, b.store.KeepKeys(ctx, []*job.Attempt{&attempts[0]}))
	}
	return attempts[0]
}
