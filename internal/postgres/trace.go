package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/store"
)

// traceRuns reads ended runs ($1 to $4, and $5 their last attempts) with the target that they went to. Only ends of the
// last hour are looked for, so that PostgreSQL reads one or two days of history.
const traceRuns = `
WITH k AS MATERIALIZED (
    SELECT unnest($1::smallint[]) AS partition, unnest($2::uuid[]) AS job_id, unnest($3::timestamptz[]) AS due_at,
           unnest($4::smallint[]) AS seq, unnest($5::smallint[]) AS attempt,
           generate_subscripts($1::smallint[], 1) - 1 AS n
)
SELECT k.n, h.version, h.run_at, h.started_at, h.ended_at, h.ended, h.origin, h.status, coalesce(h.reason, ''),
       h.attempts, coalesce(h.trace, ''), coalesce(j.name, ''), coalesce(q.name, ''), coalesce(n.name, ''),
       coalesce(j.target_kind, ''), coalesce(j.target_config, ''), coalesce(v.definition, '')
FROM k, LATERAL (
    SELECT * FROM run_history
    WHERE job_id = k.job_id AND due_at = k.due_at AND seq = k.seq AND attempt = k.attempt
      AND ended_at > now() - interval '1 hour'
    ORDER BY ended_at DESC LIMIT 1) h
LEFT JOIN LATERAL (
    SELECT version, name, target_kind, target_config FROM job
    WHERE partition = k.partition AND id = k.job_id LIMIT 1) j ON true
LEFT JOIN LATERAL (
    SELECT definition FROM job_version
    WHERE partition = k.partition AND job_id = k.job_id AND version = h.version
      AND j.version IS DISTINCT FROM h.version LIMIT 1) v ON true
LEFT JOIN LATERAL (SELECT name, namespace_id FROM queue WHERE id = h.queue_id LIMIT 1) q ON true
LEFT JOIN LATERAL (SELECT name FROM namespace WHERE id = q.namespace_id LIMIT 1) n ON true`

// TraceRuns returns ended runs with what their spans need. It leaves out ends that history does not have: another
// attempt took over.
func (a *Admin) TraceRuns(ctx context.Context, ends []job.End) (out []job.Traced, err error) {
	keys, attempts := make([]job.Key, len(ends)), make([]int16, len(ends))
	for i, e := range ends {
		keys[i], attempts[i] = e.Key, e.Attempt
	}
	k := store.SplitKeys(keys)
	var batch pgx.Batch // one round trip, one transaction
	batch.Queue(store.Apply(store.KeyLookups))
	batch.Queue(traceRuns, k.Partition, k.Job, k.DueAt, k.Seq, attempts).Query(func(rows pgx.Rows) error {
		var n int
		_, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (none struct{}, err error) {
			r, err := scanTraced(row, &n)
			r.Key, r.Attempt = ends[n].Key, ends[n].Attempt
			if r.Code == 0 {
				r.Code = ends[n].Status
			}
			out = append(out, r)
			return none, err
		})
		return err
	})
	if err := a.db.SendBatch(ctx, &batch).Close(); err != nil {
		return nil, fmt.Errorf("read %d ended runs: %w", len(ends), err)
	}
	return out, nil
}

func scanTraced(row pgx.CollectableRow, n *int) (r job.Traced, err error) {
	var started *time.Time
	var ended job.Ended
	var status int16
	var attempts []byte
	var definition string
	err = row.Scan(
		n, &r.Version, &r.RunAt, &started, &r.EndedAt, &ended, &r.Origin, &status, &r.Reason, &attempts, &r.Trace,
		&r.JobName, &r.Queue, &r.Namespace, &r.Kind, &r.Config, &definition,
	)
	if err != nil {
		return r, err
	}
	r.RunAt, r.StartedAt, r.EndedAt = r.RunAt.UTC(), store.OrZero(started).UTC(), r.EndedAt.UTC()
	r.Status, r.Code = job.EndedStatus(ended), int(status)
	if definition != "" { // the job was edited or deleted since
		var d job.Definition
		if err := json.Unmarshal([]byte(definition), &d); err == nil {
			r.Kind, r.Config = d.Target.Kind, string(d.Target.Config)
		}
	}
	r.Attempts, err = readAttempts(attempts)
	return r, err
}
