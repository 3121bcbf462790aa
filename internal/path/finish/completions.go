package finish

import (
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/store"
)

// SortCompletions sorts completions in the order in which every transaction locks runs, so that two transactions never
// wait for each other.
func SortCompletions(done []job.Completion) {
	slices.SortFunc(done, func(a, b job.Completion) int { return store.CompareKeys(a.Key, b.Key) })
}

// SessionsOf returns the sessions that must have the attempts.
func SessionsOf(done []job.Completion) pgtype.FlatArray[pgtype.UUID] {
	out := make([]pgtype.UUID, len(done))
	for i, d := range done {
		out[i] = pgtype.UUID{Bytes: d.Session, Valid: true}
	}
	return out
}

// LateOf returns how long after their run times attempts started.
func LateOf(done []job.Completion) []time.Duration {
	out := make([]time.Duration, len(done))
	for i := range done {
		out[i] = done[i].Late
	}
	return out
}

// SplitCompletions returns the keys and the attempts of completions by columns.
func SplitCompletions(done []job.Completion) (store.Keys, []int16) {
	keys, attempt := make([]job.Key, len(done)), make([]int16, len(done))
	for i, d := range done {
		keys[i], attempt[i] = d.Key, d.Attempt
	}
	return store.SplitKeys(keys), attempt
}

// SplitNamespaces groups completions by namespace and keeps their order in each.
func SplitNamespaces(done []job.Completion) (out [][]job.Completion) {
	of := map[uuid.UUID]int{}
	for _, c := range done {
		i, known := of[c.Namespace]
		if !known {
			i = len(out)
			of[c.Namespace], out = i, append(out, nil)
		}
		out[i] = append(out[i], c)
	}
	return out
}

// QueuesOf returns the queues of completions, each once.
func QueuesOf(done []job.Completion) (out []int32) {
	for _, c := range done {
		out = append(out, c.Queue)
	}
	slices.Sort(out)
	return slices.Compact(out)
}
