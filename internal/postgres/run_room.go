package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/postgres/pool"
)

// runRoom remembers how many runs the users of each namespace may add on this node before the runs of the namespace are
// counted again. To count them, the database reads the runs of all namespaces, so a node lets users add a 16th of what is
// free without counting. Nodes do not know what others add meanwhile, so each of them may exceed the limit by as many.
type runRoom struct {
	most int64
	rest time.Duration // how long a namespace that is full is not counted again

	mu sync.Mutex
	of map[uuid.UUID]*addedRuns
}

type addedRuns struct {
	turn   chan struct{} // whoever counts has it
	free   int64
	counts int           // how often they were counted
	full   time.Duration // by clock.Elapsed: the namespace is full until then

	recount atomic.Bool // it may not be full
}

func newRunRoom() *runRoom { return &runRoom{most: job.MaxAdded, rest: 10 * time.Second} }

func (r *runRoom) runsOf(namespace uuid.UUID) *addedRuns {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.of == nil || len(r.of) >= maxRooms {
		r.of = map[uuid.UUID]*addedRuns{}
	}
	if r.of[namespace] == nil {
		r.of[namespace] = &addedRuns{turn: make(chan struct{}, 1), free: r.most / roomShare}
	}
	return r.of[namespace]
}

// addition is how many runs a user may add. They count as added.
type addition struct {
	n      int
	unused int // of them are not added after all
	of     *addedRuns
	counts int
}

// add notes that users add n runs, or as many as fit, or returns errFull. Callers of one namespace wait while its runs
// are counted.
func (r *runRoom) add(ctx context.Context, namespace uuid.UUID, n int, count func() (int64, error)) (addition, error) {
	a := r.runsOf(namespace)
	select {
	case a.turn <- struct{}{}:
		defer func() { <-a.turn }()
	case <-ctx.Done():
		return addition{}, ctx.Err()
	}
	if int64(n) > a.free && (a.recount.Swap(false) || clock.Elapsed() >= a.full) {
		used, err := count()
		if err != nil {
			return addition{}, err
		}
		free := max(0, r.most-used)
		a.free = max(min(int64(n), free), free/roomShare)
		a.counts++
		a.full = 0
		if free < int64(n) {
			a.full = clock.Elapsed() + r.rest
		}
	}
	n = int(min(int64(n), a.free))
	if n == 0 {
		return addition{}, fmt.Errorf("%w: the namespace has about %d runs that have not ended, and users may not add "+
			"more; wait until some have ended, or cancel those that are not needed (belfry run cancel)", errFull, r.most)
	}
	a.free -= int64(n)
	return addition{n: n, of: a, counts: a.counts}, nil
}

// giveBack notes that some runs are not added after all, unless the runs were counted meanwhile. While someone has the
// turn, the next one counts them.
func (a *addition) giveBack() {
	if a.unused == 0 {
		return
	}
	select {
	case a.of.turn <- struct{}{}:
		defer func() { <-a.of.turn }()
	default:
		a.of.recount.Store(true)
		return
	}
	if a.counts == a.of.counts {
		a.of.free += int64(a.unused)
	}
}

const countRunsOfNamespace = `
SELECT count(*) FROM (
    SELECT FROM run WHERE queue_id IN (SELECT id FROM queue WHERE namespace_id = $1) LIMIT $2) r`

// mayAdd returns how many runs the users of a namespace may add, up to n, or errFull. It comes before their
// transaction, because the count needs a connection of its own.
func (a *API) mayAdd(ctx context.Context, namespace uuid.UUID, n int) (addition, error) {
	return a.runs.add(ctx, namespace, n, func() (used int64, err error) {
		err = a.db.Query(ctx, pool.In(namespace), func(rows pgx.Rows) error {
			used, err = pgx.CollectExactlyOneRow(rows, pgx.RowTo[int64])
			return err
		}, countRunsOfNamespace, namespace, a.runs.most)
		return used, err
	})
}

// addParams is a request of a user for more runs.
type addParams struct {
	namespace  uuid.UUID
	what       string
	n          int // maximum number of runs
	idempotent *job.IdempotentRequest
}

// adding is retrying for work that adds runs of a user. A repeated request gets its stored response, also if the
// namespace is full.
func (a *API) adding(ctx context.Context, o addParams, work func(tx pgx.Tx, may *addition) error) error {
	may, full := a.mayAdd(ctx, o.namespace, o.n)
	if full != nil && (o.idempotent == nil || !errors.Is(full, errFull)) {
		return fmt.Errorf("%s: %w", o.what, full)
	}
	err := a.retrying(ctx, o.namespace, o.what, func(tx pgx.Tx) error {
		if err := replayOrClaim(ctx, tx, o.namespace, o.idempotent); err != nil {
			return err
		}
		if full != nil {
			return full
		}
		return work(tx, &may)
	})
	if err != nil {
		may.unused = may.n
	}
	may.giveBack()
	return err
}
