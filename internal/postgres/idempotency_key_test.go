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
				require.NoError(t, second.MakeKey())
				require.Equal(t, key, second.IdempotencyKey())
			})
		}
	}
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
		require.NotNil(b.t, admitted.Attempt)
		return *admitted.Attempt
	case "limited":
		attempts, _, err = b.store.ClaimLimited(ctx, session, []job.Key{k})
	case "resolve": // the reply was lost before the key was stored
		_, err = b.store.Claim(ctx, session, []job.Key{k}, time.Second)
		require.NoError(b.t, err)
		b.exec(`UPDATE run SET idempotency_key = NULL WHERE attempt = 1`)
		attempts, err = b.store.ResolveClaim(ctx, session, []job.Key{k})
	default:
		attempts, err = b.store.Claim(ctx, session, []job.Key{k}, time.Second)
	}
	require.NoError(b.t, err)
	require.Len(b.t, attempts, 1)
	return attempts[0]
}
