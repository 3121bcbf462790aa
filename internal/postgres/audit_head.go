package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/belfry-dev/belfry/internal/access"
)

// AuditHeads returns the last entry of the audit log of each namespace that has one, by name.
func (a *Admin) AuditHeads(ctx context.Context) ([]access.AuditHead, error) {
	const heads = `
SELECT n.name, l.seq, l.hash FROM namespace n
CROSS JOIN LATERAL (SELECT seq, hash FROM audit_log WHERE namespace_id = n.id ORDER BY seq DESC LIMIT 1) l
ORDER BY n.name`
	rows, err := a.db.Query(ctx, heads)
	if err != nil {
		return nil, fmt.Errorf("last entries of the audit log: %w", err)
	}
	out, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (h access.AuditHead, err error) {
		var hash []byte
		err = row.Scan(&h.Namespace, &h.Seq, &hash)
		copy(h.Hash[:], hash)
		return h, err
	})
	if err != nil {
		return nil, fmt.Errorf("last entries of the audit log: %w", err)
	}
	return out, nil
}
