package postgres

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/belfry-dev/belfry/internal/access"
	"github.com/belfry-dev/belfry/internal/job"
	"github.com/belfry-dev/belfry/internal/store"
)

// auditParams is who did what to which object.
type auditParams struct {
	namespace uuid.UUID
	actor     string // empty: Belfry itself
	action    string
	object    string
}

// named is the detail of an action that has no other.
type named struct {
	Name string `json:"name"`
}

// Belfry itself, in versions and in the audit log.
const itself = "belfry"

// lockAudit takes the lock of a namespace's audit log until the commit. Whoever changes the row of the namespace takes it
// first, because whoever deletes a secret has it already.
const lockAudit = `SELECT pg_advisory_xact_lock($1)`

const lastAudit = `
SELECT coalesce((SELECT max(seq) FROM audit_log WHERE namespace_id = $1), 0),
       coalesce((SELECT hash FROM audit_log WHERE namespace_id = $1 ORDER BY seq DESC LIMIT 1), ''), clock_timestamp()`

const insertAudit = `
INSERT INTO audit_log (namespace_id, seq, at, actor, action, object, detail, hash, address, request_id, seal)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, nullif($9, ''), nullif($10, ''), $11)`

// auditLog writes and checks entries.
type auditLog struct {
	sealer    Sealer                    // nil: entries get no seal
	secretsOf func(job.Target) []string // nil: none
}

// maxUsed is how many names of secrets an entry has.
const maxUsed = 100

// used is the part of an entry that names the secrets which jobs use after a change.
type used struct {
	Secrets []string `json:"secrets,omitempty"`
	More    int      `json:"more_secrets,omitempty"` // that are not listed
}

func (l auditLog) used(targets ...job.Target) (out used) {
	if l.secretsOf == nil {
		return out
	}
	for _, t := range targets {
		out.Secrets = append(out.Secrets, l.secretsOf(t)...)
	}
	slices.Sort(out.Secrets)
	out.Secrets = slices.Compact(out.Secrets)
	if out.More = len(out.Secrets) - maxUsed; out.More > 0 {
		out.Secrets = out.Secrets[:maxUsed]
	}
	out.More = max(out.More, 0)
	return out
}

// auditEntry is what to write about one change.
type auditEntry struct {
	auditParams
	detail any
}

// write writes what a transaction of a namespace did, so the entry exists if and only if the change does.
func (l auditLog) write(ctx context.Context, tx pgx.Tx, o auditParams, detail any) error {
	return l.writeAll(ctx, tx, []auditEntry{{o, detail}})
}

// writeAll writes entries of one namespace. They form a chain with the earlier ones, which a lock serializes until the
// commit. Call it last, so that the lock is short.
func (l auditLog) writeAll(ctx context.Context, tx pgx.Tx, entries []auditEntry) error {
	if len(entries) == 0 {
		return nil
	}
	namespace := entries[0].namespace
	// The lock needs its own statement: the next one must see the entries that were committed before the lock.
	if _, err := tx.Exec(ctx, lockAudit, auditLock(namespace)); err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	e := access.AuditEntry{Origin: access.OriginOf(ctx)}
	var last []byte
	if err := tx.QueryRow(ctx, lastAudit, namespace).Scan(&e.Seq, &last, &e.At); err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	copy(e.Hash[:], last)
	e.At = e.At.UTC()
	var batch pgx.Batch
	for _, o := range entries {
		text, err := json.Marshal(o.detail)
		if err != nil {
			return fmt.Errorf("audit: %w", err)
		}
		e.Seq++
		e.Actor, e.Action, e.Object, e.Detail = cmp.Or(o.actor, itself), o.action, o.object, string(text)
		e.Hash = e.Chain(namespace, e.Hash)
		if l.sealer != nil {
			if e.Seal, err = l.sealer.Seal(nil, e.SealBound()); err != nil {
				return fmt.Errorf("audit: %w", err)
			}
		}
		batch.Queue(
			insertAudit, namespace, e.Seq, e.At, e.Actor, e.Action, e.Object, e.Detail, slices.Clone(e.Hash[:]),
			e.Origin.Address, e.Origin.Request, e.Seal,
		)
	}
	if err := tx.SendBatch(ctx, &batch).Close(); err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	return nil
}

// auditLock returns the lock of a namespace's chain. It differs from the locks of sessions (store.SessionLock).
func auditLock(namespace uuid.UUID) int64 { return ^store.SessionLock(namespace) }

// audit adds an entry about the change, which is written when all changes of the transaction are.
func (c *change) audit(action string, detail any) {
	entry := auditParams{c.order.Namespace, c.order.Actor, action, job.FormatJobID(c.job.ID)}
	c.entries = append(c.entries, auditEntry{entry, detail})
}

const selectAudit = `
SELECT seq, at, actor, action, object, detail, hash, coalesce(address, ''), coalesce(request_id, ''), seal
FROM audit_log WHERE namespace_id = $1 `

func scanAudit(row pgx.CollectableRow) (e access.AuditEntry, err error) {
	var hash []byte
	err = row.Scan(
		&e.Seq, &e.At, &e.Actor, &e.Action, &e.Object, &e.Detail, &hash, &e.Origin.Address, &e.Origin.Request,
		&e.Seal,
	)
	copy(e.Hash[:], hash)
	e.At = e.At.UTC()
	return e, err
}

// sealOf checks the seal of an entry.
func (l auditLog) sealOf(e access.AuditEntry) access.SealState {
	switch {
	case e.Seal == nil:
		return access.SealNone
	case l.sealer == nil || !l.sealer.Knows(e.Seal):
		return access.SealUnknown
	}
	if _, err := l.sealer.Open(e.Seal, e.SealBound()); err != nil {
		return access.SealBad
	}
	return access.SealGood
}

// VerifyAudit checks up to limit entries of a namespace's chain, after a mark. The entry of the mark must still be there
// with its hash, so that a later change or removal of entries that were already verified is noticed too. It returns how
// far the chain is intact, and an error that names the first broken entry.
func (a *API) VerifyAudit(
	ctx context.Context, namespace uuid.UUID, from access.AuditCheck, limit int,
) (good access.AuditCheck, more bool, err error) {
	good = from
	good.Keyset = a.log.sealer != nil
	read, rows := 0, limit
	if from.Seq > 0 {
		rows++ // the entry of the mark
	}
	err = a.db.Query(ctx, store.In(namespace), func(entries pgx.Rows) error {
		defer entries.Close()
		marked := from.Seq == 0
		for entries.Next() {
			e, err := scanAudit(entries)
			if err != nil {
				return err
			}
			if !marked {
				if err := good.Resume(e, a.log.sealOf(e)); err != nil {
					return err
				}
				marked = true
				continue
			}
			if err := good.Next(namespace, e, a.log.sealOf(e)); err != nil {
				return err
			}
			read++
		}
		if err := entries.Err(); err != nil {
			return err
		}
		if !marked {
			return &access.AuditBroken{Seq: from.Seq}
		}
		return nil
	}, selectAudit+`AND seq >= $2 ORDER BY seq LIMIT $3`, namespace, from.Seq, rows)
	if err != nil {
		return good, false, fmt.Errorf("verify the audit log: %w", err)
	}
	return good, read == limit, nil
}
