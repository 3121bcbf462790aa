package secret

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/singleflight"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/job"
)

const (
	cacheTime   = 5 * time.Second // how long a secret is cached
	errorTime   = time.Second     // how long an error is cached
	staleTime   = time.Minute     // how long a cached secret is used while the database is down
	readTimeout = 5 * time.Second // timeout of the database query
	maxCached   = 10_000
)

// Cache is a Source that reads each secret from the store once in a while. Safe for concurrent use.
type Cache struct {
	// Store reads a secret. job.ErrNotFound: there is none of that name.
	Store interface {
		Secret(ctx context.Context, namespace uuid.UUID, name string) (access.Secret, error)
	}
	Log   *slog.Logger       // nil: none
	calls singleflight.Group // deliveries that need the same secret share one query

	mu    sync.Mutex
	known map[cacheKey]cached
}

type cacheKey struct {
	namespace uuid.UUID
	name      string
}

type cached struct {
	secret access.Secret
	err    error
	at     time.Duration // by clock.Elapsed
}

// Secret implements Source.
func (s *Cache) Secret(
	ctx context.Context, namespace uuid.UUID, name string, use access.SecretUse,
) (access.Secret, error) {
	found, err := s.find(ctx, namespace, name)
	if err == nil {
		err = found.Binding.Check(name, use)
	}
	if err != nil {
		return access.Secret{}, err
	}
	return found, nil
}

// Values returns the newest value of a secret and, for a while after a change, the previous one, wherever the secret may
// be used. They are for Redact: text of someone else may repeat a secret that was bound to another host since.
func (s *Cache) Values(ctx context.Context, namespace uuid.UUID, name string) ([]string, error) {
	found, err := s.find(ctx, namespace, name)
	return found.Values, err
}

func (s *Cache) find(ctx context.Context, namespace uuid.UUID, name string) (access.Secret, error) {
	key := cacheKey{namespace, name}
	s.mu.Lock()
	known, ok := s.known[key]
	s.mu.Unlock()
	age := clock.Elapsed() - known.at
	if ok && (known.err == nil && age < cacheTime || age < errorTime) {
		return known.secret, known.err
	}
	// The call must outlive this delivery, because others wait for the same result.
	answer := s.calls.DoChan(namespace.String()+name, func() (any, error) {
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), readTimeout)
		defer cancel()
		found, err := s.Store.Secret(limited, namespace, name)
		if errors.Is(err, job.ErrNotFound) {
			err = ErrNone
		}
		if err != nil && !errors.Is(err, ErrNone) && ok && known.err == nil && age < staleTime {
			return known.secret, nil // the database is down: use the last known value
		}
		if s.Log != nil && err != nil && !errors.Is(err, ErrNone) { // messages of runs do not have the error
			s.Log.Warn("read of a secret failed", "namespace", namespace, "secret", name, "error", err)
		}
		s.keep(key, cached{found, err, clock.Elapsed()})
		return found, err
	})
	select {
	case <-ctx.Done():
		return access.Secret{}, ctx.Err()
	case r := <-answer:
		found, _ := r.Val.(access.Secret)
		return found, r.Err
	}
}

func (s *Cache) keep(key cacheKey, k cached) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known == nil || len(s.known) >= maxCached {
		s.known = map[cacheKey]cached{}
	}
	s.known[key] = k
}
