package postgres

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/store"
)

// The statements below read labels by skipping: each step searches the index for the next key or value. Their work
// depends on the bounds, not on the number of jobs.

// labelKeys reads the keys of a namespace. $1 namespace, $2 number of keys, $3 values to count, $4 jobs to count.
const labelKeys = `
WITH RECURSIVE k(n, key) AS (
    (SELECT 1, key FROM job_label WHERE namespace_id = $1 ORDER BY key LIMIT 1)
    UNION ALL
    SELECT k.n + 1, x.key FROM k, LATERAL (
        SELECT key FROM job_label WHERE namespace_id = $1 AND key > k.key ORDER BY key LIMIT 1) x
    WHERE k.n < $2)
SELECT k.key, (
           WITH RECURSIVE v(n, value) AS (
               (SELECT 1, value FROM job_label WHERE namespace_id = $1 AND key = k.key ORDER BY value LIMIT 1)
               UNION ALL
               SELECT v.n + 1, x.value FROM v, LATERAL (
                   SELECT value FROM job_label WHERE namespace_id = $1 AND key = k.key AND value > v.value
                   ORDER BY value LIMIT 1) x
               WHERE v.n < $3)
           SELECT count(*) FROM v),
       (SELECT count(*) FROM (SELECT FROM job_label WHERE namespace_id = $1 AND key = k.key LIMIT $4) j)
FROM k ORDER BY k.n`

// labelValues reads the values of a key that begin with a prefix. $1 namespace, $2 key, $3 number of values, $4 jobs to
// count, $5 prefix. The collation orders by bytes, and no character comes after the last one of Unicode.
const labelValues = `
WITH RECURSIVE v(n, value) AS (
    (SELECT 1, value FROM job_label
     WHERE namespace_id = $1 AND key = $2 AND value >= $5 AND value < $5 || chr(1114111) ORDER BY value LIMIT 1)
    UNION ALL
    SELECT v.n + 1, x.value FROM v, LATERAL (
        SELECT value FROM job_label
        WHERE namespace_id = $1 AND key = $2 AND value > v.value AND value < $5 || chr(1114111)
        ORDER BY value LIMIT 1) x
    WHERE v.n < $3)
SELECT v.value, (
    SELECT count(*) FROM (SELECT FROM job_label WHERE namespace_id = $1 AND key = $2 AND value = v.value LIMIT $4) j)
FROM v ORDER BY v.n`

// Labels returns the keys of the labels of a namespace, and whether there are more.
func (v *Views) Labels(ctx context.Context, namespace uuid.UUID) (out []job.LabelKey, more bool, err error) {
	err = v.readLabels(ctx, namespace, func(row pgx.CollectableRow) error {
		var k job.LabelKey
		err := row.Scan(&k.Key, &k.Values, &k.Jobs)
		k.MoreValues, k.MoreJobs = k.Values > job.MaxKeyValues, k.Jobs > job.MaxLabelJobs
		k.Values, k.Jobs = min(k.Values, job.MaxKeyValues), min(k.Jobs, job.MaxLabelJobs)
		out = append(out, k)
		return err
	}, labelKeys, namespace, job.MaxLabelKeys+1, job.MaxKeyValues+1, job.MaxLabelJobs+1)
	more = len(out) > job.MaxLabelKeys
	return out[:min(len(out), job.MaxLabelKeys)], more, err
}

// LabelValues returns the values of a label that begin with a prefix, and whether there are more.
func (v *Views) LabelValues(
	ctx context.Context, namespace uuid.UUID, key, prefix string,
) (out []job.LabelValue, more bool, err error) {
	err = v.readLabels(ctx, namespace, func(row pgx.CollectableRow) error {
		var x job.LabelValue
		err := row.Scan(&x.Value, &x.Jobs)
		x.MoreJobs, x.Jobs = x.Jobs > job.MaxLabelJobs, min(x.Jobs, job.MaxLabelJobs)
		out = append(out, x)
		return err
	}, labelValues, namespace, key, job.MaxLabelValues+1, job.MaxLabelJobs+1, prefix)
	more = len(out) > job.MaxLabelValues
	return out[:min(len(out), job.MaxLabelValues)], more, err
}

func (v *Views) readLabels(
	ctx context.Context, namespace uuid.UUID, read func(pgx.CollectableRow) error, sql string, args ...any,
) error {
	settings := store.In(namespace, store.Lists, store.NoBitmaps, store.InOrder, store.Timeout("5s"))
	err := v.db.Query(ctx, settings, func(rows pgx.Rows) error {
		_, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (struct{}, error) { return struct{}{}, read(row) })
		return err
	}, sql, args...)
	if err != nil {
		return fmt.Errorf("read labels: %w", err)
	}
	return nil
}
