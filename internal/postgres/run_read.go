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

// oneRun is every entry of one run: the live one, and each of its ends.
const oneRun = selectEntries + `
    SELECT * FROM (
        SELECT ` + liveEntry + `
        FROM run r
        WHERE r.partition = @partition AND r.job_id = @job AND r.due_at = @due AND r.seq = @seq
        UNION ALL
        (SELECT ` + endedEntry + `
         FROM run_history h
         WHERE h.job_id = @job AND h.due_at = @due AND h.seq = @seq
         ORDER BY h.ended_at DESC LIMIT 100)) u) x
ORDER BY x.ended_at DESC`

// Run returns all entries of the ledger about a run, newest first, or ErrNotFound.
func (a *API) Run(ctx context.Context, namespace uuid.UUID, k job.Key) ([]job.Entry, error) {
	entries, err := a.entries(
		ctx, namespace, false, oneRun,
		pgx.NamedArgs{"partition": k.Partition, "job": k.Job, "due": k.DueAt, "seq": k.Seq, "far": far},
	)
	if err == nil && len(entries) == 0 {
		err = job.ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("read run: %w", err)
	}
	return entries, nil
}

// runPayload reads the payload that a run has of its own.
const runPayload = `
SELECT coalesce(
    (SELECT payload FROM run WHERE partition = $1 AND job_id = $2 AND due_at = $3 AND seq = $4),
    (SELECT payload FROM run_history WHERE job_id = $2 AND due_at = $3 AND seq = $4 ORDER BY ended_at DESC LIMIT 1))`

// RunPayload returns the payload that the target receives, or has received, with a run. It is nil if there is none.
func (a *API) RunPayload(ctx context.Context, namespace uuid.UUID, e job.Entry) (json.RawMessage, error) {
	var own, whole *string
	err := a.db.Tx(ctx, store.In(namespace, store.KeyLookups), "read payload", func(tx pgx.Tx) error {
		if err := tx.QueryRow(ctx, runPayload, e.Partition, e.Job, e.DueAt, e.Seq).Scan(&own); err != nil || own != nil {
			return err
		}
		err := tx.QueryRow(ctx, oneVersion, e.Partition, e.Job, e.Version, namespace).Scan(nil, nil, nil, &whole)
		if store.NoRows(err) {
			return nil
		}
		return err
	})
	if err != nil || own != nil {
		return json.RawMessage(store.OrZero(own)), err
	}
	var d struct {
		Payload json.RawMessage `json:"payload"`
	}
	if whole == nil {
		return nil, nil
	}
	err = json.Unmarshal([]byte(*whole), &d)
	return d.Payload, err
}
