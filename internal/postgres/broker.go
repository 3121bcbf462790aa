package postgres

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/store"
)

// PutBroker stores a broker, and replaces the one of that name. Only an operator with access to the database may do that.
// The audit log of the default namespace records it.
func (a *Admin) PutBroker(ctx context.Context, b *access.Broker) error {
	var sealed []byte
	if b.Credentials.Any() {
		if a.api.sealer == nil {
			return access.ErrNoKeyset
		}
		plain, err := json.Marshal(b.Credentials) //nolint:gosec // it is encrypted
		if err != nil {
			return err
		}
		bound, err := access.BrokerBound(b)
		if err != nil {
			return err
		}
		if sealed, err = a.api.sealer.Seal(plain, bound); err != nil {
			return err
		}
	}
	return a.changeBroker(ctx, "broker.set", b.Name, func(tx pgx.Tx) (any, error) {
		var ids []uuid.UUID
		for _, name := range b.Namespaces {
			var id uuid.UUID
			err := tx.QueryRow(ctx, `SELECT id FROM namespace WHERE name = $1`, name).Scan(store.Raw(&id))
			if store.NoRows(err) {
				err = fmt.Errorf("there is no namespace %q; belfry namespace list shows them", name)
			}
			if err != nil {
				return nil, err
			}
			ids = append(ids, id)
		}
		const write = `
INSERT INTO broker (name, kind, config, sealed, namespaces, updated_at) VALUES ($1, $2, $3, $4, $5, now())
ON CONFLICT (name) DO UPDATE SET kind = $2, config = $3, sealed = $4, namespaces = $5, updated_at = now()`
		_, err := tx.Exec(ctx, write, b.Name, b.Kind, b.Config, sealed, ids)
		return struct {
			Kind       string   `json:"kind"`
			Servers    []string `json:"servers"`
			Namespaces []string `json:"namespaces,omitempty"`
		}{b.Kind, b.Config.Servers, b.Namespaces}, err
	})
}

// DeleteBroker removes a broker.
func (a *Admin) DeleteBroker(ctx context.Context, name string) error {
	return a.changeBroker(ctx, "broker.delete", name, func(tx pgx.Tx) (any, error) {
		gone, err := tx.Exec(ctx, `DELETE FROM broker WHERE name = $1`, name)
		if err == nil && gone.RowsAffected() == 0 {
			err = fmt.Errorf("there is no broker %q; belfry broker list shows them", name)
		}
		return struct{}{}, err
	})
}

func (a *Admin) changeBroker(
	ctx context.Context, action, name string, change func(pgx.Tx) (detail any, err error),
) error {
	err := a.db.Tx(ctx, action, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, lockAudit, auditLock(access.DefaultNamespace)); err != nil {
			return err
		}
		detail, err := change(tx)
		if err != nil {
			return err
		}
		if err := store.Enter(ctx, tx, store.In(access.DefaultNamespace)); err != nil {
			return err
		}
		return a.api.log.write(ctx, tx, auditParams{access.DefaultNamespace, itself, action, name}, detail)
	})
	if store.Code(err) == "42501" {
		return fmt.Errorf("%w; use the database URL of the owner of the database, as for belfry migrate", err)
	}
	return err
}

// BrokerList lists all brokers by name, without their credentials.
func (a *Admin) BrokerList(ctx context.Context) (out []access.Broker, err error) {
	rows, err := a.db.Query(ctx, `
SELECT name, kind, config, updated_at,
       CASE WHEN namespaces IS NOT NULL
            THEN ARRAY(SELECT n.name FROM namespace n WHERE n.id = ANY (namespaces) ORDER BY n.name) END
FROM broker ORDER BY name`)
	if err == nil {
		out, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (b access.Broker, err error) {
			err = row.Scan(&b.Name, &b.Kind, &b.Config, &b.UpdatedAt, &b.Namespaces)
			b.UpdatedAt = b.UpdatedAt.UTC()
			return b, err
		})
	}
	if err != nil {
		return nil, fmt.Errorf("list brokers: %w", err)
	}
	return out, nil
}

// Brokers lists the brokers that a namespace may use, by name.
func (v *Views) Brokers(ctx context.Context, namespace uuid.UUID) (out []access.BrokerInfo, err error) {
	err = v.db.Query(ctx, store.In(namespace), func(rows pgx.Rows) error {
		out, err = pgx.CollectRows(rows, pgx.RowToStructByPos[access.BrokerInfo])
		return err
	}, `SELECT name, kind FROM broker ORDER BY name`)
	if err != nil {
		return nil, fmt.Errorf("list brokers: %w", err)
	}
	return out, nil
}

// Broker reads a broker that a namespace may use, with its credentials. access.ErrNoBroker: there is none of that name.
func (a *API) Broker(ctx context.Context, namespace uuid.UUID, name string) (*access.Broker, error) {
	b := &access.Broker{Name: name}
	var sealed []byte
	err := a.db.Query(ctx, store.In(namespace), func(rows pgx.Rows) error {
		_, err := pgx.CollectExactlyOneRow(rows, func(row pgx.CollectableRow) (_ struct{}, err error) {
			return struct{}{}, row.Scan(&b.Kind, &b.Config, &sealed)
		})
		return err
	}, `SELECT kind, config, sealed FROM broker WHERE name = $1`, name)
	switch {
	case store.NoRows(err):
		return nil, access.ErrNoBroker
	case err != nil:
		return nil, fmt.Errorf("read a broker: %w", err)
	case sealed == nil:
		return b, nil
	case a.sealer == nil:
		return nil, access.ErrNoKeyset
	}
	bound, err := access.BrokerBound(b)
	if err != nil {
		return nil, err
	}
	plain, err := a.sealer.Open(sealed, bound)
	if err != nil {
		return nil, fmt.Errorf("open the credentials of the broker %s: %w", name, err)
	}
	return b, json.Unmarshal(plain, &b.Credentials)
}

// resealBrokers is ResealSecrets for the credentials of brokers.
func (e *Engine) resealBrokers(ctx context.Context) (done, left int, err error) {
	prefix := e.sealer.Prefix()
	err = e.db.Tx(ctx, "seal credentials of brokers again", func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, `
SELECT name, kind, config, sealed FROM broker WHERE substring(sealed FOR $2) <> $1
ORDER BY name FOR UPDATE`, prefix, len(prefix))
		if err != nil {
			return err
		}
		type sealedBroker struct {
			access.Broker
			sealed []byte
		}
		old, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (b sealedBroker, err error) {
			err = row.Scan(&b.Name, &b.Kind, &b.Config, &b.sealed)
			return b, err
		})
		if err != nil {
			return err
		}
		done, left = 0, 0
		for i := range old {
			b := &old[i]
			bound, err := access.BrokerBound(&b.Broker)
			if err != nil {
				return err
			}
			sealed, err := e.reseal(b.sealed, bound)
			if err != nil {
				left++
				continue
			}
			if _, err := tx.Exec(ctx, `UPDATE broker SET sealed = $2 WHERE name = $1`, b.Name, sealed); err != nil {
				return err
			}
			done++
		}
		return nil
	})
	return done, left, err
}
