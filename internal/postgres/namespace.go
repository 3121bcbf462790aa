package postgres

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/store"
)

const insertNamespace = `
INSERT INTO namespace (id, name) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING RETURNING created_at`

// CreateNamespace creates a namespace. Only an operator with access to the database may do that, because no key reaches
// beyond its own namespace. ErrConflict: the name is taken.
func (a *Admin) CreateNamespace(ctx context.Context, name string) (n access.Namespace, err error) {
	if err := access.ValidateNamespace(name); err != nil {
		return n, fmt.Errorf("create namespace: %w", err)
	}
	n.Name = name
	if n.ID, err = uuid.NewV7(); err != nil {
		return n, fmt.Errorf("create namespace: %w", err)
	}
	err = a.db.Tx(ctx, "create namespace", func(tx pgx.Tx) error {
		err := tx.QueryRow(ctx, insertNamespace, n.ID, name).Scan(&n.CreatedAt)
		switch {
		case store.NoRows(err):
			return fmt.Errorf("%w: a namespace named %s already exists", job.ErrConflict, name)
		case err != nil:
			return err
		}
		return a.api.log.write(ctx, tx, auditParams{n.ID, itself, "namespace.create", name}, named{name})
	})
	return n, err
}

// NamespaceNamed returns the id of a namespace. The error says how to find the names that exist.
func (a *Admin) NamespaceNamed(ctx context.Context, name string) (id uuid.UUID, err error) {
	err = a.db.QueryRow(ctx, `SELECT id FROM namespace WHERE name = $1`, name).Scan(store.Raw(&id))
	if store.NoRows(err) {
		return id, fmt.Errorf("there is no namespace %q; belfry namespace list shows them", name)
	}
	return id, err
}

// NamespaceName returns the name of a namespace.
func (v *Views) NamespaceName(ctx context.Context, id uuid.UUID) (name string, err error) {
	err = v.db.Query(ctx, store.In(id), func(rows pgx.Rows) error {
		name, err = pgx.CollectExactlyOneRow(rows, pgx.RowTo[string])
		return err
	}, `SELECT name FROM namespace WHERE id = $1`, id)
	if err != nil {
		return "", fmt.Errorf("read the name of the namespace: %w", err)
	}
	return name, nil
}

// CreateCanary creates the namespace of the canary, unless it exists. It returns false if its name is taken.
func (a *Admin) CreateCanary(ctx context.Context) (ok bool, err error) {
	err = a.db.QueryRow(ctx, `SELECT belfry_create_canary($1)`, access.CanaryNamespace).Scan(&ok)
	if err != nil {
		return false, fmt.Errorf("create the namespace of the canary: %w", err)
	}
	return ok, nil
}

// Namespaces lists all namespaces by name.
func (a *Admin) Namespaces(ctx context.Context) ([]access.Namespace, error) {
	rows, err := a.db.Query(ctx, `SELECT id, name, created_at FROM namespace ORDER BY name`)
	if err != nil {
		return nil, fmt.Errorf("list namespaces: %w", err)
	}
	out, err := pgx.CollectRows(rows, pgx.RowToStructByPos[access.Namespace])
	if err != nil {
		return nil, fmt.Errorf("list namespaces: %w", err)
	}
	return out, nil
}

// NamespacesOfQueues returns the namespaces of queues.
func (a *Admin) NamespacesOfQueues(ctx context.Context, queues []int32) (map[int32]uuid.UUID, error) {
	rows, err := a.db.Query(ctx, `SELECT id, namespace_id FROM queue WHERE id = ANY ($1)`, queues)
	out := make(map[int32]uuid.UUID, len(queues))
	if err == nil {
		var id int32
		var namespace uuid.UUID
		_, err = pgx.ForEachRow(rows, []any{&id, store.Raw(&namespace)}, func() error { out[id] = namespace; return nil })
	}
	if err != nil {
		return nil, fmt.Errorf("read the namespaces of queues: %w", err)
	}
	return out, nil
}
