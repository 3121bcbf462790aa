// Package claim finds out what a claim did when its reply was lost.
//
// A claim that returns an error may have committed: the connection can fail after the commit and before
// the reply. Its runs are then leased to a live session, and no other node delivers or rescues runs of a
// live session. Whoever made the claim therefore has to ask the database until it answers: the engine for
// its own claims, internal/pull for claims on behalf of workers. When to ask, how often, and what happens
// to the runs is up to them.
package claim

import (
	"context"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/job"
)

// Store answers questions about claims.
type Store interface {
	// ResolveClaim returns the attempts of those runs that are leased to session. It waits for claims of that
	// session that are still executing in the database, so its answer is final.
	ResolveClaim(ctx context.Context, session uuid.UUID, keys []job.Key) ([]job.Attempt, error)
}

// Result separates the runs of a claim.
type Result[R any] struct {
	// Claimed are the runs that were claimed, in the order given. The attempt of Claimed[i] is Attempts[i].
	Claimed  []R
	Attempts []job.Attempt
	// Rest are the runs that were not claimed, in the order given.
	Rest []R
}

// Resolve asks store which runs are leased to session. If it returns an error, nothing is known, and the
// caller asks again. The function key returns the key of a run.
func Resolve[R any](
	ctx context.Context, store Store, session uuid.UUID, runs []R, key func(R) job.Key,
) (Result[R], error) {
	keys := make([]job.Key, len(runs))
	for i, r := range runs {
		keys[i] = key(r)
	}
	attempts, err := store.ResolveClaim(ctx, session, keys)
	if err != nil {
		return Result[R]{}, err
	}
	return Split(runs, key, attempts), nil
}

// Split separates runs that have one of the attempts from runs that have none.
func Split[R any](runs []R, key func(R) job.Key, attempts []job.Attempt) Result[R] {
	index := make(map[job.RunKey]int, len(attempts))
	for i := range attempts {
		index[attempts[i].Key.RunKey()] = i
	}
	var out Result[R]
	for _, r := range runs {
		if i, ok := index[key(r).RunKey()]; ok {
			out.Claimed, out.Attempts = append(out.Claimed, r), append(out.Attempts, attempts[i])
		} else {
			out.Rest = append(out.Rest, r)
		}
	}
	return out
}
