package postgres

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/postgres/pool"
)

// lockLoginKey also makes logins of a key wait for each other, so that they cannot exceed access.MaxLogins together.
const lockLoginKey = `
SELECT FROM api_key
WHERE namespace_id = $1 AND id = $2 AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > now())
FOR NO KEY UPDATE`

// dropLogins ends the oldest sessions of a key so that $3 remain. Sessions that have ended go first.
const dropLogins = `
DELETE FROM login_session WHERE namespace_id = $1 AND id IN (
    SELECT id FROM login_session WHERE namespace_id = $1 AND key_id = $2
    ORDER BY expires_at > now() AND used_at > now() - $4::interval DESC, created_at DESC, id DESC OFFSET $3)`

const insertLogin = `
INSERT INTO login_session (id, namespace_id, key_id, hash, client, created_at, used_at, expires_at)
SELECT $1, $2, $3, $4, $5, now() AS created_at, now() AS used_at, least(now() + $6::interval, expires_at)
FROM api_key WHERE namespace_id = $2 AND id = $3
RETURNING created_at, used_at, expires_at`

// CreateLogin creates a login session of a key and returns it with its secret, which is not stored. If the key has
// access.MaxLogins sessions, the oldest ends. ErrNotFound: the key was revoked or has expired meanwhile.
func (a *API) CreateLogin(ctx context.Context, o access.LoginParams) (l access.Login, secret string, err error) {
	var random [32]byte
	if _, err := rand.Read(random[:]); err != nil {
		return l, "", err
	}
	secret = access.FormatLogin(random)
	hash, err := access.LoginHash(secret)
	if err != nil {
		return l, "", err
	}
	l.Client = access.ShortClient(o.Client)
	if l.ID, err = uuid.NewV7(); err != nil {
		return l, "", err
	}
	err = a.db.Tx(ctx, pool.In(o.Namespace), "log in", func(tx pgx.Tx) error {
		locked, err := tx.Exec(ctx, lockLoginKey, o.Namespace, o.Key)
		switch {
		case err != nil:
			return err
		case locked.RowsAffected() == 0:
			return ErrNotFound
		}
		if _, err := tx.Exec(
			ctx, dropLogins, o.Namespace, o.Key, access.MaxLogins-1, access.LoginIdle,
		); err != nil {
			return err
		}
		row := tx.QueryRow(ctx, insertLogin, l.ID, o.Namespace, o.Key, hash[:], l.Client, access.LoginLife)
		if err := row.Scan(&l.CreatedAt, &l.UsedAt, &l.ExpiresAt); err != nil {
			return err
		}
		l.CreatedAt, l.UsedAt, l.ExpiresAt = l.CreatedAt.UTC(), l.UsedAt.UTC(), l.ExpiresAt.UTC()
		return audit(ctx, tx, auditParams{o.Namespace, o.Actor(), "session.login", access.FormatLoginID(l.ID)},
			struct {
				Client string `json:"client"`
			}{l.Client})
	})
	if err != nil {
		return l, "", err
	}
	return l, secret, nil
}

// A session is valid while its key is. least ignores NULL.
const findLogin = `
SELECT k.id, k.name, k.namespace_id, n.name, k.role, l.id,
       extract(epoch FROM least(l.expires_at, l.used_at + $2::interval, k.expires_at) - now())::float8,
       l.used_at < now() - $3::interval
FROM login_session l JOIN api_key k ON k.id = l.key_id JOIN namespace n ON n.id = k.namespace_id
WHERE l.hash = $1 AND l.expires_at > now() AND l.used_at > now() - $2::interval
  AND k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > now())`

// LoginPrincipal returns who has the secret of a login session, by its hash. It also extends the session, but writes
// that at most once per access.LoginTouch. ErrNotFound: there is no such session, or it or its key has ended.
func (a *Admin) LoginPrincipal(ctx context.Context, hash [32]byte) (p access.Principal, err error) {
	var left float64
	var touch bool
	err = a.db.QueryRow(ctx, findLogin, hash[:], access.LoginIdle, access.LoginTouch).Scan(
		&p.Key, &p.KeyName, &p.Namespace, &p.NamespaceName, &p.Role, &p.Login, &left, &touch)
	switch {
	case noRows(err):
		return p, ErrNotFound
	case err != nil:
		return p, fmt.Errorf("find the login session: %w", err)
	}
	p.Left = max(1, time.Duration(left*float64(time.Second)))
	if touch {
		err = a.api.touchLogin(ctx, p)
	}
	return p, err
}

// touchLogin repeats the condition, because another node may have written meanwhile.
func (a *API) touchLogin(ctx context.Context, p access.Principal) error {
	return a.db.Tx(ctx, pool.In(p.Namespace), "extend the login session", func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `
UPDATE login_session SET used_at = now() WHERE namespace_id = $1 AND id = $2 AND used_at < now() - $3::interval`,
			p.Namespace, p.Login, access.LoginTouch)
		return err
	})
}

const listLogins = `
SELECT id, client, created_at, used_at, expires_at FROM login_session
WHERE namespace_id = $1 AND key_id = $2 AND expires_at > now() AND used_at > now() - $3::interval
ORDER BY created_at DESC, id DESC LIMIT $4`

// Logins lists the login sessions of a key, newest first.
func (a *API) Logins(ctx context.Context, namespace, key uuid.UUID) (out []access.Login, err error) {
	err = a.db.Query(ctx, pool.In(namespace), func(rows pgx.Rows) error {
		out, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (l access.Login, err error) {
			err = row.Scan(&l.ID, &l.Client, &l.CreatedAt, &l.UsedAt, &l.ExpiresAt)
			l.CreatedAt, l.UsedAt, l.ExpiresAt = l.CreatedAt.UTC(), l.UsedAt.UTC(), l.ExpiresAt.UTC()
			return l, err
		})
		return err
	}, listLogins, namespace, key, access.LoginIdle, access.MaxLogins)
	if err != nil {
		return nil, fmt.Errorf("list login sessions: %w", err)
	}
	return out, nil
}

// EndLogin ends the login session of a principal.
func (a *API) EndLogin(ctx context.Context, p access.Principal) error {
	return a.db.Tx(ctx, pool.In(p.Namespace), "log out", func(tx pgx.Tx) error {
		ended, err := tx.Exec(ctx, `DELETE FROM login_session WHERE namespace_id = $1 AND id = $2`, p.Namespace, p.Login)
		switch {
		case err != nil:
			return err
		case ended.RowsAffected() == 0:
			return ErrNotFound
		}
		object := access.FormatLoginID(p.Login)
		return audit(ctx, tx, auditParams{p.Namespace, p.Actor(), "session.logout", object}, struct{}{})
	})
}

const revokeLogins = `
WITH ended AS (
    DELETE FROM login_session WHERE namespace_id = $1 AND key_id = $2
    RETURNING expires_at > now() AND used_at > now() - $3::interval AS live)
SELECT count(*) FILTER (WHERE live) FROM ended`

// RevokeLogins ends all login sessions of a principal's key, and returns how many there were.
func (a *API) RevokeLogins(ctx context.Context, p access.Principal) (ended int, err error) {
	err = a.db.Tx(ctx, pool.In(p.Namespace), "revoke login sessions", func(tx pgx.Tx) error {
		row := tx.QueryRow(ctx, revokeLogins, p.Namespace, p.Key, access.LoginIdle)
		if err := row.Scan(&ended); err != nil || ended == 0 {
			return err
		}
		object := access.FormatKeyID(p.Key)
		return audit(ctx, tx, auditParams{p.Namespace, p.Actor(), "session.revoke", object}, struct {
			Sessions int `json:"sessions"`
		}{ended})
	})
	return ended, err
}

// DropLogins removes up to limit login sessions that have expired, and returns how many it removed.
func (a *Admin) DropLogins(ctx context.Context, limit int) (int, error) {
	gone, err := a.db.Exec(ctx, `
DELETE FROM login_session WHERE expires_at < now() AND id = ANY (ARRAY(
    SELECT id FROM login_session WHERE expires_at < now() AND belfry_clock_trusted()
    ORDER BY expires_at LIMIT $1))`, limit)
	if err != nil {
		return 0, fmt.Errorf("drop expired login sessions: %w", err)
	}
	return int(gone.RowsAffected()), nil
}
