// Package database is how commands and nodes of one process come to the database of Belfry.
package database

import (
	"context"
	"fmt"

	"github.com/belfry-dev/belfry/internal/postgres"
	"github.com/belfry-dev/belfry/internal/seal"
)

// At is a database, and the keyset that seals what is written there.
type At struct {
	URL    string
	Keyset string // as seal.Keyset.Text returns it; empty: none
}

// ReadKeyset reads the keyset of the settings. It returns nil if none is set.
func ReadKeyset(text string) (*seal.Keyset, error) {
	if text == "" {
		return nil, nil //nolint:nilnil // no keyset and no error: none is set
	}
	k, err := seal.Read(text)
	if err != nil {
		return nil, fmt.Errorf("secrets.keyset or secrets.keyset_file: %w", err)
	}
	return k, nil
}

// With opens a database for a command.
func With(ctx context.Context, at At, work func(*postgres.DB) error) error {
	var o postgres.Options
	k, err := ReadKeyset(at.Keyset)
	if err != nil {
		return err
	}
	if k != nil {
		o.Sealer = k
	}
	db, err := postgres.Open(ctx, at.URL, 1, o)
	if err != nil {
		return err
	}
	defer db.Close()
	err = work(db)
	if u := postgres.AsUnreachable(err); u != nil {
		return fmt.Errorf("cannot connect to the database %s: %s; check --database-url", u.Hosts, u.Reason)
	}
	return err
}

// From is With for work that has a result.
func From[T any](ctx context.Context, at At, read func(*postgres.DB) (T, error)) (out T, err error) {
	err = With(ctx, at, func(db *postgres.DB) error {
		out, err = read(db)
		return err
	})
	return out, err
}
