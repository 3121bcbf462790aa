package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/store"
)

const insertKey = `
INSERT INTO api_key (id, namespace_id, name, role, prefix, hash, created_by, created_at, expires_at, queues)
VALUES ($1, $2, $3, $4, $5, $6, $7, now(), CASE WHEN $8::interval > interval '0' THEN now() + $8 END,
        nullif($9::text[], '{}'))
RETURNING created_at, expires_at`

// CreateKey creates a key and returns it with its secret, which is not stored.
func (a *API) CreateKey(ctx context.Context, o access.KeyParams) (k access.APIKey, secret string, err error) {
	if err := o.Validate(); err != nil {
		return k, "", fmt.Errorf("create key: %w", err)
	}
	err = a.db.Tx(ctx, store.In(o.Namespace), "create key", func(tx pgx.Tx) error {
		k, secret, err = a.createKey(ctx, tx, o)
		return err
	})
	if err != nil {
		return k, "", err
	}
	return k, secret, nil
}

// FirstKey creates the first key of a namespace, with the role admin, and returns its secret. It returns no secret if
// the namespace already has a key, even a revoked one. An operator who has lost the last key creates another with
// CreateKey.
func (a *Admin) FirstKey(
	ctx context.Context, namespace uuid.UUID, expiresIn time.Duration,
) (secret string, err error) {
	const what = "create the first key"
	err = a.api.db.Tx(ctx, store.In(namespace), what, func(tx pgx.Tx) error {
		// The lock of the audit log keeps two calls from both creating a key.
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock($1)`, auditLock(namespace)); err != nil {
			return err
		}
		var has bool
		const hasKey = `SELECT EXISTS (SELECT FROM api_key WHERE namespace_id = $1)`
		if err := tx.QueryRow(ctx, hasKey, namespace).Scan(&has); err != nil || has {
			return err
		}
		_, secret, err = a.api.createKey(ctx, tx, access.KeyParams{
			Namespace: namespace, Name: "first", Role: access.Admin, ExpiresIn: expiresIn, Actor: itself,
		})
		return err
	})
	if err != nil {
		return "", err
	}
	return secret, nil
}

// createKey creates a key in a transaction of its namespace. Call it last: see audit.
func (a *API) createKey(ctx context.Context, tx pgx.Tx, o access.KeyParams) (k access.APIKey, secret string, err error) {
	var random [32]byte
	if _, err := rand.Read(random[:]); err != nil {
		return k, "", err
	}
	secret = access.FormatKey(random)
	hash, err := access.KeyHash(secret)
	if err != nil {
		return k, "", err
	}
	k = access.APIKey{
		Namespace: o.Namespace,
		Name:      o.Name,
		Role:      o.Role,
		Queues:    o.Queues,
		Prefix:    access.KeyShown(secret),
		CreatedBy: o.Actor,
	}
	if k.ID, err = uuid.NewV7(); err != nil {
		return k, "", err
	}
	var expires *time.Time
	row := tx.QueryRow(ctx, insertKey,
		k.ID, k.Namespace, k.Name, k.Role, k.Prefix, hash[:], k.CreatedBy, o.ExpiresIn, o.Queues)
	err = row.Scan(&k.CreatedAt, &expires)
	if err != nil {
		return k, "", err
	}
	k.CreatedAt, k.ExpiresAt = k.CreatedAt.UTC(), store.OrZero(expires).UTC()
	err = a.log.write(ctx, tx, auditParams{o.Namespace, o.Actor, "key.create", access.FormatKeyID(k.ID)}, struct {
		Name      string      `json:"name"`
		Role      access.Role `json:"role"`
		Queues    []string    `json:"queues,omitempty"`
		ExpiresAt *time.Time  `json:"expires_at"` // null: never
	}{k.Name, k.Role, k.Queues, orNull(k.ExpiresAt)})
	if err != nil {
		return k, "", err
	}
	return k, secret, additions{access.CapKeys: 1}.check(ctx, tx, o.Namespace)
}

// Principal returns who has a secret, by its hash. It works without a namespace, because the key determines it.
// ErrNotFound: there is no such key, or it is revoked or expired.
func (a *Admin) Principal(ctx context.Context, hash [32]byte) (p access.Principal, err error) {
	var left *float64
	err = a.db.QueryRow(ctx, `
SELECT k.id, k.name, k.namespace_id, n.name, k.role, k.queues, extract(epoch FROM k.expires_at - now())::float8
FROM api_key k JOIN namespace n ON n.id = k.namespace_id
WHERE k.hash = $1 AND k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > now())`, hash[:]).Scan(
		&p.Key, &p.KeyName, &p.Namespace, &p.NamespaceName, &p.Role, &p.Queues, &left)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return p, job.ErrNotFound
	case err != nil:
		return p, fmt.Errorf("find the key: %w", err)
	}
	if left != nil {
		p.Left = max(1, time.Duration(*left*float64(time.Second)))
	}
	return p, nil
}

// maxHashes bounds how many hashes KeyHashes returns, of keys and of login sessions. It prefers the newest.
const maxHashes = 100_000

const selectHashes = `
(SELECT substring(hash FOR 8) FROM api_key WHERE revoked_at IS NULL ORDER BY id DESC LIMIT $1)
UNION ALL
(SELECT substring(hash FOR 8) FROM login_session ORDER BY expires_at DESC LIMIT $1)`

// KeyHashes returns the first bytes of the hashes of all keys that are not revoked, and of all login sessions.
func (a *Admin) KeyHashes(ctx context.Context) ([][8]byte, error) {
	rows, err := a.db.Query(ctx, selectHashes, maxHashes)
	if err != nil {
		return nil, fmt.Errorf("list the hashes of keys: %w", err)
	}
	out, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (h [8]byte, err error) {
		var b []byte
		err = row.Scan(&b)
		copy(h[:], b)
		return h, err
	})
	if err != nil {
		return nil, fmt.Errorf("list the hashes of keys: %w", err)
	}
	return out, nil
}

// Keys lists the keys of a namespace, newest first.
func (a *API) Keys(ctx context.Context, namespace uuid.UUID) (out []access.APIKey, err error) {
	err = a.db.Query(ctx, store.In(namespace), func(rows pgx.Rows) error {
		out, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (k access.APIKey, err error) {
			var expires, revoked *time.Time
			err = row.Scan(
				&k.ID, &k.Namespace, &k.Name, &k.Role, &k.Queues, &k.Prefix, &k.CreatedBy, &k.CreatedAt, &expires,
				&revoked,
			)
			k.CreatedAt, k.ExpiresAt, k.RevokedAt = k.CreatedAt.UTC(), store.OrZero(expires).UTC(), store.OrZero(revoked).UTC()
			return k, err
		})
		return err
	}, `SELECT id, namespace_id, name, role, queues, prefix, created_by, created_at, expires_at, revoked_at FROM api_key
WHERE namespace_id = $1 ORDER BY id DESC LIMIT 1000`, namespace)
	if err != nil {
		return nil, fmt.Errorf("list keys: %w", err)
	}
	return out, nil
}

const revokeKey = `
UPDATE api_key SET revoked_at = coalesce(revoked_at, now()) WHERE namespace_id = $1 AND id = $2 RETURNING name`

// RevokeKey revokes a key permanently. It aborts the operations that the key began, and returns how many there were.
func (a *API) RevokeKey(ctx context.Context, namespace, id uuid.UUID, actor string) (aborted int, err error) {
	object := access.FormatKeyID(id)
	err = a.db.Tx(ctx, store.In(namespace), "revoke key", func(tx pgx.Tx) error {
		var name string
		err := tx.QueryRow(ctx, revokeKey, namespace, id).Scan(&name)
		switch {
		case store.NoRows(err):
			return job.ErrNotFound
		case err != nil:
			return err
		}
		if aborted, err = abortOperations(ctx, tx, namespace, object); err != nil {
			return err
		}
		return a.log.write(ctx, tx, auditParams{namespace, actor, "key.revoke", object}, struct {
			named
			Aborted int `json:"aborted_operations,omitempty"`
		}{named{name}, aborted})
	})
	return aborted, err
}
