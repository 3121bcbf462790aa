package pull

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
)

// TestPollsAreDivided: the long polls of one namespace leave some to others.
func TestPollsAreDivided(t *testing.T) {
	t.Parallel()
	p := New(Options{})
	p.scanning = true
	enter := func(namespace uuid.UUID, queue int32) (*queue, *longPoll, error) {
		p.mu.Lock()
		q := p.queues[queue]
		if q == nil {
			q = newQueue(p, namespace, queue)
			q.serving = true // without a loop
			p.queues[queue] = q
		}
		p.mu.Unlock()
		poll := &longPoll{Poll: job.Poll{Session: uuid.New()}, reply: make(chan reply, 1)}
		_, err := p.enter(job.WorkerSession{Namespace: namespace, Queue: queue}, poll)
		return q, poll, err
	}
	attacker, victim := uuid.New(), uuid.New()
	var polls []*longPoll
	var last *queue
	for i := 0; ; i++ {
		q, poll, err := enter(attacker, int32(i%100))
		if err != nil {
			require.ErrorIs(t, err, job.ErrTooManyWorkers)
			break
		}
		polls, last = append(polls, poll), q
	}
	require.Len(t, polls, maxWaiting*4/5)
	for range maxWaiting / 10 {
		_, _, err := enter(victim, 1000)
		require.NoError(t, err)
	}
	require.Equal(t, maxWaiting*9/10, p.Counts().Waiting)
	_, _, err := enter(attacker, 1)
	require.ErrorIs(t, err, job.ErrTooManyWorkers)
	require.True(t, p.leave(last, polls[len(polls)-1]))
	require.Equal(t, maxWaiting*9/10-1, p.Counts().Waiting)
	p.Stop()
	require.Zero(t, p.Counts().Waiting)
}

// TestClaimsAreDivided: however many queues of a namespace claim, another one finds a claim slot.
func TestClaimsAreDivided(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := New(Options{})
		attacker, victim := uuid.New(), uuid.New()
		end := make(chan struct{})
		for range 100 {
			go func() {
				release, err := p.claims.take(context.WithoutCancel(t.Context()), attacker)
				if assert.NoError(t, err) {
					defer release()
				}
				<-end
			}()
		}
		synctest.Wait()
		for range 3 {
			release, err := p.claims.take(t.Context(), victim) // would wait for ever
			require.NoError(t, err)
			release()
		}
		close(end)
	})
}

// TestReportsTakeTurns: the reports of a namespace that reports much do not delay those of others.
func TestReportsTakeTurns(t *testing.T) {
	t.Parallel()
	r := newReports()
	r.writers = reportWriters
	add := func(namespace uuid.UUID, n int, name string) error {
		_, err := r.add(&report{namespace: namespace, completions: make([]job.Completion, n), err: fmt.Errorf("%s", name)})
		return err
	}
	take := func() (names []string) {
		batch, _ := r.take()
		for _, one := range batch {
			names = append(names, one.err.Error())
		}
		return names
	}
	attacker, victim := uuid.New(), uuid.New()
	for range maxReported * 4 / 5 / job.MaxReports {
		require.NoError(t, add(attacker, job.MaxReports, "a"))
	}
	require.ErrorIs(t, add(attacker, job.MaxReports, "a"), job.ErrTooManyReports)
	require.Equal(t, []string{"a", "a"}, take())
	require.NoError(t, add(victim, 1, "v1"))
	require.NoError(t, add(victim, 1, "v2"))
	require.Equal(t, []string{"v1", "v2", "a"}, take(), "they come next, in order")
	require.NoError(t, add(victim, job.MaxReports, "v3"))
	require.NoError(t, add(victim, job.MaxReports, "v4"))
	require.Equal(t, []string{"v3", "a"}, take())
	require.Equal(t, []string{"v4", "a"}, take())
	for len(take()) > 0 {
	}
	require.Zero(t, r.share.Used())
	require.Empty(t, r.next)
	require.Equal(t, reportWriters-1, r.writers)
	require.NoError(t, add(victim, 1, "v5"))
	require.Equal(t, []string{"v5"}, take())
}

// TestADroppedReportGivesItsTurnBack: workers that give up waiting do not put their namespace behind the others.
func TestADroppedReportGivesItsTurnBack(t *testing.T) {
	t.Parallel()
	r := newReports()
	mine, other := uuid.New(), uuid.New()
	add := func(namespace uuid.UUID, n int) *report {
		one := &report{namespace: namespace, completions: make([]job.Completion, n)}
		_, err := r.add(one)
		require.NoError(t, err)
		return one
	}
	for range 3 {
		add(other, 100)
	}
	for range 10 {
		r.drop(add(mine, 100))
	}
	one := add(mine, 1)
	require.Zero(t, one.turn)
	r.drop(one)
	r.drop(one)
	require.Zero(t, add(mine, 1).turn, "once")
}
