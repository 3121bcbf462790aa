package engine

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/belfry-dev/belfry/internal/engine/wheel"
	"github.com/belfry-dev/belfry/internal/job"
)

type namespaces struct {
	of    map[int32]uuid.UUID
	asked [][]int32
	fails bool
}

func (n *namespaces) NamespacesOfQueues(_ context.Context, queues []int32) (map[int32]uuid.UUID, error) {
	n.asked = append(n.asked, queues)
	if n.fails {
		return nil, errors.New("no connection")
	}
	return n.of, nil
}

func (n *namespaces) CountLiveRuns(context.Context, time.Duration, int64) error { return nil }

// TestNewQueuesHaveTheirTurn: a namespace whose runs a node has never claimed has a turn of its own, although others
// have many queues that are new to the node too.
func TestNewQueuesHaveTheirTurn(t *testing.T) {
	t.Parallel()
	const many = 100
	store := &namespaces{of: map[int32]uuid.UUID{many: uuid.New()}}
	attacker, due := uuid.New(), time.Unix(1_000_000, 0)
	var runs []job.Run
	for q := range int32(many + 1) {
		if q < many {
			store.of[q] = attacker
		}
		runs = append(runs, job.Run{Key: job.Key{Job: uuid.New(), DueAt: due}, RunAt: due, Queue: q})
	}
	e := &Engine{Options: Options{Namespaces: store}, wheel: wheel.New(0)}
	store.fails = true
	e.add(t.Context(), runs[:1])
	require.Equal(t, 1, e.wheel.Len(), "without an answer they are added nevertheless")
	store.fails = false
	e.add(t.Context(), runs)
	e.add(t.Context(), runs)
	require.Len(t, store.asked, 2, "each queue is asked for once")
	free := newSlots(10)
	shares := free.shares(10)
	taken := e.wheel.Take(due.Add(time.Second), 2, shares)
	require.EqualValues(t, many, taken[1].Queue)
}
