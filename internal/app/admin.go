package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/postgres"
)

// These functions work with the URL of the database, because no API key has these rights. Those that change roles, the
// schema or namespaces need that of the owner.

// ErrNoRole is returned if a database role does not exist.
var ErrNoRole = postgres.ErrNoRole

// MigrateParams says which migrations to apply.
type MigrateParams = postgres.MigrateParams

// Migrate updates the schema of the database. It returns how many migrations it applied, and the schema after that.
func Migrate(ctx context.Context, url string, p MigrateParams) (applied int, s postgres.Schema, err error) {
	if applied, err = postgres.Migrate(ctx, url, p); err == nil {
		s, err = postgres.ReadSchema(ctx, url)
	}
	return applied, s, err
}

// Grant gives a database role the rights that nodes need, and no more.
func Grant(ctx context.Context, url, role string) error {
	err := postgres.GrantServer(ctx, url, role)
	if errors.Is(err, ErrNoRole) {
		return fmt.Errorf("%w; nodes log in as one that does not own the tables: "+
			"CREATE ROLE %s LOGIN PASSWORD '…', then run belfry migrate again", err, role)
	}
	return err
}

// FirstKey creates the first key of the default namespace and returns its secret. It returns an empty
// string if the namespace already has a key.
func FirstKey(ctx context.Context, url string) (secret string, err error) {
	err = withDatabase(ctx, url, func(db *postgres.DB) error {
		secret, err = db.Admin().FirstKey(ctx, access.DefaultNamespace)
		return err
	})
	return secret, err
}

// CreateNamespace creates a namespace and returns the secret of its first key.
func CreateNamespace(ctx context.Context, url, name string) (secret string, err error) {
	err = withDatabase(ctx, url, func(db *postgres.DB) error {
		n, err := db.Admin().CreateNamespace(ctx, name)
		if err != nil {
			return err
		}
		secret, err = db.Admin().FirstKey(ctx, n.ID)
		return err
	})
	return secret, err
}

// CreateKey creates a key of a namespace and returns its secret. It is the way back in for an operator who
// has lost the last key.
func CreateKey(ctx context.Context, url, namespace, name string, role access.Role) (secret string, err error) {
	err = withDatabase(ctx, url, func(db *postgres.DB) error {
		all, err := db.Admin().Namespaces(ctx)
		if err != nil {
			return err
		}
		for _, n := range all {
			if n.Name == namespace {
				params := access.KeyParams{Namespace: n.ID, Name: name, Role: role, Actor: "belfry"}
				_, secret, err = db.API().CreateKey(ctx, params)
				return err
			}
		}
		return fmt.Errorf("there is no namespace %q; belfry namespace list shows them", namespace)
	})
	return secret, err
}

// Namespaces lists the namespaces of users. That of the canary is not one of them.
func Namespaces(ctx context.Context, url string) (out []access.Namespace, err error) {
	err = withDatabase(ctx, url, func(db *postgres.DB) error {
		all, err := db.Admin().Namespaces(ctx)
		out = slices.DeleteFunc(all, func(n access.Namespace) bool { return n.ID == access.CanaryNamespace })
		return err
	})
	return out, err
}

// Clock returns the time of the database, and the last time that the cluster trusted.
func Clock(ctx context.Context, url string) (s clock.Sample, err error) {
	err = withDatabase(ctx, url, func(db *postgres.DB) error {
		s, err = db.Admin().Clock(ctx)
		return err
	})
	return s, err
}

// ConfirmClock makes all nodes trust the clock of the database as it is now.
func ConfirmClock(ctx context.Context, url string) (s clock.Sample, err error) {
	err = withDatabase(ctx, url, func(db *postgres.DB) error {
		s, err = db.Admin().ConfirmClock(ctx)
		return err
	})
	return s, err
}

func withDatabase(ctx context.Context, url string, work func(*postgres.DB) error) error {
	db, err := postgres.Open(ctx, url, 1, postgres.Options{})
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

// Restore returns the last restore of the database to an earlier time, and what it holds up to an instant; zero: all.
func Restore(ctx context.Context, url string, to time.Time) (r job.Restore, err error) {
	err = withDatabase(ctx, url, func(db *postgres.DB) error {
		r, err = db.Admin().Restore(ctx, to)
		return err
	})
	return r, err
}

// AcceptRestore decides about what a restore of the database holds.
func AcceptRestore(ctx context.Context, url string, p job.AcceptParams) (out job.AcceptResult, err error) {
	err = withDatabase(ctx, url, func(db *postgres.DB) error {
		out, err = db.Admin().AcceptRestore(ctx, p)
		return err
	})
	return out, err
}

// BackupDone records that a backup of the database has ended, and returns when.
func BackupDone(ctx context.Context, url string) (at time.Time, err error) {
	err = withDatabase(ctx, url, func(db *postgres.DB) error {
		at, err = db.Admin().BackupDone(ctx)
		return err
	})
	return at, err
}
