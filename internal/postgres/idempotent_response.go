package postgres

import (
	"context"
	"crypto/subtle"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/store"
)

// claimResponse waits for a concurrent request with the same key. It replaces a response that is too old.
const claimResponse = `
INSERT INTO idempotent_response (namespace_id, key, part, request_hash, created_at)
VALUES ($1, $2, $3, $4, now())
ON CONFLICT (namespace_id, key, part) DO UPDATE
SET request_hash = excluded.request_hash, body = NULL, created_at = now()
WHERE idempotent_response.created_at < now() - $5::interval
RETURNING created_at`

// replayOrClaim reserves the key of a request for this transaction. If the request was already processed, it fills in
// the stored response and returns job.ErrAlreadyDone. Call it first in a transaction, and storeResponse at the end.
// A request that stores its response in a later transaction may have been interrupted before. It continues then.
func replayOrClaim(ctx context.Context, tx pgx.Tx, namespace uuid.UUID, o *job.IdempotentRequest) error {
	if o == nil {
		return nil
	}
	err := tx.QueryRow(ctx, claimResponse, namespace, o.Key, o.Part, o.Request[:], job.KeepResponses).Scan(&o.Since)
	if !store.NoRows(err) {
		return err
	}
	var request []byte
	var body *string
	err = tx.QueryRow(ctx, `SELECT request_hash, body, created_at FROM idempotent_response
		WHERE namespace_id = $1 AND key = $2 AND part = $3`, namespace, o.Key, o.Part).Scan(&request, &body, &o.Since)
	switch {
	case store.NoRows(err):
		return errMoved // it was removed meanwhile
	case err != nil:
		return err
	case subtle.ConstantTimeCompare(request, o.Request[:]) == 0:
		return job.ErrKeyUsed
	case body == nil:
		return nil
	}
	o.Response = []byte(*body)
	return job.ErrAlreadyDone
}

// storeResponse stores the response to the request.
func storeResponse(ctx context.Context, tx pgx.Tx, namespace uuid.UUID, o *job.IdempotentRequest, result any) error {
	if o == nil {
		return nil
	}
	body, err := o.Encode(result)
	if err != nil {
		return fmt.Errorf("store the response: %w", err)
	}
	_, err = tx.Exec(ctx, `UPDATE idempotent_response SET body = $4
		WHERE namespace_id = $1 AND key = $2 AND part = $3`, namespace, o.Key, o.Part, string(body))
	return err
}
