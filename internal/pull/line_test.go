package pull

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/job"
)

// inLine returns runs of different jobs that a key with most permits refused, one of each number of seconds ago.
func inLine(q *queue, key job.Limit, most int32, ago ...time.Duration) (keys []job.Key) {
	for i, at := range ago {
		b := blockedRun{due: job.Due{
			Key: job.Key{Job: uuid.New()}, Handler: "h", RunAt: time.Unix(int64(i), 0), KeyLimit: key, KeyMax: most,
		}}
		b.refuse(job.Refusal{Limit: key, KeyMax: most})
		b.retry -= at
		q.blocked[b.due.RunKey()] = &b
		keys = append(keys, b.due.Key)
	}
	return keys
}

// TestTheEndOfARunRetriesTheLineOfItsKey: the runs that wait for it are of other jobs.
func TestTheEndOfARunRetriesTheLineOfItsKey(t *testing.T) {
	t.Parallel()
	q := newQueue(New(Options{}), uuid.Nil, 1)
	gone := blockedRun{due: job.Due{Key: job.Key{Job: uuid.New()}, Handler: "gone"}}
	gone.refuse(job.Refusal{Limit: job.KeyLimit(1), KeyMax: 1})
	q.blocked[gone.due.RunKey()] = &gone // older, and its handler has no worker
	mine := inLine(q, job.KeyLimit(1), 1, 0, 0)
	others := inLine(q, job.KeyLimit(2), 1, 0)
	ended := job.Claimed{Attempt: job.Attempt{Key: job.Key{Job: uuid.New()}, Limits: []job.Limit{job.KeyLimit(1)}}}
	q.noteKeys([][]job.Claimed{{ended}})
	q.runsEnded([]job.Key{ended.Key})
	require.Zero(t, q.blocked[mine[0].RunKey()].retry, "the first may start now")
	require.NotZero(t, q.blocked[mine[1].RunKey()].retry)
	require.NotZero(t, q.blocked[others[0].RunKey()].retry)
	require.Empty(t, q.keys)
}

// TestARunJoinsALineThatIsLongerThanItsKeyHasPermits: it could not start before the runs of the line.
func TestARunJoinsALineThatIsLongerThanItsKeyHasPermits(t *testing.T) {
	t.Parallel()
	q := newQueue(New(Options{}), uuid.Nil, 1)
	inLine(q, job.KeyLimit(1), 2, 0, 0)
	inLine(q, job.KeyLimit(2), 3, 0, 0)
	busy := blockedRun{due: job.Due{Key: job.Key{Job: uuid.New()}}}
	busy.refuse(job.Refusal{Limit: job.KeyLimit(3), KeyMax: 1, After: time.Millisecond, Busy: true})
	q.blocked[busy.due.RunKey()] = &busy
	waits := q.waits(map[string]bool{"h": true})
	of := func(id int64, most int32) job.Due { return job.Due{KeyLimit: job.KeyLimit(id), KeyMax: most} }
	require.True(t, waits(of(1, 2)))
	require.False(t, waits(of(1, 3)), "another maximum is another line")
	require.False(t, waits(of(2, 3)), "there may be a third permit")
	require.False(t, waits(of(3, 1)), "only the lock of the key was taken")
	require.False(t, waits(job.Due{KeyMax: 1}), "it has no key")
	skips := of(1, 2)
	skips.Admit = job.AdmitIfAlone
	require.False(t, waits(skips), "its overlap policy is decided first")
	require.False(t, q.waits(map[string]bool{"other": true})(of(1, 2)), "that line is of a handler without workers")
}

// TestFewRunsBehindTheFirstAreRetried: each takes a transaction, and the polls wait for all of them.
func TestFewRunsBehindTheFirstAreRetried(t *testing.T) {
	t.Parallel()
	q := newQueue(New(Options{}), uuid.Nil, 1)
	ago := make([]time.Duration, 100)
	for i := range ago {
		ago[i] = clock.Elapsed() + time.Hour
	}
	ago[0] = -time.Hour // the first is not to be retried yet
	keys := inLine(q, job.KeyLimit(1), 1, ago...)
	all := skipSet{}
	for _, k := range keys {
		all[k.RunKey()] = true
	}
	require.Len(t, q.retryBlocked(all, map[string]bool{"h": true}), maxBehind)
	fresh := job.Key{Job: uuid.New()}
	q.blocked[fresh.RunKey()] = &blockedRun{
		due: job.Due{Key: fresh, Handler: "h", RunAt: time.Unix(500, 0)}, key: q.blocked[keys[0].RunKey()].key,
	}
	all[fresh.RunKey()] = true
	require.Len(t, q.retryBlocked(all, map[string]bool{"h": true}), maxBehind+1, "one that was not decided yet is no retry")
}

// TestFreshLinesLeaveHalfOfTheTurns: however many lines come up that were never tried, those that were refused have
// their turn.
func TestFreshLinesLeaveHalfOfTheTurns(t *testing.T) {
	t.Parallel()
	q := newQueue(New(Options{}), uuid.Nil, 1)
	all := skipSet{}
	block := func(b blockedRun) {
		q.blocked[b.due.RunKey()] = &b
		all[b.due.RunKey()] = true
	}
	for range 2 * maxAdmits {
		block(blockedRun{due: job.Due{Key: job.Key{Job: uuid.New()}, Handler: "h"}})
		block(blockedRun{due: job.Due{Key: job.Key{Job: uuid.New()}, Handler: "h"}, retry: 1})
	}
	fresh := 0
	turns := q.retryBlocked(all, map[string]bool{"h": true})
	for _, turn := range turns {
		if turn.since == 0 {
			fresh++
		}
	}
	require.Len(t, turns, maxAdmits)
	require.Equal(t, maxAdmits/2, fresh)
}
