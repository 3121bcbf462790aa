package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/store"
)

// Sealer encrypts values before they are stored, and decrypts them. A sealed value opens only with the same bound.
type Sealer interface {
	Seal(plain, bound []byte) ([]byte, error)
	Open(sealed, bound []byte) ([]byte, error)
	Prefix() []byte // the first bytes of everything that it seals now
	// Knows reports whether it has the key that sealed a value.
	Knows(sealed []byte) bool
}

const readSecret = `
SELECT version, value, previous, previous_until > now() AND previous IS NOT NULL, hosts, kinds
FROM secret
WHERE namespace_id = $1 AND name = $2`

//nolint:gosec // columns
const secretInfo = `
name, version, created_at, updated_at, updated_by, CASE WHEN previous_until > now() THEN previous_until END, hosts, kinds`

// writeSecret keeps the old value as the previous one if it stays valid for a while.
const writeSecret = `
INSERT INTO secret (namespace_id, name, version, value, created_at, updated_by, updated_at, hosts, kinds)
VALUES ($1, $2, $3, $4, now(), $5, now(), $7, $8)
ON CONFLICT (namespace_id, name) DO UPDATE
SET version = $3, value = $4, updated_at = now(), updated_by = $5, hosts = $7, kinds = $8,
    previous = CASE WHEN $6::interval > interval '0' THEN secret.value END,
    previous_until = CASE WHEN $6::interval > interval '0' THEN now() + $6 END
RETURNING ` + secretInfo

func scanSecret(row pgx.CollectableRow) (i access.SecretInfo, err error) {
	var until *time.Time
	b := &i.Binding
	err = row.Scan(&i.Name, &i.Version, &i.CreatedAt, &i.UpdatedAt, &i.UpdatedBy, &until, &b.Hosts, &b.Kinds)
	i.CreatedAt, i.UpdatedAt, i.PreviousUntil = i.CreatedAt.UTC(), i.UpdatedAt.UTC(), store.OrZero(until).UTC()
	return i, err
}

// PutSecret stores a secret. It replaces the secret of that name if there is one.
func (a *API) PutSecret(ctx context.Context, o access.SecretParams) (info access.SecretInfo, err error) {
	const what = "store a secret"
	if err := o.Validate(); err != nil {
		return info, fmt.Errorf("%s: %w", what, err)
	}
	if a.sealer == nil {
		return info, access.ErrNoKeyset
	}
	err = a.db.Tx(ctx, store.In(o.Namespace), what, func(tx pgx.Tx) error {
		old, err := lockSecret(ctx, tx, o.Namespace, o.Name)
		if err != nil {
			return err
		}
		if old.Version == 0 && old.count >= access.MaxSecrets {
			return fmt.Errorf("%w: the namespace has %d secrets, which is the most; delete one", job.ErrConflict, old.count)
		}
		binding := o.Change.Apply(old.Binding)
		if old.Version > 0 && !o.Admin && !binding.Equal(old.Binding) {
			return access.ErrNotAdmin
		}
		version := old.Version + 1 // the previous value opens as the version before
		if old.Version == 0 {
			version = old.deleted + 1
		}
		sealed, err := a.sealer.Seal([]byte(o.Value.Value()), access.SecretBound(o.Namespace, o.Name, version))
		if err != nil {
			return err
		}
		rows, err := tx.Query(ctx, writeSecret, o.Namespace, o.Name, version, sealed, o.Actor, o.KeepPrevious,
			binding.Hosts, binding.Kinds)
		if err != nil {
			return err
		}
		if info, err = pgx.CollectExactlyOneRow(rows, scanSecret); err != nil {
			return err
		}
		return a.log.write(ctx, tx, auditParams{o.Namespace, o.Actor, "secret.set", o.Name}, struct {
			Version int32 `json:"version"`
			boundTo
		}{version, boundTo(binding)})
	})
	return info, err
}

// boundTo is a binding in the audit log.
type boundTo struct {
	Hosts []string `json:"hosts,omitempty"`
	Kinds []string `json:"kinds,omitempty"`
}

// lockedSecret is a secret that no other transaction changes. Its version is 0 if it does not exist.
type lockedSecret struct {
	access.SecretInfo
	count   int32 // secrets of the namespace
	deleted int32 // the highest version of a secret that was deleted in the namespace
}

// lockSecret serializes changes of secrets, because a value is sealed for its version.
func lockSecret(ctx context.Context, tx pgx.Tx, namespace uuid.UUID, name string) (s lockedSecret, err error) {
	if _, err = tx.Exec(ctx, lockAudit, auditLock(namespace)); err != nil {
		return s, err
	}
	const read = `
SELECT (SELECT count(*) FROM secret WHERE namespace_id = n.id), n.secret_version, coalesce(s.version, 0), s.hosts, s.kinds
FROM namespace n LEFT JOIN secret s ON s.namespace_id = n.id AND s.name = $2
WHERE n.id = $1`
	b := &s.Binding
	err = tx.QueryRow(ctx, read, namespace, name).Scan(&s.count, &s.deleted, &s.Version, &b.Hosts, &b.Kinds)
	return s, err
}

// BindSecret changes where a secret may be used.
func (a *API) BindSecret(ctx context.Context, o access.BindParams) (info access.SecretInfo, err error) {
	const what = "bind a secret"
	if err := o.Change.Apply(access.SecretBinding{}).Validate(); err != nil {
		return info, fmt.Errorf("%s: %w", what, err)
	}
	err = a.db.Tx(ctx, store.In(o.Namespace), what, func(tx pgx.Tx) error {
		old, err := lockSecret(ctx, tx, o.Namespace, o.Name)
		if err != nil {
			return err
		}
		if old.Version == 0 {
			return job.ErrNotFound
		}
		binding := o.Change.Apply(old.Binding)
		const write = `
UPDATE secret SET hosts = $3, kinds = $4, updated_at = now(), updated_by = $5
WHERE namespace_id = $1 AND name = $2
RETURNING ` + secretInfo
		rows, err := tx.Query(ctx, write, o.Namespace, o.Name, binding.Hosts, binding.Kinds, o.Actor)
		if err != nil {
			return err
		}
		if info, err = pgx.CollectExactlyOneRow(rows, scanSecret); err != nil {
			return err
		}
		return a.log.write(ctx, tx, auditParams{o.Namespace, o.Actor, "secret.update", o.Name}, boundTo(binding))
	})
	return info, err
}

// SecretBindings returns the bindings of the named secrets of a namespace, of those that have one.
func (v *Views) SecretBindings(
	ctx context.Context, namespace uuid.UUID, names []string,
) (out map[string]access.SecretBinding, err error) {
	out = map[string]access.SecretBinding{}
	err = v.db.Query(ctx, store.In(namespace), func(rows pgx.Rows) error {
		var name string
		var b access.SecretBinding
		_, err := pgx.ForEachRow(rows, []any{&name, &b.Hosts, &b.Kinds}, func() error {
			out[name] = access.SecretBinding{Hosts: b.Hosts, Kinds: b.Kinds}
			return nil
		})
		return err
	}, `
SELECT name, hosts, kinds
FROM secret
WHERE namespace_id = $1 AND name = ANY($2) AND (hosts IS NOT NULL OR kinds IS NOT NULL)`, namespace, names)
	if err != nil {
		return nil, fmt.Errorf("read where secrets may be used: %w", err)
	}
	return out, nil
}

// Secrets lists the secrets of a namespace by name, after a given one, without their values.
func (v *Views) Secrets(
	ctx context.Context, namespace uuid.UUID, after string, limit int,
) (out []access.SecretInfo, err error) {
	err = v.db.Query(ctx, store.In(namespace), func(rows pgx.Rows) error {
		out, err = pgx.CollectRows(rows, scanSecret)
		return err
	}, `
SELECT `+secretInfo+`
FROM secret
WHERE namespace_id = $1 AND name > $2
ORDER BY name LIMIT $3`, namespace, after, limit)
	if err != nil {
		return nil, fmt.Errorf("list secrets: %w", err)
	}
	return out, nil
}

// DeleteSecret removes a secret permanently.
func (a *API) DeleteSecret(ctx context.Context, o access.DeleteSecretParams) error {
	return a.db.Tx(ctx, store.In(o.Namespace), "delete a secret", func(tx pgx.Tx) error {
		old, err := lockSecret(ctx, tx, o.Namespace, o.Name)
		switch {
		case err != nil:
			return err
		case old.Version == 0:
			return job.ErrNotFound
		case old.Binding.Bound() && !o.Admin:
			return access.ErrNotAdmin
		}
		if _, err := tx.Exec(ctx, `DELETE FROM secret WHERE namespace_id = $1 AND name = $2`, o.Namespace, o.Name); err != nil {
			return err
		}
		// The versions of the name are not used again, so that a deleted value cannot be put back under a new one.
		const remember = `UPDATE namespace SET secret_version = $2 WHERE id = $1 AND secret_version < $2`
		if _, err := tx.Exec(ctx, remember, o.Namespace, old.Version); err != nil {
			return err
		}
		return a.log.write(ctx, tx, auditParams{o.Namespace, o.Actor, "secret.delete", o.Name}, struct{}{})
	})
}

// Secret decrypts a secret for a target: the newest value and, while it is still valid, the previous one.
func (a *API) Secret(ctx context.Context, namespace uuid.UUID, name string) (out access.Secret, err error) {
	var version int32
	var sealed, before []byte
	var both *bool
	err = a.db.Query(ctx, store.In(namespace), func(rows pgx.Rows) error {
		_, err := pgx.CollectExactlyOneRow(rows, func(row pgx.CollectableRow) (_ struct{}, err error) {
			return struct{}{}, row.Scan(&version, &sealed, &before, &both, &out.Binding.Hosts, &out.Binding.Kinds)
		})
		return err
	}, readSecret, namespace, name)
	switch {
	case store.NoRows(err):
		return out, job.ErrNotFound
	case err != nil:
		return out, fmt.Errorf("read a secret: %w", err)
	case a.sealer == nil:
		return out, access.ErrNoKeyset
	}
	plain, err := a.sealer.Open(sealed, access.SecretBound(namespace, name, version))
	if err != nil {
		return out, fmt.Errorf("open the secret %s: %w", name, err)
	}
	out.Values = []string{string(plain)}
	if both != nil && *both {
		// A previous value that does not open must not fail the delivery.
		if plain, err := a.sealer.Open(before, access.SecretBound(namespace, name, version-1)); err == nil {
			out.Values = append(out.Values, string(plain))
		}
	}
	return out, nil
}

const oldSeals = `
SELECT namespace_id, name, version, value, previous
FROM secret
WHERE (substring(value FOR $2) <> $1 OR substring(previous FOR $2) <> $1) AND (namespace_id, name) > ($3, $4)
ORDER BY namespace_id, name LIMIT $5 FOR UPDATE`

// sealedRow is a row of the table secret.
type sealedRow struct {
	Namespace       uuid.UUID
	Name            string
	Version         int32
	Value, Previous []byte
}

const resealBatch = 100

// ResealSecrets encrypts again what was sealed with an old key: secrets, keys of run tokens and credentials of brokers. It
// returns how many it did, and how many are left because they do not open. Do not remove a key from the keyset before
// left is 0.
func (e *Engine) ResealSecrets(ctx context.Context) (done, left int, err error) {
	if e.sealer == nil {
		return 0, 0, nil
	}
	for _, reseal := range []func(context.Context) (done, left int, err error){e.resealReportKeys, e.resealBrokers} {
		d, l, err := reseal(ctx)
		if done, left = done+d, left+l; err != nil {
			return done, left, err
		}
	}
	for after := (sealedRow{}); ; {
		rows, failed, err := e.resealSome(ctx, after)
		if err != nil {
			return done, left, err
		}
		done, left = done+len(rows)-failed, left+failed
		if len(rows) < resealBatch {
			return done, left, nil
		}
		after = rows[len(rows)-1]
	}
}

func (e *Engine) resealSome(ctx context.Context, after sealedRow) (old []sealedRow, failed int, err error) {
	prefix := e.sealer.Prefix()
	err = e.db.Tx(ctx, "seal secrets again", func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, oldSeals, prefix, len(prefix), after.Namespace, after.Name, resealBatch)
		if err != nil {
			return err
		}
		if old, err = pgx.CollectRows(rows, pgx.RowToStructByPos[sealedRow]); err != nil {
			return err
		}
		failed = 0
		for _, r := range old {
			value, err1 := e.reseal(r.Value, access.SecretBound(r.Namespace, r.Name, r.Version))
			previous, err2 := e.reseal(r.Previous, access.SecretBound(r.Namespace, r.Name, r.Version-1))
			if err1 != nil || err2 != nil {
				failed++
				continue
			}
			const update = `UPDATE secret SET value = $3, previous = $4 WHERE namespace_id = $1 AND name = $2`
			if _, err := tx.Exec(ctx, update, r.Namespace, r.Name, value, previous); err != nil {
				return err
			}
		}
		return nil
	})
	return old, failed, err
}

func (e *Engine) reseal(sealed, bound []byte) ([]byte, error) {
	if sealed == nil {
		return nil, nil
	}
	plain, err := e.sealer.Open(sealed, bound)
	if err != nil {
		return nil, err
	}
	return e.sealer.Seal(plain, bound)
}
