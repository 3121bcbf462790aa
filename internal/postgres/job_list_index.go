package postgres

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/belfry-dev/belfry/internal/store"
)

// indexSearch is the one exception to the rule that the API's side sees a single
// namespace: statements of lists and loads that row-level security would keep from
// their index. They return ids, due times and schedules of the namespace they name,
// and a count of live runs; the API then reads each job under row-level security.
//
// It is an interface, so that a method of API cannot reach the connections
// behind it.
type indexSearch interface {
	// names finds ids of jobs by a part of their name. indexed is false where the
	// database lacks the extension, and so the index.
	names(ctx context.Context, args pgx.NamedArgs) (ids []uuid.UUID, indexed bool, err error)
	// load runs a statement of a load.
	load(ctx context.Context, sql loadStatement, args pgx.NamedArgs, read func(pgx.Rows) error) error
}

// engineSearch is indexSearch with the engine's view of the database.
type engineSearch struct{ all store.All }

// The index job_name_trigram finds parts of names that few jobs have. Under row-level security PostgreSQL does not use
// it, because its operators could leak rows of others. The settings leave no other plan.
const (
	onlyBitmaps store.Settings = `set_config('enable_seqscan', 'off', true), set_config('enable_indexscan', 'off', true),
set_config('enable_indexonlyscan', 'off', true)`

	searchNames = `
SELECT s.id FROM job s
WHERE s.namespace_id = @namespace AND s.id > @after AND s.name ILIKE @name AND` + matches + `
LIMIT @found`
)

// names finds ids of jobs by a part of their name. indexed is false if the database lacks the extension, and so the
// index.
func (x engineSearch) names(ctx context.Context, args pgx.NamedArgs) (ids []uuid.UUID, indexed bool, err error) {
	err = x.all.QueryRow(ctx, `SELECT to_regclass('job_name_trigram') IS NOT NULL`).Scan(&indexed)
	if err != nil || !indexed {
		return nil, false, err
	}
	var batch pgx.Batch
	batch.Queue(store.Apply(append(append([]store.Settings{onlyBitmaps}, customPlans...), store.Timeout("500ms"))...))
	batch.Queue(searchNames, args).Query(collectIDs(&ids))
	return ids, true, x.all.SendBatch(ctx, &batch).Close()
}
