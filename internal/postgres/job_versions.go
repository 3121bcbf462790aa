package postgres

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/store"
)

// IS NOT DISTINCT FROM: see whereJob.
const (
	whereVersions = `
FROM job_version WHERE partition = $1 AND job_id = $2 AND namespace_id IS NOT DISTINCT FROM $4 AND version `
	oneVersion   = `SELECT version, actor, created_at, definition` + whereVersions + `= $3`
	someVersions = `SELECT version, actor, created_at, ''` + whereVersions + `< $3 ORDER BY version DESC LIMIT $5`
)

func scanVersion(row pgx.CollectableRow) (v job.Version, err error) {
	var definition string
	if err := row.Scan(&v.Number, &v.CreatedBy, &v.CreatedAt, &definition); err != nil {
		return v, err
	}
	v.CreatedAt = v.CreatedAt.UTC()
	if definition != "" {
		err = json.Unmarshal([]byte(definition), &v.Definition)
		v.Definition = v.WithDefaults()
	}
	return v, err
}

// JobVersions lists the versions of a job before a version, newest first, without their definitions. Versions of a
// deleted job stay.
func (a *API) JobVersions(
	ctx context.Context, namespace, id uuid.UUID, before int32, limit int,
) (out []job.Version, err error) {
	err = a.db.Query(ctx, store.In(namespace, store.KeyLookups), func(rows pgx.Rows) error {
		out, err = pgx.CollectRows(rows, scanVersion)
		return err
	}, someVersions, job.PartitionOf(id), id, before, namespace, limit)
	if err != nil {
		return nil, fmt.Errorf("list versions: %w", err)
	}
	return out, nil
}

// JobVersion returns a version of a job, or ErrNotFound.
func (a *API) JobVersion(ctx context.Context, namespace, id uuid.UUID, number int32) (v job.Version, err error) {
	err = a.db.Query(ctx, store.In(namespace, store.KeyLookups), func(rows pgx.Rows) error {
		v, err = pgx.CollectExactlyOneRow(rows, scanVersion)
		return err
	}, oneVersion, job.PartitionOf(id), id, number, namespace)
	if store.NoRows(err) {
		err = job.ErrNotFound
	}
	if err != nil {
		return v, fmt.Errorf("read version: %w", err)
	}
	return v, nil
}
