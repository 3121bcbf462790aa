package engine

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/claim"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/loop"
)

const (
	resolvePause    = 100 * time.Millisecond // then doubling
	resolveMaxPause = 2 * time.Second
)

// resolve finds out whether a claim that failed was committed. The connection may have died after the claim
// committed, and the runs are then leased to this session. While the session lives, nothing rescues
// them and no other node delivers them, so this node asks until there is a reply. It delivers the runs
// that were claimed, returns their number, and gives the others back to the wheel.
func (e *Engine) resolve(ctx context.Context, session uuid.UUID, runs []job.Run, err error) (claimed int) {
	resolved := false
	loop.Loop{
		Name: "claim", Title: "claim", Log: e.Log, OnFailure: e.Observe.Failed, Attrs: []any{"runs", len(runs)},
		Backoff: loop.Backoff{Min: resolvePause, Max: resolveMaxPause},
		Ready:   func() bool { return resolved },
		Once: func(ctx context.Context) (time.Duration, error) {
			if e.Member.Session() != session {
				return 0, loop.ErrDone // the session has ended: its runs are rescued
			}
			// Not cancelled when the node stops: a reply is worth waiting for.
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), statementLimit)
			defer cancel()
			got, err := claim.Resolve(ctx, e.Claimer, session, runs, keyOf)
			if err == nil {
				err = e.decideKeys(ctx, pointersTo(got.Attempts))
			}
			if err != nil {
				return 0, err
			}
			// The wheel may have listed a run that an earlier claim started: its attempt is in flight already.
			claimed, resolved = e.handOver(got.Attempts), true
			e.wheel.Started(got.Claimed)
			runs = got.Rest
			return 0, loop.ErrDone
		},
	}.RunAfter(ctx, err)
	e.wheel.Return(runs)
	return claimed
}

func keyOf(r job.Run) job.Key { return r.Key }
