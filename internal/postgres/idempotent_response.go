package postgres

import (
	"context"
	"crypto/subtle"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/belfry-dev/belfry/internal/job"
)

// responsesKept is how long the answer to a request with a key is known.
const responsesKept = 24 * time.Hour

// Another request with the key that is under way is waited for. An answer that
// is too old makes place.
const claimResponse = `
INSERT INTO idempotent_response (namespace_id, key, part, request_hash, created_at) VALUES ($1, $2, $3, $4, now())
ON CONFLICT (namespace_id, key, part) DO UPDATE SET request_hash = excluded.request_hash, body = NULL,
    created_at = now()
WHERE idempotent_response.created_at < now() - $5::interval`

// once runs work, or recalls what it came to before: then the error is ErrDone.
// It is called first in a transaction; keep is last.
func replayOrClaim(ctx context.Context, tx pgx.Tx, namespace uuid.UUID, o *job.IdempotentRequest) error {
	if o == nil {
		return nil
	}
	claimed, err := tx.Exec(ctx, claimResponse, namespace, o.Key, o.Part, o.Request[:], responsesKept)
	if err != nil || claimed.RowsAffected() == 1 {
		return err
	}
	var request []byte
	var body string
	err = tx.QueryRow(ctx, `SELECT request_hash, body FROM idempotent_response
		WHERE namespace_id = $1 AND key = $2 AND part = $3`, namespace, o.Key, o.Part).Scan(&request, &body)
	switch {
	case noRows(err):
		return errMoved // it was removed meanwhile
	case err != nil:
		return err
	case subtle.ConstantTimeCompare(request, o.Request[:]) == 0:
		return job.ErrKeyUsed
	}
	o.Response = []byte(body)
	return job.ErrAlreadyDone
}

// keep stores the answer of what was done.
func storeResponse(ctx context.Context, tx pgx.Tx, namespace uuid.UUID, o *job.IdempotentRequest, result any) error {
	if o == nil {
		return nil
	}
	body, err := o.Encode(result)
	if err != nil {
		return fmt.Errorf("keep the answer: %w", err)
	}
	_, err = tx.Exec(ctx, `UPDATE idempotent_response SET body = $4
		WHERE namespace_id = $1 AND key = $2 AND part = $3`, namespace, o.Key, o.Part, string(body))
	return err
}

// DropIdempotentResponses removes up to limit answers that are no longer kept, and returns how many.
func (e *Engine) DropIdempotentResponses(ctx context.Context, limit int) (int, error) {
	gone, err := e.db.Exec(ctx, `
DELETE FROM idempotent_response WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM idempotent_response
    WHERE created_at < now() - $1::interval ORDER BY created_at LIMIT $2 FOR UPDATE SKIP LOCKED))`,
		responsesKept, limit)
	if err != nil {
		return 0, fmt.Errorf("drop old answers: %w", err)
	}
	return int(gone.RowsAffected()), nil
}
