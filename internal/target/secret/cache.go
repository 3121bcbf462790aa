package secret

import (
	"context"
	"errors"
	"log/slog"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/target/settings"
)

// Cache is a Source that reads each secret from the store once in a while. Safe for concurrent use.
type Cache struct {
	recent settings.Recent[access.Secret]
}

// Store reads a secret. job.ErrNotFound: there is none of that name.
type Store interface {
	Secret(ctx context.Context, namespace uuid.UUID, name string) (access.Secret, error)
}

// NewCache returns a Cache that reads from a store. log may be nil.
func NewCache(store Store, log *slog.Logger) *Cache {
	return &Cache{settings.Recent[access.Secret]{
		What: "secret", None: ErrNone, Log: log,
		Read: func(ctx context.Context, namespace uuid.UUID, name string) (access.Secret, error) {
			found, err := store.Secret(ctx, namespace, name)
			if errors.Is(err, job.ErrNotFound) {
				err = ErrNone
			}
			return found, err
		},
	}}
}

// Secret implements Source.
func (s *Cache) Secret(
	ctx context.Context, namespace uuid.UUID, name string, use access.SecretUse,
) (access.Secret, error) {
	found, err := s.recent.Get(ctx, namespace, name)
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
	found, err := s.recent.Get(ctx, namespace, name)
	return found.Values, err
}
