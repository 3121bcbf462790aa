package postgres

import (
	"context"
	"io/fs"

	"github.com/belfry-dev/belfry/internal/job"
)

// BoundLoads lowers the bounds of loads, so that few jobs are too many.
func (a *API) BoundLoads(rows, sample, cursors int) { a.loads = loadBounds{rows, sample, cursors} }

// MigrateFiles is Migrate of a program with other migrations.
func MigrateFiles(ctx context.Context, url string, files fs.FS, p MigrateParams) (int, error) {
	return migrate(ctx, url, files, p)
}

// ReadSchemaOf is ReadSchema of a program with other migrations.
func ReadSchemaOf(ctx context.Context, url string, files fs.FS) (Schema, error) {
	return readSchema(ctx, url, files)
}

// LockFamilyOf returns the lock of a session's family.
var LockFamilyOf = lockFamilyOf

// UpdateMany is updateMany, for tests.
func (a *API) UpdateMany(ctx context.Context, in []job.UpdateParams) []job.BulkResult {
	return a.updateMany(ctx, in)
}

// Objects is objects.txt.
var Objects = objects

// ReadObjects returns the indexes and policies of the database as objects.txt has them.
func (a *Admin) ReadObjects(ctx context.Context) ([]string, error) { return a.readObjects(ctx) }
