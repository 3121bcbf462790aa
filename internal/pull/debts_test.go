package pull

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/job"
)

// shaky is a database that fails every so often to say what is leased.
type shaky struct {
	Store
	asked    int
	answered map[uuid.UUID]int
	ended    map[uuid.UUID]int
}

func (s *shaky) Claimed(_ context.Context, session uuid.UUID, keys []job.Key) (out []job.Attempt, err error) {
	if s.asked++; s.asked%300 == 0 {
		return nil, errors.New("the connection died")
	}
	s.answered[session]++
	for _, k := range keys {
		out = append(out, job.Attempt{Key: k, Session: session, Number: 7})
	}
	return out, nil
}

func (s *shaky) CompletePulled(_ context.Context, done []job.Completion) ([]job.GoneReason, error) {
	for _, c := range done {
		if c.Attempt == 7 {
			s.ended[c.Session]++
		}
	}
	return make([]job.GoneReason, len(done)), nil
}

func doubtsOf(sessions int) (all []debt) {
	for range sessions {
		all = append(all, doubt(job.Key{Job: uuid.New()}, uuid.New(), 1))
	}
	return all
}

// Doubts of many sessions are settled though the database fails now and then:
// what it has answered is not asked again.
func TestManyDoubtsAreSettledOnceEach(t *testing.T) {
	t.Parallel()
	store := &shaky{answered: map[uuid.UUID]int{}, ended: map[uuid.UUID]int{}}
	p := New(Options{Store: store})
	const sessions = 2500
	p.debts.add(doubtsOf(sessions))
	p.pay()
	require.Len(t, store.answered, sessions)
	require.Len(t, store.ended, sessions)
	for session, n := range store.answered {
		require.Equal(t, 1, n)
		require.Equal(t, 1, store.ended[session])
	}
	require.Empty(t, p.debts.list)
	require.Empty(t, p.debts.doubtful)
}

// What is too much is left to the rescue, and the log says so.
func TestDebtsAreBoundedAndTheLogSaysSo(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	p := New(Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	p.debts.paying = true
	p.owe(doubtsOf(maxOwed - 1))
	require.Empty(t, log.String())
	p.owe(doubtsOf(4))
	require.Contains(t, log.String(), "runs=3 because=")
	require.Len(t, p.debts.list, maxOwed)
	require.Len(t, p.debts.doubtful, maxOwed, "what is not asked about is not kept apart")
}
