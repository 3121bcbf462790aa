package app

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/singleflight"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/target/secret"
)

// resealPause is the pause between two searches for secrets that an old key has encrypted.
const resealPause = 10 * time.Minute

// resealOnce encrypts secrets of an old key again, with the key in use.
func (n *node) resealOnce(ctx context.Context) (time.Duration, error) {
	done, left, err := n.store.ResealSecrets(ctx)
	if done+left > 0 {
		n.log.Info("secrets resealed with the key in use", "done", done, "left", left)
	}
	return resealPause, err
}

const (
	secretTrust  = 5 * time.Second // how long a secret is cached
	secretErrors = time.Second     // how long an error is cached
	secretStale  = time.Minute     // how long a cached secret is used while the database is down
	secretWait   = 5 * time.Second // timeout of the database query
	maxSecrets   = 10_000
)

// secrets caches the secrets that targets need for each delivery.
type secrets struct {
	read  func(ctx context.Context, namespace uuid.UUID, name string) (access.Secret, error)
	calls singleflight.Group // deliveries that need the same secret share one query

	mu    sync.Mutex
	known map[secretKey]knownSecret
}

type secretKey struct {
	namespace uuid.UUID
	name      string
}

type knownSecret struct {
	secret access.Secret
	err    error
	at     time.Duration // by clock.Elapsed
}

// Secret implements secret.Source.
func (s *secrets) Secret(ctx context.Context, namespace uuid.UUID, name string) (access.Secret, error) {
	key := secretKey{namespace, name}
	s.mu.Lock()
	known, ok := s.known[key]
	s.mu.Unlock()
	age := clock.Elapsed() - known.at
	if ok && (known.err == nil && age < secretTrust || age < secretErrors) {
		return known.secret, known.err
	}
	// The call must outlive this delivery, because others wait for the same result.
	answer := s.calls.DoChan(namespace.String()+name, func() (any, error) {
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), secretWait)
		defer cancel()
		found, err := s.read(limited, namespace, name)
		if errors.Is(err, job.ErrNotFound) {
			err = secret.ErrNone
		}
		if err != nil && !errors.Is(err, secret.ErrNone) && ok && known.err == nil && age < secretStale {
			return known.secret, nil // the database is down: use the last known value
		}
		s.keep(key, knownSecret{found, err, clock.Elapsed()})
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

// report returns where and with which token a target reports on an attempt that it has accepted.
func (n *node) report(a job.Attempt) (url, token string) {
	return n.config.API.URL + "/api/v1/runs/" + job.FormatRunID(a.Key), access.ReportOf(a).Token(n.reportKey)
}

func (s *secrets) keep(key secretKey, k knownSecret) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known == nil || len(s.known) >= maxSecrets {
		s.known = map[secretKey]knownSecret{}
	}
	s.known[key] = k
}
