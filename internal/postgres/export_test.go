package postgres

import (
	"context"
	"io/fs"
	"time"

	"github.com/google/uuid"

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

// BoundRuns lowers the bound of runs that users of a namespace add.
func (a *API) BoundRuns(most int64, rest time.Duration) { a.runs.most, a.runs.rest = most, rest }

// RunRoom remembers how many runs users may add.
type RunRoom = runRoom

// NewRunRoom creates a RunRoom.
func NewRunRoom(most int64, rest time.Duration) *RunRoom { return &RunRoom{most: most, rest: rest} }

// Add notes that users add runs.
func (r *runRoom) Add(ctx context.Context, namespace uuid.UUID, n int, count func() (int64, error)) (*Addition, error) {
	may, err := r.add(ctx, namespace, n, count)
	return &may, err
}

// Addition is how many runs a user may add.
type Addition = addition

// N is how many.
func (a *addition) N() int { return a.n }

// GiveBack notes that some are not added.
func (a *addition) GiveBack(unused int) {
	a.unused = unused
	a.giveBack()
}

// SessionRoom remembers how many sessions namespaces have.
type SessionRoom = sessionRoom

// Open notes a session of a namespace. count returns the quota, and the sessions without and with those that have ended.
func (s *sessionRoom) Open(
	ctx context.Context, namespace uuid.UUID, replaces bool, count func() (most, live, all int64),
) error {
	return s.open(ctx, namespace, replaces, func() (n sessionCount, _ error) {
		n.most, n.live, n.all = count()
		return n, nil
	})
}

// End notes that a session has ended.
func (s *sessionRoom) End(namespace uuid.UUID) { s.ended(namespace) }

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
