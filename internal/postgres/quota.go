package postgres

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/store"
)

// quotaUse has an expression for each quota and cap: how much of it namespace $1 uses.
var quotaUse = map[access.Quota]string{
	access.QuotaJobs: `(SELECT coalesce(sum(jobs), 0)::bigint FROM namespace_usage WHERE namespace_id = $1)`,
	access.CapQueues: `(SELECT count(*) FROM queue WHERE namespace_id = $1)`,
	access.CapKeys: `(SELECT count(*) FROM api_key
    WHERE namespace_id = $1 AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > now()))`,
	// What is missing in the token bucket.
	access.QuotaRuns: `(SELECT CASE WHEN max_runs_per_minute IS NOT NULL THEN coalesce((
    SELECT ceil(greatest(0, max_runs_per_minute - r.tokens
                            - extract(epoch FROM now() - r.refilled_at) * max_runs_per_minute / 60))::bigint
    FROM namespace_rate r WHERE r.namespace_id = $1), 0) END)`,
}

// quotaLimit returns an expression for the limit.
func quotaLimit(q access.Quota) string {
	switch q {
	case access.CapQueues:
		return fmt.Sprintf("%d::bigint", access.MaxQueues)
	case access.CapKeys:
		return fmt.Sprintf("%d::bigint", access.MaxKeys)
	default:
		return "max_" + string(q)
	}
}

// SetQuotas sets quotas of a namespace, if there are any to set, and returns all of them. What already exceeds a new quota
// stays.
func (a *Admin) SetQuotas(ctx context.Context, name string, p access.QuotaParams) ([]access.QuotaUse, error) {
	if err := p.Validate(); err != nil {
		return nil, fmt.Errorf("set quotas: %w", err)
	}
	id, err := a.NamespaceNamed(ctx, name)
	if err == nil && len(p) > 0 {
		err = a.setQuotas(ctx, id, name, p)
	}
	if err != nil {
		return nil, err
	}
	return a.api.Quotas(ctx, id)
}

func (a *Admin) setQuotas(ctx context.Context, id uuid.UUID, name string, p access.QuotaParams) error {
	var set []string
	args := []any{id}
	for _, q := range slices.Sorted(maps.Keys(p)) {
		args = append(args, p[q])
		set = append(set, fmt.Sprintf("%s = $%d", quotaLimit(q), len(args)))
	}
	work := func(tx pgx.Tx) error {
		if runs, ok := p[access.QuotaRuns]; ok {
			// The lock keeps a queue from being created with the old quota meanwhile. Claims only read the table. Whoever
			// is changing a queue, and waits for the lock, is waited for only briefly.
			if _, err := tx.Exec(ctx, `SELECT set_config('lock_timeout', '`+lockTimeout+`', true)`); err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, `LOCK TABLE queue IN SHARE ROW EXCLUSIVE MODE`); err != nil {
				return err
			}
			const set = `UPDATE queue SET max_runs_per_minute = $2 WHERE namespace_id = $1`
			if _, err := tx.Exec(ctx, set, id, runs); err != nil {
				return err
			}
		}
		if _, err := tx.Exec(ctx, lockAudit, auditLock(id)); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `UPDATE namespace SET `+strings.Join(set, ", ")+` WHERE id = $1`, args...); err != nil {
			return err
		}
		return a.api.log.write(ctx, tx, auditParams{id, itself, "namespace.update", name}, struct {
			Quotas access.QuotaParams `json:"quotas"`
		}{p})
	}
	for try := 1; ; try++ {
		err := a.db.Tx(ctx, "set quotas of a namespace", work)
		if store.Code(err) != store.LockNotAvailable || try == maxTries || ctx.Err() != nil {
			return err
		}
	}
}

// Quotas returns the quotas of a namespace and how much of them is used.
func (a *API) Quotas(ctx context.Context, namespace uuid.UUID) ([]access.QuotaUse, error) {
	var columns []string
	for _, q := range access.Quotas {
		columns = append(columns, quotaLimit(q), quotaUse[q])
	}
	out := make([]access.QuotaUse, len(access.Quotas))
	var into []any
	for i, q := range access.Quotas {
		out[i].Quota = q
		into = append(into, &out[i].Limit, &out[i].Used)
	}
	err := a.db.Query(ctx, store.In(namespace), func(rows pgx.Rows) error {
		_, err := pgx.ForEachRow(rows, into, func() error { return nil })
		return err
	}, `SELECT `+strings.Join(columns, ", ")+` FROM namespace WHERE id = $1`, namespace)
	if err != nil {
		return nil, fmt.Errorf("read quotas: %w", err)
	}
	return out, nil
}

// additions is how much a transaction adds to quotas and caps of a namespace.
type additions map[access.Quota]int64

// read adds a statement to a batch that reads those quotas that the namespace has.
func (a additions) read(batch *pgx.Batch, namespace uuid.UUID, into *[]access.QuotaError) {
	var columns []string
	found := make([]access.QuotaUse, 0, len(a))
	for _, q := range slices.Sorted(maps.Keys(a)) {
		limit := quotaLimit(q)
		columns = append(columns, limit, fmt.Sprintf("CASE WHEN %s IS NOT NULL THEN %s END", limit, quotaUse[q]))
		found = append(found, access.QuotaUse{Quota: q})
	}
	var row []any
	for i := range found {
		row = append(row, &found[i].Limit, &found[i].Used)
	}
	sql := `SELECT ` + strings.Join(columns, ", ") + ` FROM namespace WHERE id = $1`
	batch.Queue(sql, namespace).Query(func(rows pgx.Rows) error {
		_, err := pgx.ForEachRow(rows, row, func() error {
			for _, f := range found {
				if f.Limit != nil {
					*into = append(*into, access.QuotaError{Quota: f.Quota, Limit: *f.Limit, Used: *f.Used, Added: a[f.Quota]})
				}
			}
			return nil
		})
		return err
	})
}

// exceeded returns an access.QuotaError if a quota does not allow what is to be added.
func exceeded(quotas []access.QuotaError) error {
	for i := range quotas {
		if e := &quotas[i]; e.Used+e.Added > e.Limit {
			return e
		}
	}
	return nil
}

func (a additions) readNow(ctx context.Context, tx pgx.Tx, namespace uuid.UUID) (quotas []access.QuotaError, err error) {
	var batch pgx.Batch
	a.read(&batch, namespace, &quotas)
	err = tx.SendBatch(ctx, &batch).Close()
	return quotas, err
}

// refuse returns an access.QuotaError if a quota does not allow now what is to be added. It is not exact, see check. It
// comes before the insert of queues, because an id that a transaction takes is used up even if it rolls back.
func (a additions) refuse(ctx context.Context, tx pgx.Tx, namespace uuid.UUID) error {
	quotas, err := a.readNow(ctx, tx, namespace)
	if err != nil {
		return err
	}
	return exceeded(quotas)
}

// check returns an access.QuotaError if a namespace now has more than a quota allows. The transaction has added
// something, and has written its audit entry after that. The lock of the audit log makes quotas exact: whoever had
// the lock before has committed, so it is counted, and whoever gets it later counts this transaction.
func (a additions) check(ctx context.Context, tx pgx.Tx, namespace uuid.UUID) error {
	quotas, err := a.readNow(ctx, tx, namespace)
	if err != nil {
		return err
	}
	for i := range quotas {
		quotas[i].Used -= quotas[i].Added
	}
	return exceeded(quotas)
}
