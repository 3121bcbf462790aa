package app

import (
	"context"
	"errors"
	"fmt"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/postgres"
)

// What the owner of the database does, by its URL: no key reaches so far.

// ErrNoRole says that a role of the database does not exist.
var ErrNoRole = postgres.ErrNoRole

// Migrate brings the database's schema up to date. It returns how many
// migrations were applied.
func Migrate(ctx context.Context, url string) (int, error) { return postgres.Migrate(ctx, url) }

// Grant lets nodes log in as a role: it gets what they need, and no more.
func Grant(ctx context.Context, url, role string) error {
	err := postgres.GrantServer(ctx, url, role)
	if errors.Is(err, ErrNoRole) {
		return fmt.Errorf("%w; nodes log in as one that does not own the tables: CREATE ROLE %s LOGIN PASSWORD '…', then run belfry migrate again", err, role)
	}
	return err
}

// FirstKey makes the first key of the namespace that a migration makes, and
// returns its secret; empty if there was one already.
func FirstKey(ctx context.Context, url string) (secret string, err error) {
	err = asOwner(ctx, url, func(db *postgres.DB) error {
		secret, err = db.Admin().FirstKey(ctx, access.DefaultNamespace)
		return err
	})
	return secret, err
}

// CreateNamespace makes a namespace and returns the secret of its first key.
func CreateNamespace(ctx context.Context, url, name string) (secret string, err error) {
	err = asOwner(ctx, url, func(db *postgres.DB) error {
		n, err := db.Admin().CreateNamespace(ctx, name)
		if err != nil {
			return err
		}
		secret, err = db.Admin().FirstKey(ctx, n.ID)
		return err
	})
	return secret, err
}

// CreateKey makes a key of a namespace, for those who have lost the last one, and
// returns its secret.
func CreateKey(ctx context.Context, url, namespace, name string, role access.Role) (secret string, err error) {
	err = asOwner(ctx, url, func(db *postgres.DB) error {
		all, err := db.Admin().Namespaces(ctx)
		if err != nil {
			return err
		}
		for _, n := range all {
			if n.Name == namespace {
				_, secret, err = db.API().CreateKey(ctx, access.KeyParams{Namespace: n.ID, Name: name, Role: role, Actor: "belfry"})
				return err
			}
		}
		return fmt.Errorf("there is no namespace %q; belfry namespace list shows them", namespace)
	})
	return secret, err
}

// Namespaces lists all.
func Namespaces(ctx context.Context, url string) (out []access.Namespace, err error) {
	err = asOwner(ctx, url, func(db *postgres.DB) error {
		out, err = db.Admin().Namespaces(ctx)
		return err
	})
	return out, err
}

func asOwner(ctx context.Context, url string, work func(*postgres.DB) error) error {
	db, err := postgres.Open(ctx, url, 1, postgres.Options{})
	if err != nil {
		return err
	}
	defer db.Close()
	return work(db)
}
