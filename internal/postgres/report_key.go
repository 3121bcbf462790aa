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

// readReportKeys ends no key by a clock that is in doubt. That clock may put a key into use early, so that after a stop
// of all nodes, when the last trusted time is old, no key signs that has ended. Nor must a node open a key that has
// ended by either.
const readReportKeys = `
SELECT name, secret, sealed, use_at - latest, coalesce(until - trusted, interval '36500 days'),
       coalesce(until > latest, true)
FROM cluster_key, (SELECT t AS trusted, greatest(t, now()) AS latest FROM (SELECT belfry_ledger_time() AS t) l) clock
WHERE until IS NULL OR until > trusted
ORDER BY use_at DESC
LIMIT $1`

// ReportKeys returns the keys of the cluster for run tokens, the newest first. If one of them does not open, it returns
// an error and all keys: a node without it would reject tokens of other nodes.
func (a *Admin) ReportKeys(ctx context.Context) (keys access.TimedReportKeys, err error) {
	rows, err := a.db.Query(ctx, readReportKeys, 2*access.MaxReportKeys)
	var closed error
	if err == nil {
		keys, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (k access.TimedReportKey, err error) {
			var sealed []byte
			var needed bool
			if err = row.Scan(&k.Name, &k.Secret, &sealed, &k.UseIn, &k.EndsIn, &needed); err != nil || sealed == nil {
				return k, err
			}
			if k.Secret, err = a.openReportKey(k.Name, sealed); err != nil && needed {
				closed = err
			}
			return k, nil
		})
	}
	switch {
	case err == nil && len(keys) == 0:
		err = access.ErrNoReportKey
	case err == nil:
		err = closed
	}
	if err != nil {
		err = fmt.Errorf("read the keys of run tokens: %w", err)
	}
	return keys, err
}

func (a *Admin) openReportKey(name string, sealed []byte) ([]byte, error) {
	if a.api.sealer == nil {
		return nil, access.ErrSealedReportKey
	}
	key, err := a.api.sealer.Open(sealed, access.ReportKeyBound(name))
	if err != nil {
		return nil, fmt.Errorf("%w; %w", err, access.ErrSealedReportKey)
	}
	return key, nil
}

// DropReportKeys removes the keys for run tokens that have ended, and returns how many it removed.
func (a *Admin) DropReportKeys(ctx context.Context) (int, error) {
	gone, err := a.db.Exec(ctx, `DELETE FROM cluster_key WHERE until < now() AND belfry_clock_trusted()`)
	if err != nil {
		return 0, fmt.Errorf("delete the keys of run tokens that have ended: %w", err)
	}
	return int(gone.RowsAffected()), nil
}

// resealReportKeys is ResealSecrets for the keys of run tokens.
func (e *Engine) resealReportKeys(ctx context.Context) (done, left int, err error) {
	prefix := e.sealer.Prefix()
	err = e.db.Tx(ctx, "seal keys of run tokens again", func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, `
SELECT name, sealed FROM cluster_key WHERE substring(sealed FOR $2) <> $1
ORDER BY name FOR UPDATE`, prefix, len(prefix))
		if err != nil {
			return err
		}
		type sealedKey struct {
			Name   string
			Sealed []byte
		}
		old, err := pgx.CollectRows(rows, pgx.RowToStructByPos[sealedKey])
		if err != nil {
			return err
		}
		done, left = 0, 0
		for _, k := range old {
			sealed, err := e.reseal(k.Sealed, access.ReportKeyBound(k.Name))
			if err != nil {
				left++
				continue
			}
			if _, err := tx.Exec(ctx, `UPDATE cluster_key SET sealed = $2 WHERE name = $1`, k.Name, sealed); err != nil {
				return err
			}
			done++
		}
		return nil
	})
	return done, left, err
}

// rotationTime counts the keys that are accepted, and returns when a new one is used. The time that was trusted last is
// old while no node runs. A lost keyset is replaced then, so the clock is believed.
const rotationTime = `
SELECT count(*), $1::interval + CASE
    WHEN EXISTS (SELECT FROM session WHERE queue_id IS NULL /* nodes */ AND expires_at > now()) THEN belfry_clock()
    ELSE clock_timestamp() END
FROM cluster_key WHERE until IS NULL OR until > belfry_ledger_time()`

// endReportKeys ends the keys that a new one replaces.
const endReportKeys = `
UPDATE cluster_key SET until = $1::timestamptz + $2::interval
WHERE until IS NULL OR until > $1::timestamptz + $2::interval`

// RotateReportKey adds a key for run tokens, sealed if there is a keyset. Nodes sign with it after
// access.ReportKeyLead, and accept the keys before it for keep and access.ReportKeyGrace after that. The audit log of
// the default namespace records it.
func (a *Admin) RotateReportKey(ctx context.Context, keep time.Duration) (k access.ReportKey, err error) {
	if keep < 0 || keep > access.ReportLife {
		return k, fmt.Errorf("old keys can be kept from 0s to %s", job.Duration(access.ReportLife))
	}
	// Nodes need all keys that are kept. If no node lives, this is all that shows a wrong keyset.
	if _, err := a.ReportKeys(ctx); keep > 0 && errors.Is(err, access.ErrSealedReportKey) {
		return k, err
	}
	secret := make([]byte, access.ReportKeySize)
	_, _ = rand.Read(secret) // it never fails
	name := "report-" + uuid.NewString()
	var sealed []byte
	if a.api.sealer != nil {
		if sealed, err = a.api.sealer.Seal(secret, access.ReportKeyBound(name)); err != nil {
			return k, err
		}
		secret = nil
	}
	err = a.db.Tx(ctx, "rotate the key of run tokens", func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, lockAudit, auditLock(access.DefaultNamespace)); err != nil {
			return err
		}
		var keys int
		k = access.ReportKey{Name: name, Sealed: sealed != nil}
		if err := tx.QueryRow(ctx, rotationTime, access.ReportKeyLead).Scan(&keys, &k.UseAt); err != nil {
			return err
		}
		switch {
		case keys >= 2*access.MaxReportKeys:
			return fmt.Errorf("%w: %d keys are accepted, which is the most; belfry report-key list shows when they end",
				job.ErrConflict, keys)
		case keys >= access.MaxReportKeys && keep > 0:
			return fmt.Errorf("%w: %d keys are accepted, which is the most; belfry report-key list shows when they end, "+
				"and --keep 0s ends them now", job.ErrConflict, keys)
		}
		if _, err := tx.Exec(ctx, endReportKeys, k.UseAt, keep+access.ReportKeyGrace); err != nil {
			return err
		}
		const add = `INSERT INTO cluster_key (name, secret, sealed, use_at) VALUES ($1, $2, $3, $4)`
		if _, err := tx.Exec(ctx, add, name, secret, sealed, k.UseAt); err != nil {
			return err
		}
		if err := store.Enter(ctx, tx, store.In(access.DefaultNamespace)); err != nil {
			return err
		}
		return a.api.log.write(ctx, tx, auditParams{access.DefaultNamespace, itself, "report_key.rotate", name}, struct {
			UseAt  time.Time `json:"use_at"`
			Until  time.Time `json:"old_until"`
			Sealed bool      `json:"sealed"`
		}{k.UseAt.UTC(), k.UseAt.Add(keep + access.ReportKeyGrace).UTC(), k.Sealed})
	})
	switch {
	case store.Code(err) == "42501":
		return k, fmt.Errorf("%w; use the database URL of the owner of the database, as for belfry migrate", err)
	case store.ClockInDoubt(err):
		return k, fmt.Errorf("%w; correct the wrong clock, or if the clock of the database is right, run belfry clock"+
			" confirm, and try again: belfry clock show has the clocks", err)
	}
	return k, err
}

// ReportKeyList returns what may be shown about the keys of run tokens, the newest first.
func (a *Admin) ReportKeyList(ctx context.Context) (out []access.ReportKey, err error) {
	rows, err := a.db.Query(ctx, `
SELECT name, sealed IS NOT NULL, use_at, coalesce(until, 'epoch') FROM cluster_key ORDER BY use_at DESC`)
	if err == nil {
		out, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (k access.ReportKey, err error) {
			err = row.Scan(&k.Name, &k.Sealed, &k.UseAt, &k.Until)
			if k.UseAt, k.Until = k.UseAt.UTC(), k.Until.UTC(); k.Until.Unix() == 0 {
				k.Until = time.Time{}
			}
			return k, err
		})
	}
	if err != nil {
		return nil, fmt.Errorf("list the keys of run tokens: %w", err)
	}
	return out, nil
}
