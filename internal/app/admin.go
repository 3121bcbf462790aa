package app

import (
	"context"
	"slices"
	"time"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/app/database"
	"github.com/belfry-dev/belfry/internal/clock"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/postgres"
)

// No API key has these rights. The URL must be that of the owner to change roles, the schema or namespaces.

// Database is where a command finds the database, and the keyset that seals what it writes.
type Database = database.At

// ConnectError means that Grant did not change who may connect to the database.
type ConnectError = postgres.ConnectError

// GrantParams says which login gets the rights of a server.
type GrantParams = postgres.GrantParams

// MigrateParams says which migrations to apply.
type MigrateParams = postgres.MigrateParams

// ErrNoRole is returned if a database role does not exist.
var ErrNoRole = postgres.ErrNoRole

// CheckLink returns an error if a connection to the database could lead over a network without verified TLS.
func CheckLink(url string) error { return postgres.CheckLink(url) }

// Migrate updates the schema of the database, and returns the schema after that.
func Migrate(ctx context.Context, url string, p MigrateParams) (postgres.Schema, error) {
	if _, err := postgres.Migrate(ctx, url, p); err != nil {
		return postgres.Schema{}, err
	}
	return postgres.ReadSchema(ctx, url)
}

// Grant gives a database role the rights that nodes need, and no more.
func Grant(ctx context.Context, url string, p GrantParams) error {
	return postgres.GrantServer(ctx, url, p)
}

// MakeServerRole creates a login role with the rights that a node needs. If the role exists, it gets the
// new password. The URL is that of a superuser.
func MakeServerRole(ctx context.Context, url, role, password string) error {
	if err := postgres.CreateServer(ctx, url, role, password); err != nil {
		return err
	}
	return Grant(ctx, url, GrantParams{Role: role})
}

// FirstKey creates the first key of the default namespace and returns its secret; empty: it has a key. A life of 0 means
// that it does not expire.
func FirstKey(ctx context.Context, at Database, life time.Duration) (string, error) {
	return database.From(ctx, at, func(db *postgres.DB) (string, error) {
		return db.Admin().FirstKey(ctx, access.DefaultNamespace, life)
	})
}

// CreateNamespace creates a namespace and returns the secret of its first key, whose life is as that of FirstKey.
func CreateNamespace(ctx context.Context, at Database, name string, life time.Duration) (secret string, err error) {
	return database.From(ctx, at, func(db *postgres.DB) (string, error) {
		n, err := db.Admin().CreateNamespace(ctx, name)
		if err != nil {
			return "", err
		}
		return db.Admin().FirstKey(ctx, n.ID, life)
	})
}

// Quotas sets quotas of a namespace, and returns all of them.
func Quotas(ctx context.Context, at Database, name string, set access.QuotaParams) ([]access.QuotaUse, error) {
	return database.From(ctx, at, func(db *postgres.DB) ([]access.QuotaUse, error) {
		return db.Admin().SetQuotas(ctx, name, set)
	})
}

// CreateKey creates a key of a namespace and returns its secret, also for an operator who has lost the last key.
func CreateKey(ctx context.Context, at Database, namespace string, p access.KeyParams) (secret string, err error) {
	return database.From(ctx, at, func(db *postgres.DB) (string, error) {
		p.Actor = "belfry"
		if p.Namespace, err = db.Admin().NamespaceNamed(ctx, namespace); err != nil {
			return "", err
		}
		_, secret, err = db.API().CreateKey(ctx, p)
		return secret, err
	})
}

// Namespaces lists the namespaces of users. That of the canary is not one of them.
func Namespaces(ctx context.Context, url string) ([]access.Namespace, error) {
	return database.From(ctx, database.At{URL: url}, func(db *postgres.DB) ([]access.Namespace, error) {
		all, err := db.Admin().Namespaces(ctx)
		return slices.DeleteFunc(all, func(n access.Namespace) bool { return n.ID == access.CanaryNamespace }), err
	})
}

// Clock returns the time of the database, and the last time that the cluster trusted.
func Clock(ctx context.Context, url string) (clock.Sample, error) {
	return database.From(ctx, database.At{URL: url}, func(db *postgres.DB) (clock.Sample, error) { return db.Admin().Clock(ctx) })
}

// ConfirmClock makes all nodes trust the clock of the database as it is now.
func ConfirmClock(ctx context.Context, at Database) (clock.Sample, error) {
	return database.From(ctx, at, func(db *postgres.DB) (clock.Sample, error) { return db.Admin().ConfirmClock(ctx) })
}

// Restore returns the last restore of the database to an earlier time, and what it holds.
func Restore(ctx context.Context, url string) (job.Restore, error) {
	return database.From(ctx, database.At{URL: url}, func(db *postgres.DB) (job.Restore, error) { return db.Admin().Restore(ctx) })
}

// AcceptRestore runs or skips what a restore of the database holds.
func AcceptRestore(ctx context.Context, at Database, run bool, noticed time.Time) (job.AcceptResult, error) {
	return database.From(ctx, at, func(db *postgres.DB) (job.AcceptResult, error) {
		return db.Admin().AcceptRestore(ctx, run, noticed)
	})
}

// BackupDone records that a backup of the database has ended, and returns when.
func BackupDone(ctx context.Context, url string) (time.Time, error) {
	return database.From(ctx, database.At{URL: url}, func(db *postgres.DB) (time.Time, error) { return db.Admin().BackupDone(ctx) })
}
