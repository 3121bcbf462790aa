package postgres

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/store"
)

// lockLoginKey also makes logins of a key wait for each other, so that they cannot exceed access.MaxLogins together.
const lockLoginKey = `
SELECT FROM api_key
WHERE namespace_id = $1 AND id = $2 AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > now())
FOR NO KEY UPDATE`

// dropLogins ends the oldest sessions of a key or a person so that $3 remain. Sessions that have ended go first.
const dropLogins = `
DELETE FROM login_session WHERE namespace_id = $1 AND id IN (
    SELECT id FROM login_session WHERE namespace_id = $1 AND key_id = $2
    ORDER BY expires_at > now() AND used_at > now() - $4::interval DESC, created_at DESC, id DESC OFFSET $3)`

// A session of a key does not outlive the key. least ignores NULL.
const insertLogin = `
INSERT INTO login_session (id, namespace_id, key_id, hash, client, created_at, used_at, expires_at,
                           issuer, subject, name, groups)
SELECT $1, $2, $3, $4, $5, now() AS created_at, now() AS used_at,
       least(now() + $6::interval, $7::timestamptz,
             (SELECT expires_at FROM api_key WHERE namespace_id = $2 AND id = $3)),
       $8, $9, $10, $11::text[]
ON CONFLICT (id) DO NOTHING
RETURNING created_at, used_at, expires_at`

// CreateLogin creates a login session of a key or a person and returns it with its secret, which is not stored. If there
// are access.MaxLogins sessions, the oldest ends. ErrNotFound: the key was revoked or has expired meanwhile. ErrConflict:
// a session with the id exists.
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
	l.Client, l.ID = access.ShortClient(o.Client), o.ID
	if l.ID == uuid.Nil {
		if l.ID, err = uuid.NewV7(); err != nil {
			return l, "", err
		}
	}
	err = a.db.Tx(ctx, store.In(o.Namespace), "log in", func(tx pgx.Tx) error {
		if err := lockLogins(ctx, tx, o.Principal); err != nil {
			return err
		}
		if _, err := tx.Exec(
			ctx, dropLogins, o.Namespace, o.Key, access.MaxLogins-1, access.LoginIdle,
		); err != nil {
			return err
		}
		if err := insertLoginOf(ctx, tx, o, hash[:], &l); err != nil {
			return err
		}
		detail := loginDetail{Client: l.Client, Issuer: o.Person.Issuer, Subject: o.Person.Subject}
		return a.log.write(ctx, tx, auditParams{o.Namespace, o.Actor(), "session.login", access.FormatLoginID(l.ID)}, detail)
	})
	if err != nil {
		return l, "", err
	}
	return l, secret, nil
}

type loginDetail struct {
	Client  string `json:"client"`
	Issuer  string `json:"issuer,omitempty"`
	Subject string `json:"subject,omitempty"`
}

// lockLogins makes logins of the same key or person wait for each other. A person has no row to lock. Logins of people
// are rare, so they wait for the audit log of the namespace, which they write to anyway.
func lockLogins(ctx context.Context, tx pgx.Tx, p access.Principal) error {
	if p.IsPerson() {
		_, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock($1)`, auditLock(p.Namespace))
		return err
	}
	locked, err := tx.Exec(ctx, lockLoginKey, p.Namespace, p.Key)
	if err == nil && locked.RowsAffected() == 0 {
		return job.ErrNotFound
	}
	return err
}

// insertLoginOf writes the row of a session, and reads its times.
func insertLoginOf(ctx context.Context, tx pgx.Tx, o access.LoginParams, hash []byte, l *access.Login) error {
	var issuer, subject, name *string
	var groups []string
	if p := o.Person; o.IsPerson() {
		issuer, subject, name, groups = &p.Issuer, &p.Subject, &p.Name, append([]string{}, p.Groups...)
	}
	var until *time.Time
	if !o.Until.IsZero() {
		until = &o.Until
	}
	err := tx.QueryRow(ctx, insertLogin, l.ID, o.Namespace, o.Key, hash, l.Client, access.LoginLife, until,
		issuer, subject, name, groups).Scan(&l.CreatedAt, &l.UsedAt, &l.ExpiresAt)
	if store.NoRows(err) {
		return fmt.Errorf("%w: the login was completed before", job.ErrConflict)
	}
	l.CreatedAt, l.UsedAt, l.ExpiresAt = l.CreatedAt.UTC(), l.UsedAt.UTC(), l.ExpiresAt.UTC()
	return err
}

// A session of a key is valid while the key is. least ignores NULL.
const findLogin = `
SELECT l.key_id, coalesce(k.name, l.name), l.namespace_id, n.name, coalesce(k.role, ''), l.id,
       coalesce(l.issuer, ''), coalesce(l.subject, ''), l.groups,
       extract(epoch FROM least(l.expires_at, l.used_at + $2::interval, k.expires_at) - now())::float8,
       l.used_at < now() - $3::interval
FROM login_session l JOIN namespace n ON n.id = l.namespace_id LEFT JOIN api_key k ON k.id = l.key_id
WHERE l.hash = $1 AND l.expires_at > now() AND l.used_at > now() - $2::interval
  AND (l.subject IS NOT NULL
       OR k.id IS NOT NULL AND k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > now()))`

// LoginPrincipal returns who has the secret of a login session, by its hash. It also extends the session, but writes
// that at most once per access.LoginTouch. The principal of a person has no role: see access.Provider. ErrNotFound:
// there is no such session, or it or its key has ended.
func (a *Admin) LoginPrincipal(ctx context.Context, hash [32]byte) (p access.Principal, err error) {
	var left float64
	var touch bool
	err = a.db.QueryRow(ctx, findLogin, hash[:], access.LoginIdle, access.LoginTouch).Scan(
		&p.Key, &p.KeyName, &p.Namespace, &p.NamespaceName, &p.Role, &p.Login,
		&p.Person.Issuer, &p.Person.Subject, &p.Person.Groups, &left, &touch)
	switch {
	case store.NoRows(err):
		return p, job.ErrNotFound
	case err != nil:
		return p, fmt.Errorf("find the login session: %w", err)
	}
	if p.IsPerson() {
		p.Person.Name = p.KeyName
	}
	p.Left = max(1, time.Duration(left*float64(time.Second)))
	if touch {
		err = a.api.touchLogin(ctx, p)
	}
	return p, err
}

// touchLogin repeats the condition, because another node may have written meanwhile.
func (a *API) touchLogin(ctx context.Context, p access.Principal) error {
	return a.db.Tx(ctx, store.In(p.Namespace), "extend the login session", func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `
UPDATE login_session SET used_at = now() WHERE namespace_id = $1 AND id = $2 AND used_at < now() - $3::interval`,
			p.Namespace, p.Login, access.LoginTouch)
		return err
	})
}

const listLogins = `
SELECT id, coalesce(name, ''), client, created_at, used_at, expires_at FROM login_session
WHERE namespace_id = $1 AND key_id = $2 AND expires_at > now() AND used_at > now() - $3::interval
ORDER BY created_at DESC, id DESC LIMIT $4`

// Logins lists the login sessions of a key or a person, newest first.
func (a *API) Logins(ctx context.Context, namespace, owner uuid.UUID) (out []access.Login, err error) {
	err = a.db.Query(ctx, store.In(namespace), func(rows pgx.Rows) error {
		out, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (l access.Login, err error) {
			err = row.Scan(&l.ID, &l.Name, &l.Client, &l.CreatedAt, &l.UsedAt, &l.ExpiresAt)
			l.CreatedAt, l.UsedAt, l.ExpiresAt = l.CreatedAt.UTC(), l.UsedAt.UTC(), l.ExpiresAt.UTC()
			return l, err
		})
		return err
	}, listLogins, namespace, owner, access.LoginIdle, access.MaxLogins)
	if err != nil {
		return nil, fmt.Errorf("list login sessions: %w", err)
	}
	return out, nil
}

// EndLogin ends the login session of a principal.
func (a *API) EndLogin(ctx context.Context, p access.Principal) error {
	return a.db.Tx(ctx, store.In(p.Namespace), "log out", func(tx pgx.Tx) error {
		ended, err := tx.Exec(ctx, `DELETE FROM login_session WHERE namespace_id = $1 AND id = $2`, p.Namespace, p.Login)
		switch {
		case err != nil:
			return err
		case ended.RowsAffected() == 0:
			return job.ErrNotFound
		}
		object := access.FormatLoginID(p.Login)
		return a.log.write(ctx, tx, auditParams{p.Namespace, p.Actor(), "session.logout", object}, struct{}{})
	})
}

const revokeLogins = `
WITH ended AS (
    DELETE FROM login_session WHERE namespace_id = $1 AND key_id = $2
    RETURNING expires_at > now() AND used_at > now() - $3::interval AS live)
SELECT count(*) FILTER (WHERE live) FROM ended`

// RevokeLogins ends all login sessions of a key or a person, and returns how many there were. It aborts the operations of
// someone else, and returns their number too.
func (a *API) RevokeLogins(ctx context.Context, o access.RevokeLoginsParams) (ended, aborted int, err error) {
	err = a.db.Tx(ctx, store.In(o.Namespace), "revoke login sessions", func(tx pgx.Tx) error {
		err := tx.QueryRow(ctx, revokeLogins, o.Namespace, o.Owner, access.LoginIdle).Scan(&ended)
		if err == nil && !strings.HasSuffix(o.Actor, "["+o.Object+"]") {
			aborted, err = abortOperations(ctx, tx, o.Namespace, o.Object)
		}
		if err != nil || ended+aborted == 0 {
			return err
		}
		return a.log.write(ctx, tx, auditParams{o.Namespace, o.Actor, "session.revoke", o.Object}, struct {
			Sessions int `json:"sessions"`
			Aborted  int `json:"aborted_operations,omitempty"`
		}{ended, aborted})
	})
	return ended, aborted, err
}
