package settings

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/singleflight"

	"github.com/belfry-dev/belfry/internal/clock"
)

const (
	recentTime  = 5 * time.Second // how long a value is used
	errorTime   = time.Second     // how long an error is used
	staleTime   = time.Minute     // how long a value is used while the database is down
	readTimeout = 5 * time.Second // timeout of the database query
	maxRecent   = 10_000
)

// Recent reads each value of the store once in a while, by namespace and name. Safe for concurrent use.
type Recent[V any] struct {
	// What it reads, for the log.
	What string
	Read func(ctx context.Context, namespace uuid.UUID, name string) (V, error)
	// None is the error that says that there is none of that name.
	None  error
	Log   *slog.Logger       // nil: none
	calls singleflight.Group // deliveries that need the same value share one query

	mu    sync.Mutex
	known map[recentKey]recent[V]
}

type recentKey struct {
	namespace uuid.UUID
	name      string
}

type recent[V any] struct {
	value V
	err   error
	at    time.Duration // by clock.Elapsed
}

// Get returns a value, as it was a few seconds ago.
func (r *Recent[V]) Get(ctx context.Context, namespace uuid.UUID, name string) (none V, err error) {
	key := recentKey{namespace, name}
	r.mu.Lock()
	known, ok := r.known[key]
	r.mu.Unlock()
	age := clock.Elapsed() - known.at
	if ok && (known.err == nil && age < recentTime || age < errorTime) {
		return known.value, known.err
	}
	// The call must outlive this delivery, because others wait for the same result.
	answer := r.calls.DoChan(namespace.String()+name, func() (any, error) {
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), readTimeout)
		defer cancel()
		found, err := r.Read(limited, namespace, name)
		if err != nil && !errors.Is(err, r.None) && ok && known.err == nil && age < staleTime {
			return known.value, nil // the database is down: use the last known value
		}
		if r.Log != nil && err != nil && !errors.Is(err, r.None) { // messages of runs do not have the error
			r.Log.Warn("read for targets failed", "what", r.What, "namespace", namespace, "name", name, "error", err)
		}
		r.keep(key, recent[V]{found, err, clock.Elapsed()})
		return found, err
	})
	select {
	case <-ctx.Done():
		return none, ctx.Err()
	case a := <-answer:
		found, _ := a.Val.(V)
		return found, a.Err
	}
}

func (r *Recent[V]) keep(key recentKey, v recent[V]) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.known == nil || len(r.known) >= maxRecent {
		r.known = map[recentKey]recent[V]{}
	}
	r.known[key] = v
}
