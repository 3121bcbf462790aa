// Package brokers has the brokers of the operator: as a node reads them, and as commands set them.
package brokers

import (
	"context"
	"log/slog"

	"github.com/google/uuid"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/app/database"
	"github.com/belfry-dev/belfry/internal/postgres"
	"github.com/belfry-dev/belfry/internal/target/broker"
	"github.com/belfry-dev/belfry/internal/target/settings"
)

// Source reads the brokers of the operator once in a while. It is a broker.Source.
type Source struct {
	recent settings.Recent[*access.Broker]
}

// New returns a Source that reads from a store.
func New(store *postgres.API, log *slog.Logger) *Source {
	return &Source{settings.Recent[*access.Broker]{
		What: "broker", None: access.ErrNoBroker, Log: log, Read: store.Broker,
	}}
}

// Broker implements broker.Source.
func (s *Source) Broker(ctx context.Context, namespace uuid.UUID, name string) (*access.Broker, error) {
	return s.recent.Get(ctx, namespace, name)
}

// Set stores a broker for jobs, and replaces the one of that name. inClear says that nodes send its login over a network
// without encryption.
func Set(ctx context.Context, at database.At, b *access.Broker) (inClear bool, err error) {
	if err := broker.Complete(b); err != nil {
		return false, err
	}
	return broker.ClearLogin(b), database.With(ctx, at, func(db *postgres.DB) error { return db.Admin().PutBroker(ctx, b) })
}

// Delete removes a broker.
func Delete(ctx context.Context, at database.At, name string) error {
	return database.With(ctx, at, func(db *postgres.DB) error { return db.Admin().DeleteBroker(ctx, name) })
}

// List lists the brokers, without their credentials.
func List(ctx context.Context, at database.At) ([]access.Broker, error) {
	return database.From(ctx, at, func(db *postgres.DB) ([]access.Broker, error) { return db.Admin().BrokerList(ctx) })
}
